"""Rows in which sequences share what they begin with, for models of transformers as they are.

The prompt 7 8 6 with the answers 4 5 and 9 becomes, with `pack_trees`, one row of 7 slots in place of 5 + 4:

    input_ids         7    8    6    4    5    6    9
    position_ids      0    1    2    3    4    2    3    every branch goes on from the prompt
    labels         -100 -100 -100    4    5 -100    9    where the prompt is not trained on
    seen_until        7    7    5    5    5    7    7    from this slot on, no slot sees the token

The last token of a node, here 6, stands at the head of each branch below it, because it predicts the first token of
every branch, and a slot predicts one token. A slot sees its own path and nothing else, so the model computes there
what it computes for the path alone. The same four columns describe trees of any depth.

A label on a shared slot belongs to several sequences. Unpacked, each of them has this label, with a weight of its own;
in the row, the label weighs as much as these together. `TreeBatch` knows which sequences have which label.
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

_FILLS = {"input_ids": 0, "position_ids": 0, "labels": IGNORED}  # by column, the value in slots of padding
_BY_SLOT = ("gpt_neo", "mpt", "roformer")  # families that measure distances in slots, and not by position_ids
_LARGE_MASK = 1 << 30  # bytes from which on a warning announces a mask of pairs

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
            Sequences that share a token need not all have a label there. By default all tokens but the first have
            labels.
        only: which rows to lay, by their numbers; by default all.

    Yields:
        `input_ids`, `position_ids`, `labels` and `seen_until`, one value for each slot; `sequences` and `last_slots`,
        one for each sequence of the row: its number, and the slot of its last token; and `label_slots`, `label_places`
        and `label_sequences`, one for each label of each sequence: its slot, its position in the sequence, and the
        sequence's index in `sequences`.

    Raises:
        TypeError, ValueError: naming a sequence that differs from what the rows were made for, or has a wrong label.
    """
    num_sequences = len(instance("rows", rows, TreeRows).trees.lengths)
    for name, lists in {"sequences": sequences, "labels": sequences if labels is None else labels}.items():
        if (count := sized(name, lists)) != num_sequences:
            raise ValueError(f"The rows were made for {num_sequences} sequences, not for {count} {name}.")
    if only is None:
        return _laid(rows, sequences, labels, range(len(rows)))
    if not isinstance(only, Iterable):
        raise TypeError(f"only must be numbers of rows, as in a list, not {shown(only)}.")
    row_numbers = [whole_number("A number of a row in only", row, 0, len(rows) - 1) for row in only]
    return _laid(rows, sequences, labels, row_numbers)


def _laid(
    rows: TreeRows, sequences: Sequence, labels: Sequence | None, row_numbers: Iterable[int]
) -> Iterator[Columns]:
    """Yield the columns of each of these rows."""
    for row_number in row_numbers:
        yield _Layout(rows, row_number, sequences, labels).columns()


