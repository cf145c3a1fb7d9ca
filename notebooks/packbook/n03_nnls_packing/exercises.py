"""The exercises of notebook 03, in its order."""

import math
from itertools import combinations_with_replacement

from packbook.exercises import Exercise, Exercises


def column(pack, max_length):
    """Count the sequences of each length from 1 to `max_length` in the pack."""
    return [pack.count(length) for length in range(1, max_length + 1)]


def draw_pack(rng):
    """Draw a pack of at least one sequence, from short to long, which need not be full, and its maximum length."""
    max_length = rng.choice((1, 2, 4, 8, 12))
    pack, space = [], max_length
    while space and (not pack or rng.random() < 0.8):
        pack.append(rng.randint(1, space))
        space -= pack[-1]
    return sorted(pack), max_length


def fewest_pairs(lengths, max_length):
    """Return the fewest packs when a pack holds at most two sequences."""
    packs, waiting = 0, sorted(lengths)
    while waiting:
        longest = waiting.pop()
        if waiting and waiting[0] + longest <= max_length:
            waiting.pop(0)  # the shortest; if it does not fit beside the longest, none does
        packs += 1
    return packs


def draw_lengths(rng):
    """Draw up to nine lengths and their maximum length."""
    max_length = rng.choice((4, 8, 12))
    return [rng.randint(1, max_length) for _ in range(rng.randint(0, 9))], max_length


def two_bounds(lengths, max_length):
    """Return the larger of two lower bounds: two sequences in each pack, and full packs."""
    return max(math.ceil(len(lengths) / 2), math.ceil(sum(lengths) / max_length))


def three_bounds(lengths, max_length):
    """Return the largest of three lower bounds; the third counts sequences longer than half of a pack."""
    return max(two_bounds(lengths, max_length), sum(2 * length > max_length for length in lengths))


def neighbors(lengths, max_length):
    """Pair neighbors, from short to long, and count the packs."""
    packs, waiting = 0, sorted(lengths)
    while waiting:
        shortest = waiting.pop(0)
        if waiting and shortest + waiting[0] <= max_length:
            waiting.pop(0)
        packs += 1
    return packs


def mirror_images(lengths, max_length):
    """Pair sequences that fill a pack to the last slot, leave all others alone, and count the packs."""
    packs, waiting = 0, sorted(lengths)
    while waiting:
        longest = waiting.pop()
        if max_length - longest in waiting:
            waiting.remove(max_length - longest)
        packs += 1
    return packs


def rounded_packs(counts, strategies, x):
    """Round `x` to the nearest, let each sequence without a place open a pack, and count the packs."""
    without_place, packs = list(counts), 0  # sequences of each length
    for strategy, times in zip(strategies, x, strict=True):
        packs += round(times)
        for length in strategy:
            without_place[length] = max(0, without_place[length] - round(times))
    return packs + sum(without_place)


def draw_solution(rng):
    """Draw the counts of a histogram, up to three strategies, and how often least squares would use each.

    The strategies are different full packs of at most three sequences, as in the notebook.
    """
    max_length = rng.randint(1, 6)
    counts = [0, *(rng.randint(0, 4) for _ in range(max_length))]
    lengths = range(1, max_length + 1)
    packs = [list(pack) for depth in (1, 2, 3) for pack in combinations_with_replacement(lengths, depth)]
    full_packs = [pack for pack in packs if sum(pack) == max_length]
    strategies = rng.sample(full_packs, rng.randint(1, min(3, len(full_packs))))
    return counts, strategies, [rng.choice((0.0, 0.4, 0.6, 1.4, 2.3, 2.7)) for _ in strategies]


def any_place(counts, strategies, x):
    """Count the packs as if a place could take a sequence of any length."""
    repeats = list(map(round, x))
    places = sum(len(strategy) * times for strategy, times in zip(strategies, repeats, strict=True))
    return sum(repeats) + max(0, sum(counts) - places)


def rounded_with(rounding, counts, strategies, x):
    """Count the packs with another rounding of `x`."""
    return rounded_packs(counts, strategies, [rounding(times) for times in x])


def left_over_alone(counts, strategies, x):
    """Count the sequences without a place, and no packs of the strategies."""
    return rounded_packs(counts, strategies, x) - sum(map(round, x))


