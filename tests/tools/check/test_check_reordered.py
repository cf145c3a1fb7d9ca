"""`check_packing` given a collator that reorders tokens inside sequences."""

import random

import pytest
from check_cases import SEGMENTS, Tiny, dense
from check_reports import SHORT

from packlib import check_packing


def middle_last(ids):
    """Put the middle of a sequence behind its end."""
    cut, end = len(ids) // 3, 2 * len(ids) // 3
    return [*ids[:cut], *ids[end:], *ids[cut:end]]


def marked(ids):
    """Put it there with a token before each part, as models that fill in the middle are trained."""
    cut, end = len(ids) // 3, 2 * len(ids) // 3
    return [117, *ids[:cut], 118, *ids[end:], 119, *ids[cut:end]]


def shuffled(ids):
    """Put all of its tokens in another order."""
    return random.Random(len(ids)).sample(ids, len(ids))


@pytest.mark.parametrize("reorder", [middle_last, marked, shuffled])
def test_a_collator_that_reorders_tokens_is_refused(reorder):
    def collate(rows):
        new = [reorder(list(row["input_ids"])) for row in rows]
        return dense(**SEGMENTS)([{"input_ids": ids, "labels": ids} for ids in new])

    with pytest.raises(
        ValueError, match=r"^collate puts the tokens of sequence \d+ in another order, as fill-in-the-"
    ):
        check_packing(Tiny("attention"), collate, SHORT)


def test_what_was_reordered_before_is_right():
    rows = [{"input_ids": ids, "labels": ids} for ids in (marked(list(row["input_ids"])) for row in SHORT)]
    assert check_packing(Tiny("attention"), dense(**SEGMENTS), rows).exact is not False


def test_ends_that_are_taken_off_and_padded_with_are_no_other_order():
    rows = [{"input_ids": [*row["input_ids"], 0], "labels": [*row["labels"], 0]} for row in SHORT]

    def collate(rows):
        return dense(**SEGMENTS)([{name: value[:-1] for name, value in row.items()} for row in rows])

    assert check_packing(Tiny("attention"), collate, rows)["tokens"].verdict == "failed"
