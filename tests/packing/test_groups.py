"""Groups of answers that share a prompt: every answer once, no row too long, and a bound that is one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.packing import pack_groups, plan


def fewest_rows(prompts, answers, max_length):
    """By trying every way to put answers into rows."""
    laid = [(group, tokens + 1) for group, own in enumerate(answers) for tokens in own]
    best = len(laid)

    def place(at, rows):
        nonlocal best
        if len(rows) >= best:
            return
        if at == len(laid):
            best = len(rows)
            return
        group, tokens = laid[at]
        for row in [*rows, {}]:
            held = {**row, group: [*row.get(group, []), tokens]}
            if sum(prompts[one] - 1 + sum(own) for one, own in held.items()) <= max_length:
                place(at + 1, [held if other is row else other for other in rows] + [held] * (not row))

    place(0, [])
    return best


small_groups = st.lists(
    st.tuples(st.integers(1, 9), st.lists(st.integers(1, 7), min_size=1, max_size=3)), min_size=1, max_size=3
)
groups = st.lists(
    st.tuples(st.integers(1, 40), st.lists(st.integers(1, 60), min_size=1, max_size=9)), min_size=1, max_size=30
)


@given(small_groups, st.integers(0, 8), st.sampled_from([0, 20]))
@settings(max_examples=100, deadline=None)
def test_rows_lie_between_the_bound_and_the_best_that_there_is(found, more, tries):
    prompts, answers = zip(*found, strict=True)
    top = max(prompt + max(own) for prompt, own in found) + more
    rows = pack_groups(prompts, answers, top, tries=tries)
    best = fewest_rows(prompts, answers, top)
    assert rows.lower_bound <= best <= len(rows) <= best + 1


@given(groups, st.integers(0, 200), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_every_answer_stands_once_beside_its_prompt(found, more, seed):
    prompts, answers = zip(*found, strict=True)
    top = max(prompt + max(own) for prompt, own in found) + more
    rows = pack_groups(prompts, answers, top, tries=2, seed=seed)
    seen = []
    for row, used in zip(rows, rows.lengths_used, strict=True):
        pairs = [tuple(pair) for pair in row.tolist()]
        held = list(dict.fromkeys(group for group, _ in pairs))
        assert pairs == sorted(pairs, key=lambda pair: held.index(pair[0]))  # a group stands together
        tokens = sum(prompts[group] - 1 for group in held) + sum(answers[group][i] + 1 for group, i in pairs)
        assert tokens == used <= top
        seen += pairs
    assert sorted(seen) == [(group, i) for group, own in enumerate(answers) for i in range(len(own))]
    assert rows.tokens == rows.lengths_used.sum()
    assert rows.unshared_tokens == sum(prompt + n for prompt, own in found for n in own)


FAMILIES = [(9.0, 7.0, 8, 128), (9.8, 5.5, 16, 128), (5.5, 8.0, 8, 128), (9.8, 5.5, 100, 32)]


@pytest.mark.parametrize(("prompt", "answer", "number", "groups"), FAMILIES)
def test_the_rows_are_at_most_three_percent_above_the_bound(prompt, answer, number, groups):
    rng, top = np.random.default_rng(1), 32768
    prompts = rng.lognormal(prompt, 0.6, groups).clip(16, 24576).astype(int)
    answers = [rng.lognormal(answer, 0.6, number).clip(1, top - one).astype(int) for one in prompts]
    rows = pack_groups(prompts, answers, top)
    assert len(rows) <= 1.03 * rows.lower_bound


def test_one_answer_for_each_prompt_is_packing_as_ever():
    rng = np.random.default_rng(0)
    prompts, answers = rng.integers(1, 50, 200), rng.integers(1, 50, 200)
    rows, again = (pack_groups(prompts, answers[:, None], 128) for _ in range(2))
    assert np.array_equal(rows.groups, again.groups) and np.array_equal(rows.offsets, again.offsets)
    assert rows.tokens == rows.unshared_tokens == (prompts + answers).sum()
    assert rows.split_groups == 0 and len(rows) <= plan(prompts + answers, 128, "optimal").num_packs + 1


def test_a_group_is_split_where_that_saves_a_row():
    rows = pack_groups([4, 4], [[3, 3, 3], [3, 3, 3]], 16)  # 15 tokens a group
    assert (len(rows), rows.split_groups) == (2, 0)
    rows = pack_groups([2, 2, 2], [[4, 4], [4, 4], [4, 4]], 17)  # 11 a group: three rows whole, and 36 tokens split
    assert (len(rows), rows.split_groups, rows.lower_bound) == (2, 1, 2)


def test_rows_that_were_tampered_with_are_found():
    rows = pack_groups([5, 3], [[2, 2], [4, 1]], 14)
    rows.answers[:] = 0
    with pytest.raises(ValueError, match="Answer 1 of group 0 does not stand in the rows once"):
        rows.verify()


def test_a_row_that_is_a_token_too_long_is_found():
    rows = pack_groups([4, 6], [[3, 2], [5]], max_length=20)
    longest = int(rows.lengths_used.max())
    assert replace(rows, max_length=longest).verify()
    with pytest.raises(ValueError, match=f"holds {longest} tokens; the maximum is {longest - 1}"):
        replace(rows, max_length=longest - 1).verify()