def filled_lengths(places, lengths):
    """Return the lengths of the sequences that take the places, from long to short."""
    waiting, placed = sorted(lengths), []
    for place in sorted(places, reverse=True):
        fitting = [length for length in waiting if length <= place]
        if fitting:
            placed.append(fitting[-1])
            waiting.remove(fitting[-1])
    return placed


def draw_places(rng):
    """Draw up to six places, by the length that each is made for, and up to six lengths."""
    places = [rng.randint(1, 9) for _ in range(rng.randint(0, 6))]
    return places, [rng.randint(1, 9) for _ in range(rng.randint(0, 6))]


def filled_in(order, choose, places, lengths):
    """Fill places by other rules: `order` sorts the places, `choose` takes one of the lengths that fit."""
    waiting, placed = sorted(lengths), []
    for place in order(places):
        fitting = [length for length in waiting if length <= place]
        if fitting:
            placed.append(choose(fitting))
            waiting.remove(placed[-1])
    return placed


def long_to_short(places):
    return sorted(places, reverse=True)


def filled_in_equal(places, lengths):
    """Fill a place only with a sequence of just this length."""
    waiting, placed = list(lengths), []
    for place in long_to_short(places):
        if place in waiting:
            placed.append(place)
            waiting.remove(place)
    return placed


check = Exercises(
    [
        Exercise(
            "column",
            column,
            level=1,
            minutes=5,
            draw=draw_pack,
            cases=[([1, 1, 6], 8)],
            hint="the first number is for length 1, and it counts how often 1 occurs in the pack.",
            slips={
                "a length can come twice in a pack, and then counts 2.": (
                    lambda pack, max_length: [int(length in pack) for length in range(1, max_length + 1)]
                ),
                "there is a number for each length up to max_length, also for those longer than any in the pack.": (
                    lambda pack, max_length: column(pack, max(pack, default=0))
                ),
                "the first number is for length 1, not for length 0.": (
                    lambda pack, max_length: [pack.count(length) for length in range(max_length)]
                ),
            },
        ),
        Exercise(
            "fewest_pairs",
            fewest_pairs,
            level=2,
            minutes=10,
            draw=draw_lengths,
            cases=[([6, 6, 6, 3, 3, 3], 8), ([5, 5, 4, 3, 2, 1], 8)],
            hint="the longest sequence has the least choice, so let it choose first: which one may share its pack?",
            slips={
                "that is a lower bound, the larger of two; 6, 6, 6, 3, 3, 3 in 8 need more packs.": two_bounds,
                "each of these three bounds holds, but the packs can need more than all of them: 6 and 3 do not fit "
                "into 8.": three_bounds,
                "that joins neighbors; two short ones then share a pack, and the long ones stay alone.": neighbors,
                "a pair need not fill the pack: forget about full packs.": mirror_images,
            },
        ),
        Exercise(
            "rounded_packs",
            rounded_packs,
            level=2,
            minutes=15,
            draw=draw_solution,
            cases=[([0, 1, 3, 2, 0, 4], [[1, 2, 5], [2, 2, 4], [3, 5]], [1.4, 0.6, 2.3])],
            hint="count the places of each length first; then you know how many sequences of that length are left.",
            slips={
                "an empty place of another length helps no sequence; the public code leaves it empty.": any_place,
                "that rounds down; the public code rounds to the nearest.": (
                    lambda counts, strategies, x: rounded_with(int, counts, strategies, x)
                ),
                "that rounds up; the public code rounds to the nearest.": (
                    lambda counts, strategies, x: rounded_with(math.ceil, counts, strategies, x)
                ),
                "those are the sequences left over; the packs of the strategies count too.": left_over_alone,
            },
        ),
        Exercise(
            "filled_lengths",
            filled_lengths,
            level=3,
            minutes=15,
            draw=draw_places,
            cases=[([9, 7, 7, 2, 1], [8, 7, 6, 6, 3, 3])],
            hint="a place takes the longest sequence left that is not longer than the place.",
            slips={
                "that goes through the places from short to long; the long places come first.": (
                    lambda places, lengths: filled_in(sorted, max, places, lengths)
                ),
                "that gives each place the shortest sequence; the longest that fits wastes least.": (
                    lambda places, lengths: filled_in(long_to_short, min, places, lengths)
                ),
                "that takes the places in the order given; sort them first.": (
                    lambda places, lengths: filled_in(list, max, places, lengths)
                ),
                "a place for 4 may hold a 3: it takes the longest that fits, not only an equal one.": filled_in_equal,
            },
        ),
    ]
)