class _Layout:
    """One row: which node has which slots, and which of the row's sequences has a label in which slot.

    A sequence has its `index` among those of the row, a token its `position` in the sequence, and its `slot` in the
    row. For the row at the top of this file:

        node    its own tokens    its slots    tokens in these    indices of the sequences through it
        0       7 8 6             0 1          7 8                0 1
        1       4 5               2 3 4        6 4 5              0
        2       9                 5 6          6 9                1

    Args:
        row_number: which of `rows` to lay.
        sequences, labels: of all sequences that were packed, as in `lay_trees`.
    """

    def __init__(self, rows: TreeRows, row_number: int, sequences: Sequence, labels: Sequence | None) -> None:
        self._trees = rows.trees
        self._nodes = rows.nodes(row_number)  # in the order of a walk: a parent before its children
        self._sequences = rows[row_number].tolist()
        self._tokens = [self._checked_tokens(sequence, sequences[sequence]) for sequence in self._sequences]
        if labels is None:
            self._is_labeled = [np.arange(len(tokens)) > 0 for tokens in self._tokens]
        else:
            self._is_labeled = [
                self._checked_labels(sequence, tokens, labels[sequence])
                for sequence, tokens in zip(self._sequences, self._tokens, strict=True)
            ]

        self._parents = {node: int(self._trees.parents[node]) for node in self._nodes}
        self._children: dict[int, list[int]] = {node: [] for node in self._nodes}
        for node, parent in self._parents.items():
            if parent != ROOT:
                self._children[parent].append(node)
        self._through: dict[int, list[int]] = {node: [] for node in self._nodes}  # indices of the sequences
        for index, sequence in enumerate(self._sequences):
            for node in self._trees.path(int(self._trees.leaves[sequence])):
                self._through[node].append(index)

        self._node_ends: dict[int, int] = {ROOT: 0}  # the position behind each node's last token
        self._slots: dict[int, range] = {}  # of each node
        self._last_slots = [0] * len(self._sequences)
        names = (*_FILLS, "seen_until", "sequences", "last_slots", "label_slots", "label_places", "label_sequences")
        self._columns: Columns = {name: [] for name in names}

    def columns(self) -> Columns:
        """Lay all nodes; return the columns that `lay_trees` yields for the row."""
        for node in self._nodes:
            self._lay(node)
        self._columns["seen_until"] = self._seen_until()
        self._columns["sequences"] = self._sequences
        self._columns["last_slots"] = self._last_slots
        return self._columns

    def _lay(self, node: int) -> None:
        """Add the slots of a node to the row, with the labels that are in them."""
        parent = self._parents[node]
        begin = self._node_ends[parent]  # the node's own tokens are those at positions from begin to end
        end = begin + int(self._trees.tokens[node])
        self._node_ends[node] = end

        has_head = parent != ROOT and self._is_branching(parent)  # its first slot has the parent's last token
        first_position = begin - 1 if has_head else begin
        end_position = end - 1 if self._is_branching(node) else end
        first_slot = len(self._columns["input_ids"])
        self._slots[node] = range(first_slot, first_slot + end_position - first_position)

        # Sequences agree where they run through a node together, but some end in it: the longest has all its tokens.
        longest = max((self._tokens[index] for index in self._through[node]), key=len)
        self._columns["input_ids"] += longest[first_position:end_position].tolist()
        self._columns["position_ids"] += range(first_position, end_position)
        self._columns["labels"] += [IGNORED] * (end_position - first_position)

        for index in self._through[node]:
            self._add_labels(index, begin, end_position, slot=first_slot + begin - first_position)
        if has_head and node == self._children[parent][0]:
            # The parent's last token has its label in the first head alone, for all sequences through the parent.
            for index in self._through[parent]:
                self._add_labels(index, begin - 1, begin, slot=first_slot)

    def _is_branching(self, node: int) -> bool:
        """Return True if a node has several children in the row: its last token is then at their heads instead."""
        return len(self._children[node]) > 1

    def _add_labels(self, index: int, begin: int, end: int, slot: int) -> None:
        """Add the labels of a sequence at positions from `begin` to `end`; position `begin` is in `slot`.

        If the sequence ends there, its last slot is noted too.
        """
        tokens = self._tokens[index]
        positions = begin + np.flatnonzero(self._is_labeled[index][begin:end])
        slots = (positions - begin + slot).tolist()
        for slot_of_label, token in zip(slots, tokens[positions].tolist(), strict=True):
            self._columns["labels"][slot_of_label] = token
        self._columns["label_slots"] += slots
        self._columns["label_places"] += positions.tolist()
        self._columns["label_sequences"] += [index] * len(slots)
        last_position = len(tokens) - 1
        if begin <= last_position < end:
            self._last_slots[index] = slot + last_position - begin

    def _seen_until(self) -> list[int]:
        """Return for each slot the slot behind its node's subtree: no slot from there on sees it."""
        subtree_ends: dict[int, int] = {}
        for node in reversed(self._nodes):  # children before their parents
            subtree_ends[node] = max([self._slots[node].stop, *(subtree_ends[c] for c in self._children[node])])
        return [subtree_ends[node] for node in self._nodes for _ in self._slots[node]]

    def _checked_tokens(self, sequence: int, tokens: Iterable[int]) -> np.ndarray:
        """Return the tokens of a sequence; int64. Raise a ValueError if their number is not that of the trees."""
        token_array = as_int64(tokens, "Token", f"position {{}} of sequence {sequence}".format)
        if len(token_array) != self._trees.lengths[sequence]:
            raise ValueError(
                f"The rows were made for {self._trees.lengths[sequence]} tokens of sequence {sequence}, not for "
                f"{len(token_array)}."
            )
        return token_array

    def _checked_labels(self, sequence: int, tokens: np.ndarray, labels: Iterable[int]) -> np.ndarray:
        """Mark the tokens of a sequence that have a label; bool. The first has none, since nothing predicts it.

        Raises:
            TypeError, ValueError: naming the sequence and the position of a label that is neither the token nor -100.
        """
        label_array = as_int64(labels, "Label", f"position {{}} of sequence {sequence}".format)
        if len(label_array) != len(tokens):
            raise ValueError(f"Sequence {sequence} must have {len(tokens)} labels, not {len(label_array)}.")
        is_labeled = label_array != IGNORED
        is_wrong = is_labeled & (label_array != tokens)
        if is_wrong.any():
            position = int(is_wrong.argmax())
            raise ValueError(
                f"A label must be the token in its place, which is {tokens[position]} at position {position} of "
                f"sequence {sequence}, or {IGNORED}, not {label_array[position]}."
            )
        is_labeled[0] = False
        return is_labeled


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """A batch of rows in which sequences share tokens: `model(**batch.inputs)`.

    Attributes:
        inputs: the arguments of the model: `input_ids`, `position_ids` and `labels`, shape (B, T); `attention_mask`,
            or a mapping of masks by kind of layer; and `use_cache`.
        labels: those of `inputs`, -100 for none; the slot before a label predicts it.
        sequences: the number of each sequence of the batch, row after row; list.
        last_slots: the slot of the last token of each, counted over the batch, row after row, from 0 to B·T - 1;
            int64, shape (sequences,).
        label_slots, label_places, label_sequences: for each label of each sequence its slot, counted over the batch,
            its position in the sequence, and the sequence's index in `sequences`; int64, shape (labels of all
            sequences,).
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
        predicting = scores[:, :-1].transpose(1, 2)  # (B, vocabulary, T - 1), as cross_entropy takes them
        losses = cross_entropy(predicting, self.labels[:, 1:], ignore_index=IGNORED, reduction="none")
        return pad(losses, (1, 0))  # the first slot of a row has no label

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
        """Return the weight of each slot's label: the sum of the weights of all sequences that have it; shape (B, T).

        A clipped objective needs two such sums, because the sign of an advantage decides which side is clipped:

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
        weights_of_labels = weights[self._on(self.label_sequences, weights)]
        weights_of_slots = weights.new_zeros(self.labels.numel())
        weights_of_slots = weights_of_slots.index_add(0, self._on(self.label_slots, weights), weights_of_labels)
        return weights_of_slots.view_as(self.labels)

    def sequence_sums(self, values: Tensor) -> Tensor:
        """Add up values of slots, such as log-probabilities, over the labels of each sequence; shape (sequences,).

        Args:
            values: shape (B, T); those of slots without a label are not added.
        """
        sums = values.new_zeros(len(self.sequences))
        values_of_labels = values.flatten()[self._on(self.label_slots, values)]
        return sums.index_add(0, self._on(self.label_sequences, values), values_of_labels)

    def at_labels(self, values: Sequence[Sequence[float]]) -> Tensor:
        """Put values of tokens, such as old log-probabilities, in the slots of their labels; shape (B, T).

        Slots without a label have 0. Where sequences share a label their values must be equal:
        `pack_trees(…, apart=values)` sees to that.

        Args:
            values: for each sequence that was packed, by its number, a value for each of its tokens.

        Raises:
            ValueError: if two sequences that share a label have different values there.
        """
        values_of = [np.asarray(values[sequence], dtype=np.float64) for sequence in self.sequences]
        labels = zip(self.label_sequences.tolist(), self.label_places.tolist(), strict=True)
        values_of_labels = torch.tensor(
            [values_of[index][position] for index, position in labels], dtype=torch.float64
        )
        label_slots = self.label_slots.cpu()
        values_of_slots = torch.zeros(self.labels.numel(), dtype=torch.float64)
        values_of_slots[label_slots] = values_of_labels  # of several labels in one slot, one is written
        if (differ := values_of_slots[label_slots] != values_of_labels).any():
            label = int(differ.nonzero()[0])
            sequence, position = self.sequences[int(self.label_sequences[label])], int(self.label_places[label])
            raise ValueError(
                f"values must be equal where sequences share a label; that of sequence {sequence} at position "
                f"{position} differs. Pass them to pack_trees as apart=."
            )
        return values_of_slots.view_as(self.labels).to(self.labels.device)

    @staticmethod
    def _on(indices: Tensor, values: Tensor) -> Tensor:
        """Return indices on the device of the values, since the batch may be on another one."""
        return indices.to(values.device)


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
        self._handover = Handover.of(model, "dense")
        self.pad_id = whole_number("pad_id", pad_id, 0)
        name, config = type(model).__name__, model.config
        if self._handover.kind != "causal":
            raise TypeError(f"{name} cannot take trees: shared tokens would see the branches behind them.")
        if config.model_type in _BY_SLOT or getattr(config, "alibi", False):
            raise TypeError(
                f"{name} cannot take trees: it measures distances in slots, and between shared tokens and their second "
                "branch lies the first."
            )

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> TreeBatch:
        """Return the batch of rows that `lay_trees` has yielded, or that were read from its files; at least one."""
        if not len(rows):
            raise ValueError("A batch needs at least one row; this one has none.")
        width = max(len(row["input_ids"]) for row in rows)
        columns = self._padded(rows, width)
        sizes, slots = torch.tensor([len(row["input_ids"]) for row in rows]), torch.arange(width)
        is_path_end = (columns["seen_until"] == slots + 1) & (slots < sizes[:, None])  # no slot behind it sees it
        path_lengths = columns["position_ids"][is_path_end] + 1
        self._handover.check_lengths(width, int(path_lengths.min()), int(path_lengths.max()))
        _announce(len(rows), width)

        def within(_: bool, dtype: torch.dtype, rule: Any) -> Tensor:
            return as_additive(tree_pairs(columns["seen_until"], columns["position_ids"], rule), dtype)

        inputs = {name: columns[name] for name in ("input_ids", "labels")} | {
            "position_ids": columns["position_ids"] + self._handover.first_position,
            "attention_mask": self._handover.masks(columns["input_ids"], within),
            "use_cache": False,
        }
        arguments = {name: value for name, value in inputs.items() if self._handover.takes(name)}
        first_slots = range(0, len(rows) * width, width)  # of each row, counted over the batch
        sequences_before = np.cumsum([0, *[len(row["sequences"]) for row in rows[:-1]]]).tolist()
        return TreeBatch(
            arguments,
            columns["labels"],
            [sequence for row in rows for sequence in row["sequences"]],
            last_slots=_joined(rows, "last_slots", first_slots),
            label_slots=_joined(rows, "label_slots", first_slots),
            label_places=_joined(rows, "label_places", [0] * len(rows)),
            label_sequences=_joined(rows, "label_sequences", sequences_before),
        )

    def _padded(self, rows: Sequence[Mapping[str, Any]], width: int) -> dict[str, Tensor]:
        """Return the columns with a value for each slot, each row filled up to `width`; int64, shape (B, width)."""
        columns = {}
        # Padding is seen until the end of the row, by padding alone, so that no slot sees nothing.
        for name, fill in (_FILLS | {"input_ids": self.pad_id, "seen_until": width}).items():
            padded_rows = [[*row[name], *[fill] * (width - len(row[name]))] for row in rows]
            columns[name] = torch.tensor(padded_rows, dtype=torch.int64)
        return columns


def _joined(rows: Sequence[Mapping[str, Any]], name: str, offsets: Iterable[int]) -> Tensor:
    """Join a column of all rows, with the offset of each row added to its values; int64, shape (values,)."""
    values = [value + offset for row, offset in zip(rows, offsets, strict=True) for value in row[name]]
    return torch.tensor(values, dtype=torch.int64)


def _announce(rows: int, width: int) -> None:
    """Warn of the memory that a mask of pairs takes, if that is much, before it is made."""
    size = 5 * rows * width**2  # bytes: four a pair of the mask itself, and one of the allowed pairs it is made from
    if size >= _LARGE_MASK:
        warnings.warn(
            f"A mask of pairs for {rows:,} rows of {width:,} slots takes {size / (1 << 30):.1f} GiB. On a GPU "
            "FlexAttention needs none: packlib.model.attention.tree_block_mask has its rule.",
            stacklevel=3,
        )
