"""Which few sequences the model of a check gets: what the batch of all has, theirs has too."""

import check_cases as cases
from check_cases import SEGMENTS, dense
from check_reports import FLAT, MANY, MIXED, of, rows_joined

from packlib.tools.check.choosing import choose, shape_of


def lengths(rows):
    return [len(row["input_ids"]) for row in rows]


def test_the_longest_are_among_few_in_their_order_and_cut_to_their_first_tokens_and_the_last():
    chosen = choose(FLAT, MIXED, None, 300)
    assert len(chosen.sequences) == 8 and max(lengths(chosen.uncut)) == max(lengths(MIXED)) == 316
    assert [row for row in MIXED if row in chosen.uncut] == chosen.uncut
    whole, cut = next((one, other) for one, other in zip(chosen.uncut, chosen.sequences, strict=True)
                      if len(one["input_ids"]) == 316)  # fmt: skip
    assert len(cut["input_ids"]) == len(cut["labels"]) == 300
    assert cut["input_ids"] == [*whole["input_ids"][:299], whole["input_ids"][-1]]
    assert cut["labels"][-1] == whole["labels"][-1]
    assert "3 of 26 to 311 tokens were left out" in chosen.note and "2 were cut to 300 tokens" in chosen.note


def test_few_have_the_rows_and_the_padding_of_all():
    rows = dense(slots=96, **SEGMENTS)
    assert shape_of(rows(MANY), MANY).rows == 2
    assert shape_of(rows(choose(rows, MANY, None, 300).sequences), MANY).rows == 2
    equal = of(*[8] * 9)  # eight of them fill a row of 64, and all of them do not fill two

    def to_64(some):
        ids = [token for row in some for token in row["input_ids"]]
        return cases.multiples([{"input_ids": ids, "labels": [0]}], 64)

    assert shape_of(to_64(equal[:8]), equal[:8]).padding == 0 < shape_of(to_64(equal), equal).padding
    few = choose(to_64, equal, None, 300).sequences
    assert shape_of(to_64(few), few).padding > 0


def test_few_have_numbers_that_come_again_if_all_have_them():
    few = choose(rows_joined, MANY, None, 300).sequences
    assert shape_of(rows_joined(few), few).repeated_fields == {"segment_ids"}


def test_groups_stay_together():
    rows = [{**row, "pair": at // 2} for at, row in enumerate(of(*range(5, 35)))]
    few = choose(FLAT, rows, "pair", 300).sequences
    pairs = [row["pair"] for row in few]
    assert len(few) == 8 and all(pairs.count(pair) == 2 for pair in pairs) and max(pairs) == rows[-1]["pair"]


def test_sequences_that_a_cut_would_make_equal_keep_more_of_their_ends():
    shared = of(310)[0]["input_ids"]
    rows = [{"input_ids": [*shared, *row["input_ids"], 2]} for row in of(9, 14, 5, 20, 7, 12)]
    chosen = choose(FLAT, rows, None, 300)
    assert (
        len({tuple(row["input_ids"]) for row in chosen.sequences}) == 6
        and "the first 150 and the last 150" in chosen.note
    )
