"""Rows in which sequences share what they begin with, for models of transformers as they are.

The prompt 7 8 6 with the answers 4 5 and 9 becomes, with `pack_trees`, one row of 7 slots in place of 5 + 4:

    input_ids         7    8    6    4    5    6    9
    position_ids      0    1    2    3    4    2    3    every branch goes on from the prompt
    labels         -100 -100 -100    4    5 -100    9    where the prompt is not trained on
    seen_until        7    7    5    5    5    7    7    the slot from which on a slot is not seen any more

The last token of a node, here 6, stands at the head of each branch below it, because it predicts the first token of
every branch, and a slot predicts one token. From a slot its own path is seen and nothing else, so the model computes
there what it computes for the path alone. The same four rows describe trees of any depth.

A label on a shared slot stands for several sequences. Alone, each of them has this label, with a weight of its own; in
the row, the label weighs as much as these together. `TreeBatch` knows which sequences have which label.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad
from transformers import PreTrainedModel

from packlib.arguments import instance, shown, sized, whole_number
from packlib.batches import IGNORED
from packlib.lengths.counting import as_int64
from packlib.model.attention import as_additive, tree_pairs
from packlib.model.unmodified import Handover
from packlib.packing import TreeRows
from packlib.packing.trees import ROOT

_FILLS = {"input_ids": 0, "position_ids": 0, "labels": IGNORED}
_BY_SLOT = ("gpt_neo", "mpt", "roformer")  # families that measure distances in slots, and not by positions
_LARGE_MASK = 1 << 30  # bytes from which on a mask of pairs is announced

Columns = dict[str, list[int]]


def lay_trees(
    rows: TreeRows,
    sequences: Sequence[Iterable[int]],
    labels: Sequence[Iterable[int]] | None = None,
    only: Iterable[int] | None = None,
) -> Iterator[Columns]:
    """Lay the tokens of sequences into rows: for each row a mapping of columns, as drawn at the top of this file.

    >>> from packlib import lay_trees, pack_trees
    >>> sequences, labels = [[7, 8, 6, 4, 5], [7, 8, 6, 9]], [[-100, -100, -100, 4, 5], [-100, -100, -100, 9]]
    >>> rows = pack_trees(sequences, groups=[0, 0], max_length=8)
    >>> (row,) = lay_trees(rows, sequences, labels)
    >>> row["input_ids"], row["seen_until"], row["last_slots"]
    ([7, 8, 6, 4, 5, 6, 9], [7, 7, 5, 5, 5, 7, 7], [4, 6])

    Args:
        rows: what `pack_trees` made of the sequences.
        sequences: their tokens.
        labels: for each sequence its labels: for each token the token itself, or -100 if it is not trained on.
            Sequences that share a token may differ in that. By default all tokens but the first have labels.
        only: which rows to lay, by their numbers; by default all.

    Yields:
        `input_ids`, `position_ids`, `labels` and `seen_until`, one value for each slot; `sequences` and `last_slots`,
        one for each sequence of the row: its number, and the slot of its last token; and `label_slots`, `label_places`
        and `label_sequences`, one for each label of each sequence: its slot, its place in the sequence, and the
        sequence's place in `sequences`.

    Raises:
        TypeError, ValueError: naming a sequence that differs from what the rows were made for, or has a wrong label.
    """
    number = len(instance("rows", rows, TreeRows).trees.lengths)
    for name, lists in {"sequences": sequences, "labels": sequences if labels is None else labels}.items():
        if (count := sized(name, lists)) != number:
            raise ValueError(f"The rows were made for {number} sequences, not for {count} {name}.")
    if only is None:
        return _laid(rows, sequences, labels, range(len(rows)))
    if not isinstance(only, Iterable):
        raise TypeError(f"only must be numbers of rows, as in a list, not {shown(only)}.")
    return _laid(
        rows, sequences, labels, [whole_number("A number of a row in only", row, 0, len(rows) - 1) for row in only]
    )


def _laid(rows: TreeRows, sequences: Sequence, labels: Sequence | None, numbers: Iterable[int]) -> Iterator[Columns]:
    """Yield the columns of each of these rows."""
    for number in numbers:
        laying = _Laying(rows, sequences, labels)
        laying.add(rows.nodes(number), rows[number].tolist())
        yield laying.columns


class _Laying:
    """One row as it is laid out, node after node."""

    def __init__(self, rows: TreeRows, sequences: Sequence, labels: Sequence | None) -> None:
        self.trees = rows.trees
        self.sequences = sequences
        self.labels = labels
        names = (*_FILLS, "seen_until", "sequences", "last_slots", "label_slots", "label_places", "label_sequences")
        self.columns: Columns = {name: [] for name in names}

    def add(self, nodes: list[int], numbers: list[int]) -> None:
        """Add the nodes of a row, in the order of a walk, and the labels of its sequences."""
        columns = self.columns
        columns["sequences"] = numbers
        tokens = [self._tokens(sequence) for sequence in numbers]
        trained = [self._trained(*pair) for pair in zip(numbers, tokens, strict=True)]
        parents = {node: int(self.trees.parents[node]) for node in nodes}
        children: dict[int, list[int]] = {node: [] for node in nodes}
        for node in nodes:
            if parents[node] != ROOT:
                children[parents[node]].append(node)
        through: dict[int, list[int]] = {node: [] for node in nodes}  # which of the row's sequences, by their places
        for place, sequence in enumerate(numbers):
            for node in self.trees.path(int(self.trees.leaves[sequence])):
                through[node].append(place)
        last_slots = [0] * len(numbers)
        slots_of: dict[int, tuple[int, int]] = {}  # of each node the first slot, and the one behind its subtree
        depth: dict[int, int] = {ROOT: 0}
        for node in nodes:
            parent = parents[node]
            begin = depth[parent]
            depth[node] = end = begin + int(self.trees.tokens[node])
            has_head = parent != ROOT and len(children[parent]) > 1
            has_end = len(children[node]) <= 1  # or else the last token stands at the heads of the children
            first_place, end_place = begin - has_head, end - (not has_end)
            slot = len(columns["input_ids"])
            slots_of[node] = slot, slot + end_place - first_place
            longest = max(through[node], key=lambda place: len(tokens[place]))
            columns["input_ids"] += tokens[longest][first_place:end_place].tolist()
            columns["position_ids"] += range(first_place, end_place)
            columns["labels"] += [IGNORED] * (end_place - first_place)
            for place in through[node]:
                self._add_labels(place, tokens[place], trained[place], begin, end_place, slot + begin - first_place)
                if begin < len(tokens[place]) <= end_place:
                    last_slots[place] = slot + len(tokens[place]) - 1 - first_place
            if has_head and node == children[parent][0]:  # predicted from the parent's slots, for all who see these
                for place in through[parent]:
                    self._add_labels(place, tokens[place], trained[place], begin - 1, begin, slot)
                    if len(tokens[place]) == begin:
                        last_slots[place] = slot
        columns["last_slots"] = last_slots
        for node in reversed(nodes):
            first_slot, end_slot = slots_of[node]
            for child in children[node]:
                end_slot = max(end_slot, slots_of[child][1])
            slots_of[node] = first_slot, end_slot
        for at, node in enumerate(nodes):
            behind = slots_of[nodes[at + 1]][0] if at + 1 < len(nodes) else len(columns["input_ids"])
            columns["seen_until"] += [slots_of[node][1]] * (behind - slots_of[node][0])

    def _add_labels(
        self, place: int, tokens: np.ndarray, trained: np.ndarray, begin: int, end: int, slot: int
    ) -> None:
        """Add the labels of a sequence from token `begin` to `end`, of which the first stands in `slot`."""
        labeled_places = begin + np.flatnonzero(trained[begin:end])
        slots = (labeled_places - begin + slot).tolist()
        for slot_of_label, token in zip(slots, tokens[labeled_places].tolist(), strict=True):
            self.columns["labels"][slot_of_label] = token
        self.columns["label_slots"] += slots
        self.columns["label_places"] += labeled_places.tolist()
        self.columns["label_sequences"] += [place] * len(slots)

    def _tokens(self, sequence: int) -> np.ndarray:
        tokens = as_int64(self.sequences[sequence], "Token", f"position {{}} of sequence {sequence}".format)
        if len(tokens) != self.trees.lengths[sequence]:
            raise ValueError(
                f"The rows were made for {self.trees.lengths[sequence]} tokens of sequence {sequence}, not for "
                f"{len(tokens)}."
            )
        return tokens

    def _trained(self, sequence: int, tokens: np.ndarray) -> np.ndarray:
        """Mark the tokens of a sequence that have a label; bool. The first has none, since nothing predicts it."""
        if self.labels is None:
            return np.arange(len(tokens)) > 0
        labels = as_int64(self.labels[sequence], "Label", f"position {{}} of sequence {sequence}".format)
        if len(labels) != len(tokens):
            raise ValueError(f"Sequence {sequence} must have {len(tokens)} labels, not {len(labels)}.")
        trained = labels != IGNORED
        if (wrong := trained & (labels != tokens)).any():
            at = int(wrong.argmax())
            raise ValueError(
                f"A label must be the token in its place, which is {tokens[at]} at position {at} of sequence "
                f"{sequence}, or {IGNORED}, not {labels[at]}."
            )
        trained[0] = False
        return trained


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """A batch of rows in which sequences share tokens: `model(**batch.inputs)`.

    Attributes:
        inputs: `input_ids`, `position_ids`, `labels`, shape (B, T), `attention_mask`, one or a mapping of them by kind
            of layer, and `use_cache`: what the model takes.
        labels: those of `inputs`, -100 for none; a label is predicted by the slot before it.
        sequences: the number of each sequence of the batch, row after row; list.
        last_slots: the slot of the last token of each, counted through the batch; int64, shape (sequences,).
        label_slots, label_places, label_sequences: for each label of each sequence its slot, counted through the batch,
            its place in the sequence, and the sequence's place in `sequences`; int64, shape (labels of all sequences,).
    """

    inputs: dict[str, Any]
    labels: Tensor
    sequences: list[int]
    last_slots: Tensor
    label_slots: Tensor
    label_places: Tensor
    label_sequences: Tensor

    @property
    def labels_each(self) -> Tensor:
        """The number of labels of each sequence; int64, shape (sequences,)."""
        return torch.bincount(self.label_sequences, minlength=len(self.sequences))

    def losses(self, logits: Tensor) -> Tensor:
        """Return the negative log-probability of each label, 0 where there is none; shape (B, T), in its slot."""
        scores = logits if logits.dtype == torch.float64 else logits.float()
        losses = cross_entropy(
            scores[:, :-1].transpose(1, 2), self.labels[:, 1:], ignore_index=IGNORED, reduction="none"
        )
        return pad(losses, (1, 0))

    def loss(self, logits: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the loss, as if each sequence were alone.

        Without weights it is the mean over all labels of all sequences. With them it is the sum of all labels' losses,
        where each label of a sequence counts as much as the sequence's weight. Three ways to add up a loss are

            mean over tokens           loss(logits)
            mean over sequences        loss(logits, 1 / batch.labels_each.clamp(min=1) / len(batch.sequences))
            policy gradient            loss(logits, advantages)

        Args:
            logits: of the model; shape (B, T, vocabulary).
            weights: one for each sequence, in the order of `batch.sequences`; shape (sequences,).
        """
        losses = self.losses(logits)
        if weights is None:
            weights = losses.new_ones(len(self.sequences)) / max(1, len(self.label_slots))
        return (losses * self.slot_weights(weights.to(losses))).sum()

    def slot_weights(self, weights: Tensor) -> Tensor:
        """Return what each label weighs: the weights of all sequences that have it, added up; shape (B, T).

        A clipped objective takes two such sums, because the sign of an advantage decides which side is clipped:

            up, down = batch.slot_weights(advantages.clamp(min=0)), batch.slot_weights(advantages.clamp(max=0))
            gain = torch.minimum(ratio * up, clipped * up) + torch.minimum(ratio * down, clipped * down)

        Args:
            weights: one for each sequence; shape (sequences,).
        """
        if weights.shape != (len(self.sequences),):
            raise ValueError(
                f"weights must have the shape ({len(self.sequences)},), one for each sequence of the batch, not "
                f"{tuple(weights.shape)}."
            )
        summed_weights = weights.new_zeros(self.labels.numel())
        of_labels = weights[self._on(self.label_sequences, weights)]
        return summed_weights.index_add(0, self._on(self.label_slots, weights), of_labels).view_as(self.labels)

    def sequence_sums(self, values: Tensor) -> Tensor:
        """Return the sum of values, shape (B, T), over the labels of each sequence, such as its log-probability."""
        sums = values.new_zeros(len(self.sequences))
        values_of_labels = values.flatten()[self._on(self.label_slots, values)]
        return sums.index_add(0, self._on(self.label_sequences, values), values_of_labels)

    def at_labels(self, values: Sequence[Sequence[float]]) -> Tensor:
        """Put values of sequences' tokens, such as old log-probabilities, where their labels are; shape (B, T), else 0.

        Where sequences share a label their values must be equal: `pack_trees(…, apart=values)` sees to that.

        Args:
            values: for each sequence that was packed (by its number) one for each of its tokens.

        Raises:
            ValueError: if two sequences that share a label have different values there.
        """
        values_of = [np.asarray(values[sequence], dtype=np.float64) for sequence in self.sequences]
        pairs = zip(self.label_sequences.tolist(), self.label_places.tolist(), strict=True)
        values_of_labels = torch.tensor([values_of[at][place] for at, place in pairs], dtype=torch.float64)
        values_of_slots = torch.zeros(self.labels.numel(), dtype=torch.float64)
        values_of_slots[self.label_slots.cpu()] = values_of_labels
        if (differ := values_of_slots[self.label_slots.cpu()] != values_of_labels).any():
            at = int(differ.nonzero()[0])
            sequence, place = self.sequences[int(self.label_sequences[at])], int(self.label_places[at])
            raise ValueError(
                f"values must be equal where sequences share a label; that of sequence {sequence} at position {place} "
                "differs. Pass them to pack_trees as apart=."
            )
        return values_of_slots.view_as(self.labels).to(self.labels.device)

    @staticmethod
    def _on(index: Tensor, values: Tensor) -> Tensor:
        return index.to(values.device)


