"""What becomes of documents: every rule and every count against plain loops over tokens, and against TRL."""

from itertools import pairwise

import numpy as np
import pytest
from datasets import Dataset
from datasets.utils.logging import disable_progress_bar, enable_progress_bar
from hypothesis import given
from hypothesis import strategies as st
from trl import pack_dataset

from packlib.packing import CUTTING_RULES, document_rows, least_cuts

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=20)
POWERS = st.sampled_from([1, 2, 4, 8, 16, 32, 64])


def pieces_by_hand(lengths, top, rule):
    """For each piece its tokens, as pairs of document and place."""
    documents = [[(i, at) for at in range(n)] for i, n in enumerate(lengths)]
    if rule == "wrapped":
        stream = [token for document in documents for token in document]
        rows = [stream[at : at + top] for at in range(0, len(stream), top)]
        for row in rows:
            yield from ([token for token in row if token[0] == i] for i in dict.fromkeys(i for i, _ in row))
    for document in [] if rule == "wrapped" else documents:
        if rule == "drop" and len(document) > top:
            continue
        while document:
            size = top
            while rule == "powers_of_two" and size > len(document):
                size //= 2
            yield document[:size]
            document = [] if rule == "truncate" else document[size:]


@pytest.mark.parametrize("rule", CUTTING_RULES)
@given(lengths=LENGTHS, top=POWERS)
def test_pieces_and_counts_are_those_of_plain_loops(rule, lengths, top):
    expected = list(pieces_by_hand(lengths, top, rule))
    if not expected:
        with pytest.raises(ValueError, match=f"at least {min(lengths)}, the shortest document, not {top}"):
            document_rows(lengths, top, rule)
        return
    rows = document_rows(lengths, top, rule)
    found = [piece for row in rows for piece in row.tolist()]
    assert sorted(found) == sorted([*piece[0], len(piece)] for piece in expected)
    assert all(row[:, 2].sum() <= top for row in rows) and sum(map(len, rows)) == len(expected)

    kept = {token for piece in expected for token in piece}
    follows = {pair for piece in expected for pair in pairwise(piece)}
    cut = [(i, at) for i, n in enumerate(lengths) for at in range(n - 1)
           if (i, at) in kept and ((i, at), (i, at + 1)) not in follows]  # fmt: skip
    assert rows.cuts == len(cut) and rows.cut_documents == len({i for i, _ in cut})
    assert rows.tokens == len(kept) and rows.lost_tokens == sum(lengths) - len(kept)
    seen = [place for piece in expected for place in range(len(piece))]
    assert rows.mean_context == pytest.approx(np.mean(seen)) and rows.square_sum == sum(len(p) ** 2 for p in expected)
    assert rows.efficiency == len(kept) / (top * len(rows))
    if rule in ("wrapped", "powers_of_two"):
        assert len(rows) == -(-sum(lengths) // top)
    if not rows.lost_tokens:
        least = least_cuts(lengths, top)
        assert least == rows.cuts if rule == "split" else least <= rows.cuts


@pytest.mark.parametrize("top", [8, 100])
def test_trl_does_the_same_on_random_inputs(top, inputs=200, size=12):
    """TRL packs each batch of a map by itself, so one call packs all inputs; each token has a number of its own."""
    rng = np.random.default_rng(top)
    lengths = np.ceil(rng.integers(1, 3 * top, (inputs, 1)) * rng.random((inputs, size))).astype(int)
    ends = lengths.cumsum().reshape(lengths.shape)
    disable_progress_bar()
    data = Dataset.from_dict({"ids": [list(range(e - n, e)) for n, e in zip(lengths.flat, ends.flat, strict=True)]})
    packed = {
        rule: pack_dataset(data, top, strategy, map_kwargs={"batch_size": size})[:]
        for rule, strategy in (("wrapped", "wrapped"), ("split", "bfd_split"), ("truncate", "bfd"))
    }
    enable_progress_bar()
    for rule, theirs in packed.items():
        of_input = np.searchsorted(ends[:, -1], [row[0] for row in theirs["ids"]], "right")
        for i in range(inputs):
            rows, begins = document_rows(lengths[i], top, rule), ends[i] - lengths[i]
            ours = [np.concatenate([range(begins[d] + s, begins[d] + s + n) for d, s, n in row]) for row in rows]
            mine = np.flatnonzero(of_input == i)
            if rule == "wrapped":
                assert [row.tolist() for row in ours] == [theirs["ids"][r] for r in mine]
                continue
            assert sorted(map(len, ours)) == sorted(len(theirs["ids"][r]) for r in mine)
            cut = [np.split(theirs["ids"][r], np.cumsum(theirs["seq_lengths"][r])[:-1]) for r in mine]
            pieces = sorted((piece[0], len(piece)) for row in cut for piece in row)
            assert pieces == sorted((begins[d] + s, n) for row in rows for d, s, n in row.tolist())


def test_squares_that_overflow_are_exact():
    rows = document_rows([2**24] * 2**16, 2**24, "wrapped")
    assert rows.square_sum == 2**64 and rows.mean_context == (2**24 - 1) / 2


def test_rows_of_documents_show_what_is_cut():
    cut = "1 cut in 1 places, 0 tokens lost, 83.333 % full, a token sees 2.4 on average"
    assert repr(document_rows([5, 12, 3], 8)) == f"DocumentRows(split: 3 documents in 3 rows of 8, {cut})"
