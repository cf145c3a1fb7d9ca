"""What the functions of packing refuse, in one sentence each."""

import re
from dataclasses import replace

import numpy as np
import pytest

from packlib.lengths import load
from packlib.packing import (
    Packs,
    StreamPacker,
    document_rows,
    group_trees,
    least_cuts,
    nonnegative_least_squares,
    pack_tree_lengths,
    pack_trees,
    plan,
    strategy_matrix,
)
from packlib.packing.proofs import Prices
from packlib.work import Work, balance, balance_step

SQUAD, WIKIPEDIA, NAN = load("squad"), load("wikipedia"), float("nan")
PLAN = plan([7, 6, 5, 4, 3, 2, 2, 1, 1, 1], 8, max_sequences_per_pack=3)
SMALL = plan([3, 3, 5], 8)
PACKS = Packs([0, 1, 2], [0, 2, 3], [5, 3, 1], 8)
FEW = plan([8, 8, 4, 4], 8).assign([8, 8, 4, 4])
FIRST = np.array([1, 0, 0, 0])

TYPES = [
    (lambda: plan([3], method="spfhp", weight=1), "spfhp has no option 'weight': it has none"),
    (lambda: plan([3], method="nnlshp", seed=1), "'seed': its options are cutoff, weight, rounding"),
    (lambda: plan([3], max_sequences_per_pack=True), "max_sequences_per_pack must be a whole number"),
    (lambda: plan(SQUAD, "lpfhp"), "max_length must be a whole number from 1 to 16777216, not 'lpfhp'"),
    (lambda: plan([3], None, "lpfhp", 3), "positional"),
    (lambda: plan("wikipedia"), "takes lengths or a LengthHistogram, not 'wikipedia'"),
    (lambda: plan(None), "takes lengths or a LengthHistogram, not None"),
    (lambda: plan(SQUAD, time_limit="1"), "time_limit must be"),
    (lambda: plan(SQUAD, time_limit=True), "time_limit must be"),
    (lambda: plan(SQUAD, time_limit=[1]), "time_limit must be"),
    (lambda: replace(PLAN, repeats=PLAN.repeats * 1.5), "not a whole number"),
    (lambda: replace(PLAN, method=7), "method must be text, not 7"),
    (lambda: replace(PACKS, sample_ids=[0.5, 1, 2]), "sample_id 0.5 at position 0 is not a whole number."),
    (lambda: balance(FEW, 1, work=3), "work must be Work, not 3."),
    (lambda: replace(balance(FEW, 1), window=None), "window must be a whole number at least 1, not None."),
    (lambda: replace(balance(FEW, 1), work=None), "work must be Work, not None."),
    (lambda: balance_step([3], 1, 8, work=3), "work must be Work, not 3"),
    (lambda: group_trees([5, 9], [[3], [4, 8.5]]), "8.5"),
    (lambda: pack_trees([[5, 9.5]], [0], 16), "Token 9.5 at position 1 of sequence 0 is not a whole number."),
    (lambda: pack_trees(7, [0], 16), "sequences must be a list of token lists, not 7."),
]
VALUES = [
    (lambda: plan([3], method="spfph"), "not 'spfph': did you mean 'spfhp'"),
    (lambda: plan([3], max_sequences_per_pack=0), "max_sequences_per_pack must be at least 1, not 0"),
    (lambda: plan(SQUAD, 3), "max_length must be 384, that of the histogram, or left out"),
    (lambda: plan([5, 9], 8), "Length 9 at position 1 is over the maximum length 8"),
    (lambda: plan(SQUAD, time_limit=-1), "time_limit must be"),
    (lambda: plan(SQUAD, time_limit=NAN), "time_limit must be"),
    (lambda: plan(SQUAD, time_limit=10**400), "time_limit must be"),
    (lambda: plan(SQUAD, rounds=-1), "rounds must be at least 0, not -1"),
    (lambda: plan(WIKIPEDIA, method="nnlshp", max_sequences_per_pack=5), "25,287,483 columns"),
    (lambda: plan(WIKIPEDIA, method="ennlshp", max_sequences_per_pack=8), "depth 8 has"),
    (lambda: strategy_matrix(512, 4), "959,631 columns; at most 524,288 fit in memory"),
    (lambda: plan([3], method="nnlshp", weight=0), "weight must be above 0"),
    (lambda: plan([3], method="nnlshp", weight=NAN), "weight must be above 0"),
    (lambda: plan([3], method="nnlshp", cutoff=-1), "cutoff must be at least 0"),
    (lambda: plan([3], method="nnlshp", rounding="up"), "rounding must be 'down' or 'nearest', not 'up'"),
    (lambda: nonnegative_least_squares(np.eye(2), [1, 2, 3]), "each of the 2 rows, not the shape (3,)"),
    (lambda: nonnegative_least_squares(np.eye(2), [1, NAN]), "must be finite"),
    (lambda: replace(PLAN, repeats=PLAN.repeats + FIRST), "The plan packs 4 sequences of length 1; there are 3"),
    (lambda: replace(PLAN, repeats=PLAN.repeats * 0), "at least once"),
    (lambda: replace(PLAN, items=PLAN.items + 1), "the maximum is 8"),
    (lambda: replace(PLAN, items=np.where(PLAN.items == 1, 0, PLAN.items)), "outside 1 to 8"),
    (lambda: replace(PLAN, offsets=PLAN.offsets[:-1]), "do not cut"),
    (lambda: replace(PLAN, items=[], offsets=[0], repeats=[]), "do not cut"),
    (lambda: replace(PLAN, offsets=[0, 2**63 - 1, -2, 10], repeats=[1, 1, 1]), "do not cut"),
    (lambda: replace(PLAN, max_sequences_per_pack=2), "A pack holds 3 sequences; the depth limit is 2"),
    (lambda: replace(PLAN, proof=Prices(np.ones(5, int))), "must be 9 prices"),
    (lambda: replace(PLAN, proof=Prices(np.full(9, -1))), "must be from 0"),
    (lambda: replace(PLAN, proof=Prices(np.zeros(9, int))), "not all 0"),
    (lambda: SMALL.assign([3, 5, 5]), "of length 3 it has 2, and 1 are given"),
    (lambda: SMALL.assign([3, 3, 5, 5]), "of length 5 it has 1, and 2 are given"),
    (lambda: SMALL.assign([3, 3, 5, 9]), "of length over 8 it has 0, and 1 are given"),
    (lambda: SMALL.assign([3, 3, 5, 99]), "Length 99 is over the maximum length 8"),
    (lambda: SMALL.assign([3, 3, 0]), "Length 0 at position 2"),
    (lambda: SMALL.assign([]), "no lengths"),
    (lambda: SMALL.assign([3, 3, 5], -1), "seed must be at least 0"),
    (lambda: replace(PACKS, sample_ids=[0, -7, 1]), "sample_ids must be at least 0, not -7."),
    (lambda: replace(PACKS, sample_ids=[4, 2, 4]), "Sample 4 comes more than once in the packs."),
    (lambda: replace(PACKS, offsets=[0, 3]), "Pack 0 holds 9 tokens; max_length is 8."),
    (lambda: replace(PACKS, offsets=np.array([0, 2**63 + 1, 3], np.uint64)), "The offsets do not cut 3 sample ids"),
    (lambda: replace(PACKS, offsets=[0, 0, 3]), "The offsets do not cut 3 sample ids into packs."),
    (lambda: replace(PACKS, lengths=[2**40, 3, 1]), "lengths must have 3 entries, one a sample, each from 1 to 8"),
    (lambda: replace(PACKS, lengths=[5, 4, 1]), "Pack 0 holds 9 tokens; max_length is 8."),
    (lambda: replace(PACKS, max_length=10**15), "max_length must be from 1 to 16777216, not 1000000000000000."),
    (lambda: StreamPacker(8, 0), "window must be at least 1"),
    (lambda: balance(FEW, 0), "ranks must be at least 1, not 0."),
    (lambda: balance(FEW, 5), "ranks × packs_per_rank is 5, and so whole steps need 5 packs; there are only 4 seq"),
    (lambda: balance(FEW, 1, window=0), "window must be at least 1, not 0."),
    (lambda: balance(FEW, 1, work=Work(1e308, 1e308)), "The work of all packs must be finite, not inf"),
    (lambda: balance(FEW, 1, seed=-1), "seed must be at least 0, not -1."),
    (lambda: replace(balance(FEW, 1), ranks=2), "3 packs do not make whole steps of 2 × 1."),
    (lambda: balance_step([3, 9], 1, 8), "Length 9 at position 1 is over the maximum length 8"),
    (lambda: balance_step([3], 1, 8, meet="epoch"), "meet must be 'step' or 'micro-batch', not 'epoch'"),
    (lambda: balance_step([3], 0, 8), "ranks must be at least 1, not 0"),
    *(
        (lambda ask=ask, given=given: ask(*given), says)
        for ask in (document_rows, least_cuts)
        for given, says in (
            (([3, 0], 8), "Length 0 at position 1 is not allowed"),
            (([], 8), "at least one is needed"),
            (([3], 0), "max_length must be from 1 to 16777216, not 0"),
            (([2**63 - 1, 1], 8), "hold 9223372036854775808 tokens; at most"),
            (([2**63], 8), "does not fit in 64 bits"),
        )
    ),
    (lambda: document_rows([3], 8, "wrapping"), "not 'wrapping': did you mean 'wrapped'"),
    (lambda: document_rows([3], 12, "powers_of_two"), 'a power of two for the rule "powers_of_two", not 12'),
    (lambda: group_trees([5], [[3], [4]]), "must have one entry for each group, not 1 and 2."),
    (lambda: group_trees([], []), "must have one entry for each group, not 0 and 0."),
    (lambda: group_trees([5, 0], [[3], [4]]), "The prompt of group 1 must have at least 1 token, not 0."),
    (lambda: group_trees([5], [[]]), "Group 0 must have answers of at least 1 token, not none."),
    (lambda: group_trees([5], [[4, 0]]), "Group 0 must have answers of at least 1 token, not one of 0 tokens."),
    (
        lambda: pack_tree_lengths(group_trees([5, 9], [[3], [4, 8]]), 16),
        "max_length must be at least 17, the tokens of sequence 2, not 16.",
    ),
    (lambda: pack_trees([], [], 16), "sequences must hold at least one sequence"),
    (lambda: pack_trees([[1], []], [0, 0], 16), "Sequence 1 must have at least 1 token, not 0."),
    (lambda: pack_trees([[1], [2]], [0], 16), "groups must have 2 entries, one for each sequence, not 1."),
    (lambda: pack_trees([[1], [2]], [0, 0], 16, apart=[[1]]), "apart must have 2 entries, one for each sequence"),
    (lambda: pack_trees([[1, 2]], [0], 16, apart=[[1]]), "apart must have 2 values for sequence 0, one for each"),
    (lambda: pack_trees([[1]], [0], 0), "max_length must be from 1 to 16777216, not 0"),
    (lambda: pack_trees([[1]], [0], 8, tries=-1), "tries must be at least 0, not -1"),
]


@pytest.mark.parametrize(
    ("kind", "call", "says"),
    [(kind, *case) for kind, cases in ((TypeError, TYPES), (ValueError, VALUES)) for case in cases],
)
def test_bad_input_is_named(kind, call, says):
    with pytest.raises(kind, match=re.escape(says)) as refusal:
        call()
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 400
