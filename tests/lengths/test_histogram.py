"""LengthHistogram: counting, validation, files."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packlib.lengths import LengthHistogram
from packlib.lengths.counting import exact_dot
from packlib.lengths.histogram import KINDS

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=80)


@given(LENGTHS, st.sampled_from(["int64", "int32", "uint16", ">i8", "object", "list", "iterator"]), st.integers(1, 30))
def test_counting_is_the_same_for_every_kind_of_input_and_in_chunks(lengths, kind, size):
    given_as = {"list": lambda: list(lengths), "iterator": lambda: iter(lengths)}.get(
        kind, lambda: np.array(lengths, kind)
    )
    histogram = LengthHistogram.from_lengths(given_as())
    assert np.array_equal(histogram.counts, np.bincount(lengths))
    assert histogram.num_sequences == len(lengths)
    assert histogram.num_tokens == sum(lengths)
    assert histogram.max_length == max(lengths)
    assert histogram.mean_length == pytest.approx(np.mean(lengths))
    assert histogram.padding_fraction == pytest.approx(1 - np.mean(lengths) / max(lengths))
    assert histogram.max_packing_factor == pytest.approx(max(lengths) / np.mean(lengths))
    assert histogram.expand().tolist() == sorted(lengths)
    chunks = [lengths[i : i + size] for i in range(0, len(lengths), size)]
    assert LengthHistogram.from_chunks(iter([*chunks, []])) == histogram


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**40), 2**63 - 1)), max_size=5), st.booleans()
)
def test_sums_of_products_are_exact_beyond_64_bits(pairs, small):
    pairs = [(n % 1000, value % 1000) for n, value in pairs] if small else pairs
    counts, values = np.array(pairs, np.int64).reshape(-1, 2).T
    assert exact_dot(counts, values) == sum(n * value for n, value in pairs)
    assert exact_dot(np.array([3], np.uint64), np.array([2**53 + 1])) == 3 * (2**53 + 1), "not by way of floats"


@given(LENGTHS, st.integers(0, 50), st.sampled_from(KINDS), st.text(max_size=100), st.integers(0, 1 << 60))
def test_json_there_and_back(lengths, more, kind, name, lost):
    about = {"name": name, "kind": kind, "source": name, "truncated": lost, "dropped": lost // 2}
    histogram = replace(LengthHistogram.from_lengths(lengths, max(lengths) + more), **about)
    back = LengthHistogram.from_json(histogram.to_json())
    assert back == histogram and back.as_dict() == histogram.as_dict()


CHANGES = {
    "counts": [0, 0, 2, 1],
    "name": "other",
    "max_length": 4,
    "kind": "synthetic",
    "source": "elsewhere",
    "truncated": 1,
    "dropped": 1,
}


@pytest.mark.parametrize("name", CHANGES)
def test_histograms_are_equal_only_if_all_that_they_hold_is(name):
    """Plans of two with other sequences left out assign other samples, which once were equal."""
    one = LengthHistogram([0, 0, 1, 2])
    assert one == LengthHistogram([0, 0, 1, 2]) and hash(one) == hash(LengthHistogram([0, 0, 1, 2]))
    other = replace(one, **{name: CHANGES[name]})
    assert one != other and other == replace(other) and hash(other) == hash(replace(other))
    assert len({one, other, LengthHistogram([0, 0, 1, 2])}) == 2
    assert one != [0, 0, 1, 2] and one != one.counts.tolist()


@given(LENGTHS, st.integers(1, 300))
def test_overlong_sequences_are_cut_or_left_out_and_counted(lengths, top):
    over = sum(length > top for length in lengths)
    cut = LengthHistogram.from_lengths(lengths, top, overlong="truncate")
    assert np.array_equal(cut.expand(), sorted(min(length, top) for length in lengths))
    assert (cut.max_length, cut.truncated, cut.dropped) == (top, over, 0)
    whole = LengthHistogram.from_lengths(lengths)
    assert whole.with_max_length(top, "truncate") == cut
    assert whole.with_max_length(top, "truncate").truncated == over
    if over:
        at = next(at for at, length in enumerate(lengths) if length > top)
        with pytest.raises(
            ValueError, match=f"^Length {lengths[at]} at position {at} is over the maximum length {top}"
        ):
            LengthHistogram.from_lengths(lengths, top)
        with pytest.raises(ValueError, match=f"{over} sequences of lengths, .* are over the maximum length {top}"):
            whole.with_max_length(top)
    for drop in (whole.with_max_length, lambda *a: LengthHistogram.from_lengths(lengths, *a)):
        if over == len(lengths):
            with pytest.raises(
                ValueError, match=f'^All {over} seq.* longer than {top} tokens: overlong="drop" leaves none'
            ):
                drop(top, "drop")
            continue
        rest = drop(top, "drop")
        assert rest.expand().tolist() == sorted(length for length in lengths if length <= top)
        assert (rest.max_length, rest.truncated, rest.dropped) == (top, 0, over)


@given(LENGTHS, st.integers(1, 300))
def test_split_sequences_become_full_rows_and_a_remainder(lengths, top):
    pieces = sorted(min(top, length - start) for length in lengths for start in range(0, length, top))
    for split in (
        LengthHistogram.from_lengths(lengths).with_max_length,
        lambda *a: LengthHistogram.from_lengths(lengths, *a),
    ):
        found = split(top, "split")
        assert found.expand().tolist() == pieces
        assert (found.num_tokens, found.max_length, found.truncated, found.dropped) == (sum(lengths), top, 0, 0)


def test_pieces_are_counted_beyond_what_a_histogram_holds():
    found = LengthHistogram.from_lengths([2**62 + 3, 5], 2**20, "split")
    assert (found.counts[2**20], found.counts[3], found.counts[5]) == (2**42, 1, 1)
    with pytest.raises(ValueError, match="at most 9223372036854775807 fit"):
        LengthHistogram.from_lengths([2**63 - 1, 2**63 - 1], 1, "split")


def test_what_was_lost_before_stays_counted():
    histogram = LengthHistogram.from_lengths([1, 2, 3, 4])
    for once in (histogram.with_max_length(3, "drop"), histogram.with_max_length(3, "truncate")):
        for how in ("drop", "truncate"):
            twice = once.with_max_length(2, how)
            assert twice.dropped + twice.truncated == 1 + once.counts[3]
            assert twice.dropped >= once.dropped and twice.truncated >= once.truncated


def test_csv_keeps_the_maximum_length(tmp_path):
    LengthHistogram([0, 2, 1], max_length=5).to_csv(tmp_path / "mine.csv")
    assert LengthHistogram.from_csv(tmp_path / "mine.csv").max_length == 5


def test_a_histogram_cannot_be_changed_and_does_not_share_its_counts():
    counts = np.array([0, 1, 2])
    histogram = LengthHistogram(counts)
    counts[1] = 5
    assert histogram.num_sequences == 3 and histogram.counts[1] == 1
    with pytest.raises(ValueError, match="read-only"):
        histogram.counts[1] = 5
    with pytest.raises(AttributeError):
        histogram.name = "x"


def test_what_is_shown_says_what_it_is():
    shown = LengthHistogram([0, 3, 1], name="<b>", kind="reconstruction", truncated=2)
    assert repr(shown) == (
        "LengthHistogram(<b>, reconstruction: 4 sequences, 5 tokens, maximum 2, mean 1.2, "
        "padding 37.5 %, best packing factor 1.600, 2 truncated)"
    )
    text = shown._repr_html_()
    assert "&lt;b&gt;, reconstruction: 4 sequences" in text and "<b>" not in text
    assert text.count("<rect") == 2
    assert LengthHistogram(np.ones(1000, int) - np.eye(1, 1000, dtype=int)[0])._repr_html_().count("<rect") == 64
    assert "measured" not in repr(LengthHistogram([0, 1]))