class TreeCollator:
    """Makes of rows of `lay_trees` a `TreeBatch` for an unmodified causal model, with a mask of pairs.

    >>> from packlib import TreeCollator, lay_trees, pack_trees
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    >>> sequences = [[7, 8, 6, 4, 5], [7, 8, 6, 9]]
    >>> rows = pack_trees(sequences, groups=[0, 0], max_length=8)
    >>> batch = TreeCollator(model)(list(lay_trees(rows, sequences)))
    >>> batch.inputs["attention_mask"][0, 0, 5].long().tolist()  # the head of the second sequence's branch
    [1, 1, 0, 0, 0, 1, 0]

    The mask of T² pairs a row is for the attention backends sdpa and eager; one of over a gibibyte is announced by a
    warning before it is made. Kernels of variable length, such as flash attention, know sequences and no trees. For
    FlexAttention, `packlib.model.attention.tree_block_mask` has the same rule.

    Args:
        model: a causal model of transformers; only what must be known of it is kept.
        pad_id: the token that fills rows up to the longest of a batch.

    Raises:
        TypeError: if the model would not compute the same as for each sequence alone, with the reason.
    """

    def __init__(self, model: PreTrainedModel, pad_id: int = 0) -> None:
        self._handover, self.pad_id = Handover.of(model, "dense"), whole_number("pad_id", pad_id, 0)
        name, config = type(model).__name__, model.config
        if self._handover.kind != "causal":
            raise TypeError(f"{name} cannot take trees: shared tokens would see the branches behind them.")
        if config.model_type in _BY_SLOT or getattr(config, "alibi", False):
            raise TypeError(
                f"{name} cannot take trees: it measures distances in slots, and between shared tokens and their second "
                "branch lies the first."
            )

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> TreeBatch:
        if not len(rows):
            raise ValueError("A batch needs at least one row; this one has none.")
        width, columns = max(len(row["input_ids"]) for row in rows), dict[str, Tensor]()
        for name, fill in (_FILLS | {"input_ids": self.pad_id, "seen_until": width}).items():
            filled = [[*row[name], *[fill] * (width - len(row[name]))] for row in rows]
            columns[name] = torch.tensor(filled, dtype=torch.int64)
        ends = columns["position_ids"][columns["seen_until"] == torch.arange(width) + 1] + 1  # of paths
        self._handover.check_lengths(width, int(ends.min()), int(ends.max()))
        _announce(len(rows), width)

        def within(_: bool, dtype: torch.dtype, rule: Any) -> Tensor:
            return as_additive(tree_pairs(columns["seen_until"], columns["position_ids"], rule), dtype)

        inputs = {name: columns[name] for name in ("input_ids", "labels")} | {
            "position_ids": columns["position_ids"] + self._handover.first_position,
            "attention_mask": self._handover.masks(columns["input_ids"], within),
            "use_cache": False,
        }
        arguments = {name: value for name, value in inputs.items() if self._handover.takes(name)}
        sequences_before = np.cumsum([0, *[len(row["sequences"]) for row in rows[:-1]]]).tolist()

        def joined(name: str, steps: Iterable[int]) -> Tensor:
            moved = [value + step for row, step in zip(rows, steps, strict=True) for value in row[name]]
            return torch.tensor(moved, dtype=torch.int64)

        first_slots = range(0, len(rows) * width, width)
        return TreeBatch(
            arguments,
            columns["labels"],
            [sequence for row in rows for sequence in row["sequences"]],
            joined("last_slots", first_slots),
            joined("label_slots", first_slots),
            joined("label_places", [0] * len(rows)),
            joined("label_sequences", sequences_before),
        )


def _announce(rows: int, width: int) -> None:
    """Say what a mask takes before it is made, if that is much: four bytes a pair, and one while it is made."""
    size = 5 * rows * width**2
    if size >= _LARGE_MASK:
        warnings.warn(
            f"A mask of pairs for {rows:,} rows of {width:,} slots takes {size / (1 << 30):.1f} GiB. On a GPU "
            "FlexAttention needs none: packlib.model.attention.tree_block_mask has its rule.",
            stacklevel=3,
        )
