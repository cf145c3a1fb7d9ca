"""Trees of what sequences share: rows by `pack_trees`, beside the ways of packers in use, and beside the bound.

`python data/record.py trees` writes data/benchmarks/trees.csv. All trees are synthetic: their shapes are those of
public recipes, the widths of their distributions are assumptions. Every draw is recorded, also where a peer takes fewer
rows.

The peers are written here as plain functions, after their projects' descriptions; none of their code was run.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.table import Growing, timed
from packlib.packing import TreeRows, Trees, group_trees, pack_tree_lengths, plan
from packlib.packing.search.tree_bound import tree_bound
from packlib.packing.trees import ROOT

MAX_LENGTH = 32_768
DRAWS = [
    (48, 0),
    (48, 1),
    (48, 2),
    (1_000, 0),
    *((48, seed) for seed in range(3, 12)),
]  # trees, and the seed of a draw


@dataclass
class Node:
    """Tokens, and the nodes below."""

    tokens: int
    children: "list[Node]"


class Lengths:
    """Log-normal numbers of tokens, at least 8."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, median: float, spread: float) -> int:
        return max(8, int(self.rng.lognormal(np.log(median), spread)))


def group(rng: np.random.Generator) -> Node:
    """Return a prompt with eight answers."""
    tokens = Lengths(rng)
    return Node(tokens(1500, 0.8), [Node(tokens(2500, 0.6), []) for _ in range(8)])


def rollouts(rng: np.random.Generator) -> Node:
    """Return two rollouts of seven segments of some 500 tokens; behind some of them it branches in two or three."""
    tokens = Lengths(rng)

    def segment(more: int) -> Node:
        own = tokens(500, 0.5)
        branches = 1 + int(rng.random() < 0.35) + int(rng.random() < 0.1) if more else 0
        return Node(own, [segment(more - 1) for _ in range(branches)])

    return Node(tokens(1500, 0.6), [segment(6) for _ in range(2)])


def thinking(rng: np.random.Generator) -> Node:
    """Draw a chat of 6 to 24 turns whose template drops old reasoning: each turn is a leaf, and the history goes on."""
    tokens = Lengths(rng)
    node = Node(tokens(400, 0.5), [])
    for _ in range(int(rng.integers(6, 25))):
        node = Node(tokens(900, 0.6), [Node(tokens(700, 0.8), []), node])
    return Node(tokens(3000, 0.4), [node])


def agents(rng: np.random.Generator) -> Node:
    """Return eight agents with one system prompt; at three turns of ten an agent compresses, or calls another."""
    tokens = Lengths(rng)

    def agent() -> Node:
        node = Node(tokens(600, 0.6), [])
        for _ in range(int(rng.integers(3, 12))):
            other = [Node(tokens(1200, 0.6), [])] if rng.random() < 0.3 else []
            node = Node(tokens(800, 0.6), [node, *other])
        return node

    return Node(tokens(4000, 0.4), [agent() for _ in range(8)])


FAMILIES: list[Callable[[np.random.Generator], Node]] = [group, rollouts, thinking, agents]


def as_trees(drawn: list[Node]) -> Trees:
    """Put nodes in the order of a walk; a node with one child is one with it."""
    parents, tokens, leaves, lengths = list[int](), list[int](), list[int](), list[int]()
    for root in drawn:
        waiting = [(root, ROOT, 0)]
        while waiting:
            node, parent, above = waiting.pop()
            own = node.tokens
            while len(node.children) == 1:
                node = node.children[0]
                own += node.tokens
            parents.append(parent)
            tokens.append(own)
            if not node.children:
                leaves.append(len(parents) - 1)
                lengths.append(above + own)
            at = len(parents) - 1
            waiting += [(child, at, above + own) for child in reversed(node.children)]
    return Trees(np.array(parents), np.array(tokens), np.array(leaves), np.array(lengths))


def draw(family: Callable[[np.random.Generator], Node], number: int, seed: int) -> Trees:
    """Return the trees whose paths fit into a row."""
    rng = np.random.default_rng([seed, number])
    drawn = list[Node]()
    while len(drawn) < number:
        one = family(rng)
        if as_trees([one]).lengths.max() <= MAX_LENGTH:
            drawn.append(one)
    return as_trees(drawn)


# The ways of others: each returns how many rows it takes


