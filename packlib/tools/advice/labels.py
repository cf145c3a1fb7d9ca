"""Which tokens are trained on, counted so that the labels that a cut loses are known for every row length at once."""

from dataclasses import dataclass, field

import numpy as np

from packlib.lengths.overlong import CutRule


@dataclass
class Labels:
    """The labels of the sequences of a data set. A label is a token that the model is trained to predict.

    A causal model predicts a token from those before it. So the first token of a sequence is no label, nor is the first
    token of a further piece. A masked model can predict a first token too.

    Attributes:
        by_position: by position in a sequence, from 0 up, how many sequences have a label there.
        causal: by position, how many of these are labels of a causal model, which are lost if a piece begins there.
        by_length: by length, how many labels all sequences of this length have together.
        firsts: by position, how many sequences have their first label there.
    """

    by_position: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    causal: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    by_length: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    firsts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, lengths: np.ndarray, trained: np.ndarray, masked: np.ndarray) -> None:
        """Count the labels of the next sequences.

        Args:
            lengths: tokens of each sequence, shape (sequences,).
            trained: which tokens are trained on, the sequences laid end to end; bool, shape (tokens,).
            masked: which tokens have another token as their label, as a masked model does; same shape.
        """
        starts = np.cumsum(lengths) - lengths
        is_label = trained.copy()
        is_label[starts] &= masked[starts]
        labels = np.flatnonzero(is_label)  # indices of tokens
        sequence_of_label = np.searchsorted(starts, labels, side="right") - 1
        positions = labels - starts[sequence_of_label]
        _, first_labels = np.unique(sequence_of_label, return_index=True)  # the first label of each sequence with one
        label_counts = np.bincount(sequence_of_label, minlength=len(lengths))  # of each sequence
        self.by_position = _sum(self.by_position, np.bincount(positions))
        self.causal = _sum(self.causal, np.bincount(positions[~masked[labels]]))
        self.by_length = _sum(self.by_length, np.bincount(lengths, label_counts).astype(np.int64))
        self.firsts = _sum(self.firsts, np.bincount(positions[first_labels]))

    @property
    def number(self) -> int:
        """Number of labels in the sequences before any cut."""
        return int(self.by_position.sum())

    def kept(self, max_length: int, overlong: CutRule) -> int:
        """Return how many labels are kept if the rule `overlong` cuts sequences to at most `max_length` tokens."""
        if overlong == "drop":
            return int(self.by_length[: max_length + 1].sum())
        if overlong == "truncate":
            return int(self.by_position[:max_length].sum())
        return self.number - int(self.causal[::max_length].sum())  # pieces begin at each multiple of max_length

    def emptied(self, max_length: int, overlong: CutRule) -> int | None:
        """Return how many sequences "truncate" leaves without any of their labels; None for another rule."""
        return int(self.firsts[max_length:].sum()) if overlong == "truncate" else None


def _sum(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Add two arrays of counts of different lengths, the shorter one as if zeros followed it."""
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total
