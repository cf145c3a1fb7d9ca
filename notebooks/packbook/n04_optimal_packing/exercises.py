"""The exercises of notebook 04, in its order."""

import math
from collections.abc import Mapping
from fractions import Fraction

from packbook.exercises import Exercise, Exercises
from packbook.n04_optimal_packing.runs import best_pack, in_words


def simple_bound(lengths, max_length, depth):
    """Return the better of two bounds: by tokens, and by sequences."""
    return max(math.ceil(sum(lengths) / max_length), math.ceil(len(lengths) / depth))


def draw_lengths(rng):
    """Draw up to nine lengths, their maximum length, and a depth limit."""
    max_length = rng.choice((4, 8, 10))
    return [rng.randint(1, max_length) for _ in range(rng.randint(1, 9))], max_length, rng.randint(1, 4)


def may_use(pack, counts, prices, best, packs):
    """Return True if prices leave it open that a packing of this many packs uses `pack`."""
    worth = sum(prices[length] * n for length, n in counts.items())
    others = (packs - 1) * best  # worth no more than that
    return worth - sum(prices[length] for length in pack) <= others


def draw_prices(rng):
    """Draw a pack, counts and prices by length, the worth of the best pack, and a number of packs."""
    lengths = rng.sample((2, 3, 4, 5, 7), rng.randint(1, 3))
    counts = {length: rng.randint(2, 9) for length in lengths}
    prices = {length: rng.randint(1, 4) for length in lengths}
    pack = tuple(rng.choice(lengths) for _ in range(rng.randint(1, 2)))
    best = rng.randint(max(*prices.values(), sum(prices[length] for length in pack)), 8)  # no pack is worth more
    worth = sum(prices[length] * n for length, n in counts.items())
    return pack, counts, prices, best, math.ceil(worth / best) + rng.choice((0, 0, 0, 1))


def wasted(pack, counts, prices, best, packs):
    """Return True if the pack wastes less than all packs may waste together; equal is allowed, too, but not here."""
    worth = sum(prices[length] * n for length, n in counts.items())
    return best - sum(prices[length] for length in pack) < packs * best - worth


SEVEN = {7: 2, 6: 2, 4: 3}  # length: sequences, for packs of ten slots; five packs are needed


def unproven(prices):
    """Return a sentence that says why `prices` do not prove that SEVEN needs five packs; None if they do."""
    if not isinstance(prices, Mapping) or set(prices) != set(SEVEN):
        return "give a price to each of the lengths 7, 6 and 4, and to no other."
    exact = {length: Fraction(price).limit_denominator(1000) for length, price in prices.items()}
    if min(exact.values()) < 0 or not any(exact.values()):
        return "prices are not negative, and not all 0."
    pack = best_pack(exact, 10)
    best = sum(exact[length] for length in pack)
    worth = sum(exact[length] * n for length, n in SEVEN.items())
    if (bound := math.ceil(worth / best)) >= 5:
        return None
    return (
        f"all sequences are worth {worth}, and the pack {in_words(pack)} is worth {best}, so these "
        f"prices prove {bound} packs only."
    )


def not_the_round(answer):
    """Return a sentence that says what is wrong with prices and a new pack for one round; None if they are right.

    The round knows the packs 7 + 4, 5 + 5 and 4 + 4 + 4 of twelve slots.
    """
    prices, pack = answer
    for known in ((7, 4), (5, 5), (4, 4, 4)):
        worth = sum(prices[length] for length in known)
        if abs(worth - 1) > 0.01:
            return f"the solution uses {in_words(known)}, so it is worth exactly 1, not {float(worth):.3g}."
    if sum(pack) > 12:
        return f"{in_words(pack)} does not fit into twelve slots."
    if sum(prices[length] for length in pack) < 1.01:
        return f"{in_words(pack)} is not worth more than a pack at these prices."
    return None


check = Exercises(
    [
        Exercise(
            "simple_bound",
            simple_bound,
            level=1,
            minutes=5,
            draw=draw_lengths,
            cases=[([3], 8, 1), ([5, 5, 5], 8, 3), ([7, 1, 1, 1, 1, 1], 8, 2)],
            hint="both bounds hold, so the larger one does. A number of packs is whole: round up.",
            slips={
                "that counts tokens only; the depth limit gives a second bound, and the larger one holds.": (
                    lambda lengths, max_length, depth: math.ceil(sum(lengths) / max_length)
                ),
                "that counts sequences only; the tokens give a second bound, and the larger one holds.": (
                    lambda lengths, max_length, depth: math.ceil(len(lengths) / depth)
                ),
                "that rounds down; part of a pack is a pack too.": (
                    lambda lengths, max_length, depth: max(sum(lengths) // max_length, len(lengths) // depth)
                ),
                "both bounds hold, so take the larger one; that is the smaller.": (
                    lambda lengths, max_length, depth: min(
                        math.ceil(sum(lengths) / max_length), math.ceil(len(lengths) / depth)
                    )
                ),
            },
        ),
        Exercise(
            "prices",
            {7: 1, 6: Fraction(1, 2), 4: Fraction(1, 2)},
            level=2,
            minutes=10,
            fault=unproven,
            hint="nothing fits beside 7. What is it worth then?",
            slips={
                "those are the prices by the token, and they prove what tokens prove: four packs.": {
                    7: 0.7,
                    6: 0.6,
                    4: 0.4,
                },
                "6 + 4 is a pack, so both together may be worth 1 at most.": {7: 1, 6: 1, 4: 0.5},
                "the 4s have no price yet: without them four packs are enough.": {7: 1, 6: 1, 4: 0},
            },
        ),
        Exercise(
            "one_round",
            ({7: Fraction(2, 3), 5: Fraction(1, 2), 4: Fraction(1, 3)}, (7, 5)),
            level=2,
            minutes=15,
            fault=not_the_round,
            hint="a pack that the solution uses is worth exactly 1. Which of the three packs has one length only?",
            slips={
                "those are the prices by the token; each of the three known packs must be worth exactly 1.": (
                    {7: 7 / 12, 5: 5 / 12, 4: 1 / 3},
                    (7, 5),
                ),
                "the prices are right; that pack is known and worth 1. Which new one is worth more?": (
                    {7: 2 / 3, 5: 1 / 2, 4: 1 / 3},
                    (4, 4, 4),
                ),
            },
        ),
        Exercise(
            "may_use",
            may_use,
            level=3,
            minutes=20,
            draw=draw_prices,
            cases=[
                ((3,), {3: 1}, {3: 1}, 1, 1),
                ((3, 3), {3: 2}, {3: 1}, 2, 1),
                ((4,), {4: 6, 3: 13}, {4: 1, 3: 1}, 3, 7),
                ((4, 4), {4: 6, 3: 15}, {4: 1, 3: 1}, 3, 7),
                ((4, 3, 3), {4: 6, 3: 15}, {4: 1, 3: 1}, 3, 7),
            ],
            hint="how much must the other packs be worth together, and how much can they be?",
            slips={
                "the pack is one of the `packs`, so only `packs - 1` others are left for the rest.": (
                    lambda pack, counts, prices, best, packs: may_use(pack, counts, prices, best, packs + 1)
                ),
                "if the others have to be worth just what they can be, the pack is still possible.": wasted,
            },
        ),
    ]
)
