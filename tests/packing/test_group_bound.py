"""The bound for groups that share a prompt: cheapest cuts against all cuts, and no more rows than there must be."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.packing import group_trees, pack_tree_lengths
from packlib.packing.search import group_bound as module
from packlib.packing.search.group_bound import _Groups, group_bound


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


def cheapest_cut(shared, branches, shortest, most, unit, levels, prices):
    """The least price of parts, by trying all levels of all numbers of parts that hold the branches."""
    lowest = min((shared + shortest) // unit, levels)
    cuts = (
        cut
        for number in range(1, most + 1)
        for cut in combinations_with_replacement(range(lowest, levels + 1), number)
        if sum((level + 1) * unit - 1 - shared for level in cut) >= branches
    )
    return min(sum(prices[level] for level in cut) for cut in cuts)


@st.composite
def priced_groups(draw):
    """Groups in tokens, as `_Groups` has them, levels of a row, and prices of the levels that rise."""
    most_levels = draw(st.integers(1, 6))
    made = []
    for _ in range(draw(st.integers(1, 4))):
        shared, answers = draw(st.integers(0, 12)), draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
        made.append((shared, sum(answers), min(answers), len(answers), shared + max(answers)))
    top = max(one[-1] for one in made) + draw(st.integers(0, 10))
    steps = draw(st.lists(st.integers(0, 9), min_size=most_levels + 1, max_size=most_levels + 1))
    return np.array([one[:-1] for one in made]).T, top, most_levels, np.cumsum(steps)


@given(priced_groups())
@settings(max_examples=400, deadline=None)
def test_the_cheapest_cut_is_the_least_of_all_cuts(case):
    tokens, top, most_levels, steps = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEVELS", most_levels)
        groups = _Groups(tokens, top)
    prices = np.append(0, steps)[: groups.levels + 1]
    cost, parts = groups.cheapest_cuts(prices)
    for group, (shared, branches, shortest, most) in enumerate(tokens.T.tolist()):
        least = cheapest_cut(shared, branches, shortest, most, groups.unit, groups.levels, prices.tolist())
        assert cost[group] == least == parts[group] @ prices
        held = parts[group] @ ((np.arange(groups.levels + 1) + 1) * groups.unit - 1 - shared)
        assert held >= branches and parts[group].sum() <= most
        assert not parts[group, : min((shared + shortest) // groups.unit, groups.levels)].any()


@given(small_groups, st.integers(0, 8), st.sampled_from([1, 2, 5, 512]))
@settings(max_examples=150, deadline=None)
def test_no_more_rows_are_proven_than_are_needed(found, more, most_levels):
    """Also where a level is several tokens."""
    prompts, answers = zip(*found, strict=True)
    top = max(prompt + max(own) for prompt, own in found) + more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEVELS", most_levels)
        proven = group_bound(
            np.array(prompts) - 1,
            np.array([sum(own) + len(own) for own in answers]),
            np.array([min(own) + 1 for own in answers]),
            np.array([len(own) for own in answers]),
            top,
        )
    assert proven <= fewest_rows(prompts, answers, top)


def test_the_shared_tokens_of_further_parts_count():
    """Twenty groups of 6 shared tokens and two answers of 5: a row of 12 holds one answer, 16 tokens would be one."""
    n = 20
    proven = group_bound(*(np.full(n, one) for one in (6, 10, 5, 2)), 12)
    assert proven == 2 * n > -(-n * 16 // 12)
    assert len(pack_tree_lengths(group_trees([7] * n, [[4, 4]] * n), 12)) == 2 * n


@pytest.mark.parametrize(("most", "proves"), [(256, True), (257, False)])
def test_nothing_is_proven_of_a_group_with_too_many_answers(most, proves):
    """Beside one with a single answer."""
    shared, shortest = np.array([5, 5]), np.array([2, 2])
    branches, number = np.array([2 * most, 2]), np.array([most, 1])
    assert (group_bound(shared, branches, shortest, number, 64) > 0) == proves
    rows = pack_tree_lengths(group_trees([6, 6], [[1] * most, [1]]), 64)
    assert rows.lower_bound <= len(rows) <= rows.lower_bound + 1
