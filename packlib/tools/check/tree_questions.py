"""The questions about sequences that share tokens at any depth: does a branch see another, and is each path what it is
alone?

A path lies in pieces in a row, one for each node of its tree. Nodes are found by their content, as sequences are, in
any layout. What a row computes in a node is compared with what the node gets in a path that has a row of its own.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from packlib.batches import IGNORED
from packlib.packing.trees import ROOT, shared_trees
from packlib.tools.check.called_model import CalledModel
from packlib.tools.check.collated_batch import CalledBatch, collated
from packlib.tools.check.findings import INCONCLUSIVE, PASSED, Finding
from packlib.tools.check.locating import POSITIONS, locate

_APART = 256  # roundings by which outputs in rows of other lengths may differ
_PATHS = 24  # that the model is called with at most, unless two groups have more
_LEAST = 2  # tokens of a node that is looked for: a single token may be anywhere


class Paths(CalledBatch):
    """A batch of trees, and where their nodes are in it.

    Attributes:
        paths: the tokens of each sequence.
        labels: its labels, as many as tokens; -100 for none.
        nodes: the trees of all paths.
        begins: for each node the place of its first token in the paths through it.
        is_leaf: for each node whether it has no children.
        pieces: of the nodes that are whole in the batch; the sequence of a piece is the number of the node.
        limit: the largest distance of outputs that counts as noise or rounding.
    """

    def __init__(self, called: CalledModel, collate: Callable, groups: Sequence[Mapping[str, Any]]) -> None:
        chosen_groups = _few(groups)
        self.paths = [[*path] for group in chosen_groups for path in group["paths"]]
        group_of = [index for index, group in enumerate(chosen_groups) for _ in group["paths"]]  # for each path
        self.labels = [
            [*group_labels]
            for group in chosen_groups
            for group_labels in group.get("labels", _all_labels(group["paths"]))
        ]
        self.nodes = shared_trees(self.paths, group_of)
        parents = self.nodes.parents.tolist()
        self.begins = [0] * len(parents)
        for node, parent in enumerate(parents):  # parents come before their children
            if parent != ROOT:
                self.begins[node] = self.begins[parent] + int(self.nodes.tokens[parent])
        self.is_leaf = [node not in set(parents) for node in range(len(parents))]
        batch = collated(called, collate, [dict(group) for group in chosen_groups])
        pieces = locate(
            batch["input_ids"].cpu().numpy(), [np.asarray(self._wanted(node)) for node in range(len(parents))]
        )
        whole_pieces = [piece for piece in pieces if len(piece.slots) == len(self._wanted(piece.sequence))]
        super().__init__(called, batch, [piece for piece in whole_pieces if len(piece.slots) >= _LEAST])
        self.limit = max(10 * self.noise.same_seed, _APART * self.rounding)

    def _wanted(self, node: int) -> list[int]:
        """Return the tokens of a node that must be in the batch.

        Without the last one, unless the node is a leaf: it may be at the heads of the node's children instead.
        """
        sequence = self.sequence_through(node)
        end = self.begins[node] + int(self.nodes.tokens[node]) - (not self.is_leaf[node])
        return self.paths[sequence][self.begins[node] : end]

    def sequence_through(self, node: int) -> int:
        """Return the longest sequence that runs through a node."""
        through = [index for index, leaf in enumerate(self.nodes.leaves.tolist()) if node in self.nodes.path(leaf)]
        return max(through, key=lambda index: len(self.paths[index]))

    def foreign(self) -> np.ndarray:
        """Mark the pieces (column) that must not move a piece (row), all but those above it; bool, (pieces, pieces)."""
        nodes_above = [set(self.nodes.path(node)) for node in range(len(self.nodes.parents))]
        return np.array(
            [[sees.sequence not in nodes_above[looks.sequence] for sees in self.pieces] for looks in self.pieces]
        )

    def unpacked_outputs(self, sequence: int) -> Tensor:
        """Compute the outputs of a path in a row of its own; shape (tokens, width)."""
        return self.called({"input_ids": torch.tensor([self.paths[sequence]])}).outputs


def tree_findings(called: CalledModel, collate: Callable, groups: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield a finding for each question; see `check_packing`."""
    with called.mode(train=False):
        checked = Paths(called, collate, groups)
        found_nodes = {piece.sequence for piece in checked.pieces}
        leaves = [node for node, leaf in enumerate(checked.is_leaf) if leaf and checked.nodes.tokens[node] >= _LEAST]
        if missing := [node for node in leaves if node not in found_nodes]:
            path = checked.sequence_through(missing[0])
            evidence = f"The last {checked.nodes.tokens[missing[0]]} tokens of path {path} are not found in one piece."
            yield Finding.failed("tokens", evidence, "lost", which="a path")
        else:
            yield Finding("tokens", PASSED, f"The ends of all paths that can be told apart are there, {len(leaves)}.")
        moves = checked.moves(checked.batch)
        foreign = np.where(checked.foreign(), moves, 0.0)
        leak = foreign.max(initial=0)
        if leak > checked.limit:
            looks, sees = np.argwhere(foreign == leak)[0]
            evidence = f"Tokens of {_named(checked, sees)} move {_named(checked, looks)} by {leak:.2g}."
            yield Finding.failed("isolation of branches", evidence, "branch")
        else:
            evidence = f"{len(checked.pieces)} pieces are moved by no token but those above them."
            yield Finding("isolation of branches", PASSED, evidence)
        unpacked_outputs = [checked.unpacked_outputs(sequence) for sequence in range(len(checked.paths))]
        yield _same_as_alone(checked, unpacked_outputs, moves, leak > checked.limit)
        yield _loss(checked, unpacked_outputs)


