"""Packing: a plan puts the lengths of a histogram together, packs put the samples together.

Read first `greedy.py` (SPFHP and LPFHP), then `exact_filling.py`, a third greedy method, and then `plans.py`: what a
plan is. `methods.py` has `plan`, and the table that a new method gets into. `nnls.py` is packing by least squares;
`search/` finds the fewest packs, and `proofs.py` names and checks what proves how few there can be. `packs.py` has
packs of samples; `assigning.py` makes them of a plan, and `stream.py` of what passes by. `trees.py` finds what
sequences share, `tree_filling.py` and `tree_rows.py` lay them into rows that hold it once, and `search/tree_bound.py`
proves how few rows there can be. Exact filling and `tree_filling.py` add up lengths with `bit_sets.py`, and
`rounding.py` rounds them up a little where very many differ. `pairs.py`
packs samples that take of two budgets, tokens and patches.
"""

from packlib.packing.documents import CUTTING_RULES, DocumentRows, document_rows, least_cuts
from packlib.packing.least_squares import nonnegative_least_squares
from packlib.packing.methods import METHODS, Method, plan
from packlib.packing.nnls import full_strategies, num_full_strategies, strategy_matrix
from packlib.packing.packs import Packs
from packlib.packing.pairs import PairPacks, pack_pairs
from packlib.packing.plans import PackingPlan
from packlib.packing.search.bound import PRICE_OF_A_PACK, certified_bound
from packlib.packing.stream import StreamPacker
from packlib.packing.tree_rows import TreeRows, pack_tree_lengths, pack_trees
from packlib.packing.trees import Trees, group_trees

__all__ = [
    "CUTTING_RULES",
    "METHODS",
    "PRICE_OF_A_PACK",
    "DocumentRows",
    "Method",
    "PackingPlan",
    "Packs",
    "PairPacks",
    "StreamPacker",
    "TreeRows",
    "Trees",
    "certified_bound",
    "document_rows",
    "full_strategies",
    "group_trees",
    "least_cuts",
    "nonnegative_least_squares",
    "num_full_strategies",
    "pack_pairs",
    "pack_tree_lengths",
    "pack_trees",
    "plan",
    "strategy_matrix",
]
