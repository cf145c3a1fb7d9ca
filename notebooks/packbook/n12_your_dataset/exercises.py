"""The exercises of notebook 12, in its order."""

from packbook.exercises import Exercise, Exercises
from packlib.lengths import LengthHistogram
from packlib.packing import plan


def same_update(sequences, factor, most):
    """Choose (micro batch, accumulation) of packs that together hold about as many sequences as an update did."""
    pairs = [
        (rows, steps)
        for rows in range(most, 0, -1)
        for steps in {max(1, int(sequences / (rows * factor))), int(sequences / (rows * factor)) + 1}
    ]
    return min(pairs, key=lambda pair: abs(pair[0] * pair[1] * factor - sequences))


def draw_update(rng):
    """Draw the sequences of an update, a packing factor, and the largest micro batch.

    The factor is a number of sixteenths, so that each product with it is exact. Otherwise rounding errors would decide
    between pairs that are equally near, such as (15, 3) and (9, 5).
    """
    while True:
        sequences = rng.choice([8, 20, 64, 100, 256, 1024])
        factor, most = rng.randint(16, 320) / 16, rng.randint(1, 16)
        numbers_of_packs = {
            rows * steps for rows in range(1, most + 1) for steps in range(1, int(sequences / (rows * factor)) + 3)
        }
        errors = sorted(abs(packs * factor - sequences) for packs in numbers_of_packs)
        if errors[0] < errors[1]:  # else one accumulation may be as near as the next
            return sequences, factor, most


def expected_speedup(slots_now, slots_packed, overhead):
    """Return how many times as fast it is; `overhead` is the share of the speed that packing costs the model."""
    return slots_now / slots_packed * (1 - overhead)


def draw_slots(rng):
    """Draw the slots of one pass now and packed, and an overhead."""
    packed = rng.randint(100, 1000)
    return packed * rng.randint(1, 5) + rng.randint(0, 99), packed, rng.choice([0.0, 0.043, 0.1])


def smallest_depth(packs, within):
    """Find the smallest depth whose packs are at most a share `within` above the fewest."""
    most = min(packs.values()) * (1 + within)
    return min(depth for depth, number in packs.items() if number <= most)


def draw_depths(rng):
    """Draw packs by depth, and a share."""
    depths = rng.sample(range(1, 12), rng.randint(1, 5))
    return {depth: rng.randint(50, 100) for depth in depths}, rng.choice([0.0, 0.05, 0.2])


def packable(lengths):
    """Return the fault of ten lengths, of which no two may fit into a pack of 100, in a sentence; None if right."""
    lengths = list(lengths)
    if len(lengths) != 10 or any(int(n) != n or not 1 <= n <= 100 for n in lengths):
        return "give ten whole numbers from 1 to 100."
    if (mean := sum(lengths) / 10) > 60:
        return f"their mean is {mean:g}, and should be at most 60."
    packs = plan(LengthHistogram.from_lengths([int(n) for n in lengths], 100))
    if packs.num_packs < 10:
        shared = next(pack for pack in packs.strategies if len(pack) > 1)
        return f"{' + '.join(map(str, shared))} tokens fit into one pack of 100."
    return None


check = Exercises(
    [
        Exercise(
            "same_update",
            same_update,
            level=3,
            minutes=15,
            draw=draw_update,
            cases=[(8, 1.0, 4), (256, 3.125, 12), (256, 5.75, 32), (20, 7.0, 9), (100, 2.0, 7), (5, 9.0, 3)],
            hint="there are few pairs: try them all, and keep the first whose product with the factor is nearest.",
            slips={
                "that counts each pack as one sequence; on average it holds `factor` of them.": (
                    lambda sequences, factor, most: same_update(sequences, 1.0, most)
                ),
                "no micro batch may hold more than `most` packs.": (
                    lambda sequences, factor, most: same_update(sequences, factor, sequences)
                ),
            },
        ),
        Exercise(
            "expected_speedup",
            expected_speedup,
            level=1,
            minutes=5,
            draw=draw_slots,
            hint="overhead is lost speed: at 0.1, nine tenths of the speed are left.",
            slips={
                "that leaves the overhead out.": lambda slots_now, slots_packed, overhead: slots_now / slots_packed,
                "that takes the overhead off the factor; it is a share of the speed.": (
                    lambda slots_now, slots_packed, overhead: slots_now / slots_packed - overhead
                ),
            },
        ),
        Exercise(
            "smallest_depth",
            smallest_depth,
            level=2,
            minutes=5,
            draw=draw_depths,
            cases=[({1: 9, 2: 5}, 0.0), ({1: 100, 2: 51, 3: 50}, 0.05), ({9: 90, 8: 80, 4: 85, 2: 92}, 0.1)],
            hint="first find the fewest packs at any depth, then the smallest depth near it.",
            slips={
                "that compares with the packs of the greatest depth, which need not be the fewest.": (
                    lambda packs, within: min(d for d, n in packs.items() if n <= packs[max(packs)] * (1 + within))
                ),
            },
        ),
        Exercise(
            "stubborn",
            [51] * 10,
            level=2,
            minutes=10,
            fault=packable,
            hint="what is the shortest length of which no two fit into a pack?",
            slips={
                "two halves fill a row exactly.": [50] * 10,
                "full rows leave nothing to pack, but their mean is 100.": [100] * 10,
            },
        ),
    ]
)