def nothing_shared(trees: Trees) -> int:
    """Return each path alone, by best fit."""
    return plan(trees.lengths, MAX_LENGTH, "lpfhp").num_packs


def one_level(trees: Trees) -> TreeRows:
    """Return what all sequences of a tree share is there once, and nothing else is shared."""
    ends = np.append(trees.roots[1:], len(trees.parents))
    prompts, answers = list[int](), list[list[int]]()
    for root, end in zip(trees.roots.tolist(), ends.tolist(), strict=True):
        own = trees.lengths[(trees.leaves >= root) & (trees.leaves < end)]
        shared = int(trees.tokens[root]) if len(own) > 1 else 1
        prompts.append(shared)
        answers.append((own - shared).tolist())
    return pack_tree_lengths(group_trees(prompts, answers), MAX_LENGTH, tries=5)


def first_fit_of_sequences(trees: Trees) -> int:
    """Pack as AReaL: sequence after sequence into the first row with room for what is new of it."""
    room, slots = np.empty(0, np.int64), trees.slots.tolist()
    held = dict[int, dict[int, set[int]]]()  # of each tree: by row, its nodes there
    for leaf in trees.leaves.tolist():
        path = trees.path(leaf)
        own = held.setdefault(path[0], {})
        takes = {row: sum(slots[node] for node in path if node not in nodes) for row, nodes in own.items()}
        alone = sum(slots[node] for node in path)
        fitting = [row for row, new in takes.items() if new <= room[row]]
        others = room >= alone
        others[list(own)] = False
        if others.any():
            fitting.append(int(others.argmax()))
        row = min(fitting, default=len(room))
        if row == len(room):
            room = np.append(room, MAX_LENGTH)
        room[row] -= takes.get(row, alone)
        own.setdefault(row, set()).update(path)
    return len(room)


def whole_trees_first(trees: Trees) -> int:
    """Keep trees that fit whole, cut others in the order of the walk when a row is full; then best fit."""
    slots, parts = trees.slots.tolist(), list[int]()
    held, used, root = set[int](), 0, ROOT
    for leaf in trees.leaves.tolist():
        path = trees.path(leaf)
        new = sum(slots[node] for node in path if node not in held)
        if used and (path[0] != root or used + new > MAX_LENGTH):
            parts.append(used)
            held, used = set(), 0
            new = sum(slots[node] for node in path)
        held.update(path)
        used, root = used + new, path[0]
    return plan([*parts, used], MAX_LENGTH, "lpfhp").num_packs


def one_draw(family: Callable[[np.random.Generator], Node], number: int, seed: int) -> dict:
    trees = draw(family, number, seed)
    rows, seconds = timed(partial(pack_tree_lengths, trees, MAX_LENGTH), time.process_time)
    least = rows.lower_bound
    row = {
        "family": family.__name__,
        "trees": number,
        "seed": seed,
        "sequences": len(trees.leaves),
        "tokens unshared ÷ shared": f"{rows.unshared_tokens / int(trees.slots.sum()):.2f}",
        "by tokens": -(-int(trees.slots.sum()) // MAX_LENGTH),
        "by copies": tree_bound(trees, MAX_LENGTH, by_prices=False),
        "at least": least,
        "pack_trees": len(rows),
        "above": f"{len(rows) / least - 1:.2%}",
        "CPU s": f"{seconds:.1f}",
    }
    peers = {
        "nothing shared": nothing_shared(trees),
        "one level": len(one_level(trees)) if number < 100 else None,
        "first fit of sequences": first_fit_of_sequences(trees),
        "whole trees first": whole_trees_first(trees),
    }
    for name, taken in peers.items():
        row[name] = "" if taken is None else f"{taken} ({taken / least - 1:.1%})"
    return row


COLUMNS = [
    "family",
    "trees",
    "seed",
    "sequences",
    "tokens unshared ÷ shared",
    "by tokens",
    "by copies",
    "at least",
    "pack_trees",
    "above",
    "CPU s",
    "nothing shared",
    "one level",
    "first fit of sequences",
    "whole trees first",
]


def main() -> None:
    """Record all draws; those that the file has already are left as they are."""
    growing = Growing("trees.csv", COLUMNS)
    for number, seed in DRAWS:
        for family in FAMILIES:
            if not growing.has(family=family.__name__, trees=number, seed=seed):
                growing.add([one_draw(family, number, seed)], "python data/record.py trees", ("numpy", "highspy"))
