"""Batches by tokens: against a plain loop that shares no code with packlib, every sample once, of one shape."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packlib.batches import batch_by_tokens
from packlib.batches.token_budget import ORDERS

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=60)


def in_order(lengths, order, seed=0):
    """The samples in the wanted order, by Python's own stable sort."""
    ids = range(len(lengths))
    if order == "random":
        return np.random.default_rng(seed).permutation(len(lengths)).tolist()
    if order == "dataset":
        return list(ids)
    return sorted(ids, key=lambda i: lengths[i] if order == "ascending" else -lengths[i])


def fits(batch, lengths, budget, count_padding):
    sizes = [lengths[i] for i in batch]
    return (len(sizes) * max(sizes) if count_padding else sum(sizes)) <= budget


def greedy(lengths, budget, most, order, count_padding, every=1):
    """A row of `every` samples at a time, as long as all their batches keep the budget."""
    ids, groups = in_order(lengths, order), []
    for at in range(0, len(ids), every):
        row = ids[at : at + every]
        if groups and len(groups[-1]) < most:
            columns = list(zip(*groups[-1], row, strict=True))
            if count_padding:
                room = (len(groups[-1]) + 1) * max(lengths[i] for column in columns for i in column) <= budget
            else:
                room = all(fits(column, lengths, budget, count_padding) for column in columns)
            if room:
                groups[-1].append(row)
                continue
        groups.append([row])
    return [list(column) for group in groups for column in zip(*group, strict=True)]


@given(
    LENGTHS,
    st.integers(12, 60),
    st.integers(1, 4),
    st.sampled_from(ORDERS),
    st.sampled_from([False, True]),
    st.one_of(st.none(), st.integers(1, 9)),
)
@example([10, 5, 5, 5], 20, 1, "descending", True, 9)  # the longest came before the run of equal lengths
def test_it_is_the_plain_loop(lengths, budget, every, order, count_padding, most):
    lengths = lengths * every
    options = {"max_batch": most, "order": order, "count_padding": count_padding, "same_shape_every": every}
    found = batch_by_tokens(lengths, budget, **options)
    expected = greedy(lengths, budget, most or len(lengths), order, count_padding, every)
    assert [batch.tolist() for batch in found] == expected
    assert found.tokens.tolist() == [sum(lengths[i] for i in batch) for batch in expected]
    longest = np.array([max(lengths[i] for i in batch) for batch in expected])
    assert found.widths.tolist() == np.repeat(longest.reshape(-1, every).max(1), every).tolist()
    assert found.slots == found.sizes @ found.widths
    assert found.padding_fraction == pytest.approx(1 - sum(lengths) / found.slots)
    assert found.shape_cost == pytest.approx(1 - found.sizes @ longest / found.slots)


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60),
    st.integers(12, 60),
    st.sampled_from(ORDERS),
    st.integers(1, 9),
)
@example([(1, 9), (1, 9), (9, 1)], 12, "dataset", 9)  # the target alone ends the first batch
def test_source_and_target_have_a_budget_each(pairs, budget, order, most):
    source, target = map(list, zip(*pairs, strict=True))
    found = batch_by_tokens(source, budget, max_batch=most, order=order, target_lengths=target)
    expected: list[list[int]] = []
    for i in in_order(source, order):
        more = [*expected[-1], i] if expected else []
        room = sum(source[j] for j in more) <= budget and sum(target[j] for j in more) <= budget
        if expected and room and len(more) <= most:
            expected[-1] = more
        else:
            expected.append([i])
    assert [batch.tolist() for batch in found] == expected
    assert found.tokens.tolist() == [sum(source[i] for i in batch) for batch in expected]


