"""What is wrong on one rank is one sentence on all, and the next call works."""

from functools import partial

import numpy as np
import pytest

from packlib.distributed import (
    DistributedCurriculumSampler,
    RankError,
    exact_sort,
    interleave,
    pack_distributed,
    run_ranks,
)

GOOD = np.zeros((3, 2), np.int64)
LENGTHS = [*range(1, 51)]
SAME = "{} must be the same on all ranks, but is {} on rank 1 and {} on rank 0."
ONE, BOTH = "Rank 1 of 2 raised ", "Rank 0 of 2 raised "
NO_ROWS = f"{ONE}TypeError: Rows must be whole numbers that fit in int64, not "
NO_TABLE = f"{ONE}ValueError: Rows must have the shape (rows, columns), one column at least, not "
NO_SCORE = f"{ONE}TypeError: A difficulty must be a whole number of 64 bits or a float, one a sample, not "


def sample(**changes):
    return DistributedCurriculumSampler(**{"dataset": range(50), "difficulty": LENGTHS} | changes)


def scored(number, value):
    """The right scores but for that of one sample."""
    return partial(sample, difficulty=[*LENGTHS[:number], value, *LENGTHS[number + 1 :]])


sort, deal, pack = partial(exact_sort, GOOD), partial(interleave, GOOD), partial(pack_distributed, [3, 5], 8, "lpfhp")
WRONG = [  # what rank 0 calls, what rank 1 calls, and how the sentence of both begins
    (sort, partial(exact_sort, GOOD.astype(float)), f"{NO_ROWS}float64."),
    (sort, partial(exact_sort, GOOD.astype(np.uint64)), f"{NO_ROWS}uint64."),
    (deal, partial(interleave, GOOD[0]), f"{NO_TABLE}(2,)."),
    (sort, partial(exact_sort, GOOD[:, :0]), f"{NO_TABLE}(3, 0)."),
    (sort, partial(exact_sort, GOOD[:, :1]), SAME.format("columns", 1, 2)),
    (partial(sort, by=1), partial(sort, by=2), SAME.format("by", 2, 1)),
    (partial(sort, by=3), partial(sort, by=3), "by must be from 1 to 2, not 3."),
    (pack, partial(pack_distributed, (3, 2.5), 8, "lpfhp"), f"{ONE}TypeError: Length 2.5 at position 1 is not"),
    (pack, partial(pack_distributed, (3, 5), 9, "lpfhp"), SAME.format("max_length", 9, 8)),
    (pack, partial(pack_distributed, (3, 9), 8, "lpfhp"), f"{ONE}ValueError: Length 9 at position 1 is over"),
    (*[partial(pack_distributed, [3], 8, "lpfp")] * 2, f"{BOTH}ValueError: method must be "),
    (sample, scored(30, float("nan")), f"{ONE}ValueError: The difficulty of sample 30 is NaN"),
    (sample, scored(31, None), NO_SCORE),
    (sample, partial(sample, difficulty=LENGTHS[:-1]), f"{ONE}ValueError: There are 49 scores for 50 samples."),
    (sample, partial(sample, difficulty=lambda number: 1 // (number != 40)), f"{ONE}ZeroDivisionError"),
    (sample, partial(sample, curriculum="globl"), f"{ONE}ValueError: curriculum must be 'global' or 'local', not"),
    (sample, partial(sample, seed=1), SAME.format("seed", 1, 0)),
    (sample, partial(sample, dataset=range(51), difficulty=abs), SAME.format("num_samples", 51, 50)),
    (*[partial(sample, dataset=[3], difficulty=abs)] * 2, f"{BOTH}ValueError: the number of samples for 2 ranks"),
]


def answers(rank):
    """The sentence of this rank for each call, and which rank the error names; after each a right call works."""
    said = []
    for *calls, _ in WRONG:
        with pytest.raises((RankError, ValueError)) as raised:
            calls[rank]()
        said.append((str(raised.value), getattr(raised.value, "rank", None)))
        assert len(pack())
    return said


def test_what_is_wrong_on_one_rank_is_one_sentence_on_all():
    here, there = run_ranks(answers, 2)
    assert here == there
    for (sentence, rank), (*_, says) in zip(here, WRONG, strict=True):
        assert sentence.startswith(says), sentence
        assert rank == (None if says.startswith("by must be from") else int("ank 1" in says)), sentence
