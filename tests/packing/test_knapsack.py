"""The exact knapsack, which every proof by prices rests on: its table against a plain one, for all small rows."""

import numpy as np
import pytest

from packlib.packing.search.knapsack import NOT_FOR_SALE, solve_knapsack


def plain_table(value_of, slots, most):
    """The best value of at most k sequences in c slots, by trying each length as the last one."""
    table = [[0] * (slots + 1)]
    for _ in range(most):
        before = table[-1]
        reached = [
            [before[space - length] + value for length, value in value_of.items() if length <= space]
            for space in range(slots + 1)
        ]
        table.append([max([before[space], *reached[space]]) for space in range(slots + 1)])
    return table


@pytest.mark.parametrize("limit", [None, 1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("slots", range(1, 17))
def test_no_pack_is_worth_more_than_the_best(slots, limit):
    """A table that misses a pack proves bounds that are too high."""
    rng = np.random.default_rng([slots, limit or 0])
    for draw in range(30):
        lengths = np.flatnonzero(rng.random(slots + 1) < rng.choice([0.2, 0.5, 1]))
        lengths = lengths[lengths > 0] if lengths.any() else np.array([slots])
        # by the token, so that full packs are worth most; and any values
        values = lengths * 10 if draw % 3 == 0 else rng.integers(0, 20, len(lengths))
        value_of = dict(zip(lengths.tolist(), values.tolist(), strict=True))
        for_sale = np.full(slots + 1, NOT_FOR_SALE)
        for_sale[lengths] = values
        knapsack = solve_knapsack(for_sale, limit)

        most = min(limit or slots, slots // int(lengths[0]))
        table = plain_table(value_of, slots, most)
        assert knapsack.best == table[-1][slots] and knapsack.deepest == most
        best_with = [value + table[-2][slots - length] for length, value in value_of.items()]
        packs = knapsack.packs_with(lengths)
        assert [sum(value_of[length] * n for length, n in pack) for pack in packs] == best_with
        for length, pack in zip(lengths.tolist(), packs, strict=True):
            assert length in dict(pack) and sum(size * n for size, n in pack) <= slots
            assert sum(n for _, n in pack) <= most