def every_cut(lengths, fewest, room):
    """The sizes of the batches of every cut in which all but the last have `fewest` samples at least."""
    if not lengths:
        yield ()
    for size in range(1, len(lengths) + 1):
        if room(lengths[:size]) and (size >= fewest or size == len(lengths)):
            for rest in every_cut(lengths[size:], fewest, room):
                yield (size, *rest)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=11),
    st.integers(9, 24),
    st.integers(2, 4),
    st.integers(0, 2),
    st.sampled_from(["sum", "padding", "targets", "one shape"]),
)
@example([(n, 1) for n in (4, 4, 4, 3, 7, 5, 9, 1, 1)], 15, 3, 9, "sum")  # 4 samples leave two for the next batch
@example([(n, 1) for n in (4, 4, 4, 3, 7, 5, 9, 1)], 15, 3, 9, "sum")  # no cut keeps it
def test_min_batch_takes_the_greediest_of_all_cuts_and_refuses_only_where_there_is_none(
    pairs, budget, fewest, more, kind
):
    def room(rows):
        source, target = zip(*rows, strict=True)
        if kind == "padding":
            return len(rows) * max(source) <= budget and len(rows) <= fewest + more
        return max(sum(source), 0 if kind == "sum" else sum(target)) <= budget and len(rows) <= fewest + more

    source, target = map(list, zip(*pairs, strict=True))
    options = {"sum": {}, "padding": {"count_padding": True}, "targets": {"target_lengths": target}}
    if kind == "one shape":  # each pair is a row of two batches
        source, options[kind] = [n for pair in pairs for n in pair], {"same_shape_every": 2}
    options = {"min_batch": fewest, "max_batch": fewest + more, **options[kind]}
    cuts = list(every_cut(pairs, fewest, room))
    if cuts:
        found = batch_by_tokens(source, budget, **options)
        assert tuple(found.sizes.tolist()[:: found.same_shape_every]) == max(cuts)
    else:
        with pytest.raises(ValueError, match=f"^min_batch {fewest} cannot be kept: .* max_tokens {budget} leaves"):
            batch_by_tokens(source, budget, **options)


def test_a_seed_permutes_what_is_equally_difficult():
    lengths = [5, 3, 5, 3, 5, 3] * 20
    plain = batch_by_tokens(lengths, 15, order="ascending").sample_ids
    assert plain.tolist() == [*range(1, 120, 2), *range(0, 120, 2)]
    seeded = [batch_by_tokens(lengths, 15, order="ascending", seed=s).sample_ids for s in (1, 1, 2)]
    assert np.array_equal(seeded[0], seeded[1]) and not np.array_equal(seeded[0], seeded[2])
    assert (np.array(lengths)[seeded[0]] == np.array(lengths)[plain]).all()
    other = [batch_by_tokens(lengths, 15, order="random", seed=s).sample_ids.tolist() for s in (None, 0, 1)]
    assert other[0] == other[1] != other[2]


def test_numbers_beyond_64_bits_set_no_limit_or_are_refused():
    for fewest in (1, 2):
        assert [*map(list, batch_by_tokens([5, 3, 4, 1], 2**70, fewest, 2**70))] == [[0, 1, 2, 3]]
    with pytest.raises(ValueError, match="the sum of lengths must be from 1 to 4611686018427387904"):
        batch_by_tokens([2**60] * 8, 2**63 - 1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"order": "sorted"}, "not 'sorted'"),
        ({"min_batch": 3, "max_batch": 2}, "max_batch must be at least 3, not 2"),
        ({"same_shape_every": 2}, "same_shape_every 2 does not divide 3 samples: leave out 1 of them"),
        ({"target_lengths": [1, 2]}, "target_lengths must have one length for each of the 3 samples"),
        (
            {"target_lengths": [1, 2, 11]},
            "max_tokens 10 allows 10 tokens a sample; 1 of target_lengths have more: sample 2 with 11",
        ),
        ({"target_lengths": [1, 2, 3], "count_padding": True}, "goes with neither same_shape_every nor count_padding"),
        ({"target_lengths": [1, 2, 3], "same_shape_every": 3}, "goes with neither same_shape_every nor count_padding"),
    ],
)
def test_bad_input_gets_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        batch_by_tokens([4, 5, 6], 10, **options)


def test_overlong_samples_are_named_and_nothing_is_dropped():
    """The public code drops them."""
    with pytest.raises(
        ValueError,
        match=r"max_tokens 30 .* 6 of lengths have more: sample 1 with 31, .* sample 7 with 33, …\. Raise max_tokens",
    ):
        batch_by_tokens([5, 31, 7, 40, 30, 31, 32, 33, 34], 30)


def test_it_prints_well():
    found = batch_by_tokens([3, 9, 4, 8], 16, order="ascending", same_shape_every=2)
    assert repr(found) == (
        "TokenBatches(2 batches, 4 samples, 2.0 a batch of 12 tokens, 33.33 % padding, "
        "5.56 % for one shape in every 2 batches)"
    )
