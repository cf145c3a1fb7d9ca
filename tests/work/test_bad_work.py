"""What the functions of work refuse, in one sentence each."""

import re

import pytest

from packlib.packing import Packs, plan
from packlib.work import Work, context_shards, share_sequences, waiting

INF, NAN = float("inf"), float("nan")
PLAN = plan([4, 4, 8], 8)
PACKS, WORK = Packs([0, 1, 2], [0, 2, 3], [4, 4, 8], max_length=8), Work(1, 0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Work(-1, 1), "per_token must be at least 0, not -1."),
        (lambda: Work(1, INF), "per_square must be at least 0, not inf."),
        (lambda: Work(1, NAN), "per_square must be at least 0, not nan."),
        (lambda: Work(0, 0), "per_token and per_square must not both be 0."),
        (lambda: Work("1", 0), "per_token must be a number at least 0, not '1'."),
        *(
            (lambda make=make, name=name: make(**{name: 0}), f"{name} must be at least 1, not 0.")
            for make, names in (
                (Work.bert, ("layers", "width", "feed_forward")),
                (Work.decoder, ("layers", "width", "feed_forward", "heads", "head_width")),
            )
            for name in names
        ),
        (lambda: Work.decoder(key_value_heads=33), "key_value_heads must be from 1 to 32, not 33."),
        (lambda: Work.fitted([1], [1], [1]), "tokens, squares and seconds must be two or more"),
        (lambda: Work.fitted([1, 2], [1, INF], [1, 1]), "squares must be at least 0 and finite, not [1.0, inf]."),
        (lambda: WORK.of(PLAN), "Lengths must be an array or a list of whole numbers, not PackingPlan("),
        (lambda: WORK.of([3, 0]), "Length 0 at position 1 is not allowed: lengths start at 1."),
        (lambda: context_shards(PACKS, 0, work=WORK), "ranks must be from 1 to 1024, not 0."),
        (lambda: context_shards(PACKS, 2, "row", work=WORK), "sharding must be 'sequence', 'pack' or 'whole', not"),
        (lambda: context_shards([[0]], 2, work=WORK), "packs must be Packs, not [[0]]."),
        (lambda: context_shards(PACKS, 2, work=3), "work must be Work, not 3."),
        (lambda: share_sequences([5], 0, 50), "ranks must be at least 1"),
        (lambda: share_sequences([5], 2.5, 50), "ranks must be a whole number"),
        (lambda: share_sequences([5], 4, 0), "max_length must be at least 1"),
        (lambda: share_sequences([], 4, 50), "There are no lengths"),
        (lambda: share_sequences([5], 4, 50, work=3), "work must be Work"),
        (lambda: share_sequences([5, 100], 12, 20), "max_length 20 allows 80 tokens on a group of 4 ranks"),
        (lambda: share_sequences([36], 4, 9), "sequence 0 has 36, padded to 40 there"),
        (lambda: waiting([1, 2], 3), "at most 2, the number of packs, not 3"),
        (lambda: waiting([1, 0], 2), "each must be above 0 and finite in all, not 0.0"),
        (lambda: waiting([1, NAN], 2), "each must be above 0 and finite in all, not nan"),
        (lambda: waiting([1e308, 1e308], 2), "each must be above 0 and finite in all, not 1e+308"),
        (lambda: waiting([1, 2], 0), "ranks must be at least 1, not 0"),
        (lambda: waiting([[1, 2], [3, 4]], 2), "each must have one dimension, not the shape (2, 2)."),
        (lambda: waiting(None, 2), "each must have one dimension, not the shape ()."),
        (lambda: waiting([1, 2], 2, packs_per_rank=0), "packs_per_rank must be at least 1, not 0"),
        (lambda: waiting([1, 2], 2, seed=-1), "seed must be at least 0, not -1"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        call()