def _named(checked: Paths, piece: int) -> str:
    """Name a piece by the longest path through it and the position at which it begins."""
    node = checked.pieces[piece].sequence
    return f"path {checked.sequence_through(node)} from position {checked.begins[node]} on"


def _same_as_alone(checked: Paths, unpacked_outputs: list[Tensor], moves: np.ndarray, leaks: bool) -> Finding:
    """Find out if each piece has the outputs that it has in a path alone.

    Args:
        unpacked_outputs: of each path in a row of its own; shape (tokens, width).
        moves: between pieces, as `CalledBatch.moves` returns them.
        leaks: whether branches see others, which then is the cause.
    """
    distances = list[float]()
    misplaced = 0  # pieces with other positions than in their path
    positions = checked.batch.get(POSITIONS)
    for piece in checked.pieces:
        begin, sequence = checked.begins[piece.sequence], checked.sequence_through(piece.sequence)
        output_alone = unpacked_outputs[sequence][begin : begin + len(piece.slots)]
        distances.append(checked.distance(checked.call.outputs[piece.slots], output_alone).max().item())
        if isinstance(positions, Tensor) and positions.shape == checked.batch["input_ids"].shape:
            places = begin + torch.arange(len(piece.slots))
            misplaced += bool((positions.flatten()[piece.slots].cpu() != places).any())
    differing = sum(distance > checked.limit for distance in distances)
    evidence = f"{differing} of {len(distances)} pieces differ from what they are in their path alone, by "
    evidence += f"{max(distances, default=0.0):.2g} of the outputs; what is below {checked.limit:.2g} is rounding."
    if not differing:
        return Finding("same as alone", PASSED, evidence)
    nodes = np.array([piece.sequence for piece in checked.pieces])
    is_above = ~checked.foreign() & (nodes[:, None] != nodes)
    by_those_above = np.where(is_above, moves, 0.0)
    has_above = is_above.any(1)
    one_sees_nothing_above = has_above.any() and by_those_above[has_above].max(1).min() <= checked.limit
    if leaks:
        cause = "above"
    elif misplaced:
        cause = "branch positions"
    else:
        cause = "blind" if one_sees_nothing_above else "otherwise"
    return Finding.failed("same as alone", evidence, cause)


def _loss(checked: Paths, unpacked_outputs: list[Tensor]) -> Finding:
    """Find out if the loss is that of all labels of all paths, or counts a label that paths share once."""
    if checked.call.loss is None:
        return Finding("loss", INCONCLUSIVE, "The model returns no loss.")
    losses_by_path = list[Tensor]()
    loss_of_label = dict[tuple[int, int], Tensor]()  # by the node of the label and its place: shared ones come once
    for sequence, outputs in enumerate(unpacked_outputs):
        tokens, labels = torch.tensor(checked.paths[sequence]), torch.tensor(checked.labels[sequence])
        losses = cross_entropy(outputs[:-1], tokens[1:].to(outputs.device), reduction="none")
        places = 1 + torch.nonzero(labels[1:] != IGNORED).flatten()
        losses_by_path.append(losses[places - 1])
        path = checked.nodes.path(int(checked.nodes.leaves[sequence]))
        for place in places.tolist():
            node = max((node for node in path if checked.begins[node] <= place), key=lambda node: checked.begins[node])
            loss_of_label[node, place] = losses[place - 1]
    copies = Counter(piece.sequence for piece in checked.pieces)  # a node in two rows has its labels in both
    labeled = [losses for losses in losses_by_path if len(losses)]
    if not labeled:
        return Finding("loss", INCONCLUSIVE, "No path has a label.")
    loss = checked.call.loss.item()

    def is_the_loss(mean: Tensor) -> bool:
        return abs(mean.item() - loss) < 1e-4 * max(1.0, abs(loss))

    mean = torch.cat(labeled).mean()
    means = {
        "a mean over the labels of all paths": mean,
        "a mean over paths": torch.stack([losses.mean() for losses in labeled]).mean(),
    }
    once_a_row = [label_loss for (node, _), label_loss in loss_of_label.items() for _ in range(max(1, copies[node]))]
    for name, value in means.items():
        if is_the_loss(value):
            return Finding("loss", PASSED, f"The loss is {loss:.6g}: {name}, each alone.")
    if is_the_loss(torch.stack(once_a_row).mean()):
        evidence = f"The loss is {loss:.6g}: the mean with each label once; over all paths it is {mean.item():.6g}."
        return Finding.failed("loss", evidence, "shared labels")
    evidence = f"The loss is {loss:.6g}; the mean over the labels of all paths is {mean:.6g}."
    return Finding("loss", INCONCLUSIVE, evidence)


def _all_labels(paths: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return labels for all tokens of each path but the first, which nothing predicts."""
    return [[IGNORED, *path[1:]] for path in paths]


def _few(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the first groups that hold up to 24 paths in all, at least 2 groups; refuse groups without tokens."""
    for index, group in enumerate(groups):
        if not len(group["paths"]) or not all(len(path) > 1 for path in group["paths"]):
            raise ValueError(f"Group {index} must have paths of at least 2 tokens each.")
        labels = group.get("labels")
        if labels is not None and [*map(len, labels)] != [*map(len, group["paths"])]:
            raise ValueError(f"The labels of group {index} must be lists as long as its paths.")
    if len(groups) < 2:
        raise ValueError(f"sequences must be at least 2 groups, not {len(groups)}.")
    path_counts = np.cumsum([len(group["paths"]) for group in groups])
    return list(groups[: max(2, int((path_counts <= _PATHS).sum()))])
