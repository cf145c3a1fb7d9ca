"""The exercises of notebook 07, in its order."""

import math
from numbers import Integral

from packbook.exercises import Exercise, Exercises
from packbook.n07_hyperparameters.runs import signed


def end_updates(counts, target):
    """Count the packs of each update: it ends where the run is closest to `target` sequences per update."""
    updates, packs, seen, due = [], 0, 0, target
    for count in counts:
        if packs and seen + count - due >= due - seen:
            updates.append(packs)
            packs, due = 0, due + target
        packs, seen = packs + 1, seen + count
    return [*updates, packs]


def draw_updates(rng):
    """Draw the sequences of up to twelve packs, and a target of sequences per update."""
    return [rng.randint(1, 6) for _ in range(rng.randint(1, 12))], rng.randint(4, 9)


def once_the_target_is_reached(counts, target):
    """Count the packs of each update, which ends at the first pack that reaches what is due."""
    updates, packs, seen, due = [], 0, 0, target
    for count in counts:
        if packs and seen >= due:
            updates.append(packs)
            packs, due = 0, due + target
        packs, seen = packs + 1, seen + count
    return [*updates, packs]


def each_update_for_itself(counts, target):
    """Count the packs of each update, which ends closest to `target` sequences of its own."""
    updates, packs, seen = [], 0, 0
    for count in counts:
        if packs and seen + count - target >= target - seen:
            updates.append(packs)
            packs, seen = 0, 0
        packs, seen = packs + 1, seen + count
    return [*updates, packs]


def same_memory(beta, before, after):
    """Return the beta for `after` sequences per update that forgets as many sequences as `beta` does for `before`."""
    return beta ** (after / before)


def draw_memory(rng):
    """Draw a beta, and the sequences per update before and after."""
    return rng.choice([0.8, 0.81, 0.9, 0.98, 0.999]), rng.choice([32, 64, 256]), rng.randint(16, 600)


def fit_device(target, factor, replicas, most_rows):
    """Choose micro-batch and accumulation of packed runs: few micro-batches, as full as the device allows."""

    def error(option):
        return abs(math.prod(option) * replicas * factor / target - 1)

    rows_due = target / replicas / factor  # of an update, on each replica
    options = [(rows, max(1, round(rows_due / rows))) for rows in range(most_rows, math.ceil(most_rows / 2) - 1, -1)]
    return min(options, key=error)


def draw_device(rng):
    """Draw a target, a packing factor, replicas and rows for which some answer comes within 3 %."""
    while True:
        factor, replicas, most_rows = rng.choice([1.5, 1.99, 2.5, 4]), rng.choice([1, 2, 8]), rng.randint(8, 40)
        target = rng.randint(2, 40) * replicas * most_rows
        if fault_of_a_device(fit_device(target, factor, replicas, most_rows), target, factor, replicas, most_rows):
            continue
        return target, factor, replicas, most_rows


def fault_of_a_device(got, target, factor, replicas, most_rows):
    """Return a sentence that says what is wrong with a micro-batch and an accumulation; None if they are right."""
    rows, steps = got
    if not (isinstance(rows, Integral) and isinstance(steps, Integral)) or min(rows, steps) < 1:
        return "both must be whole numbers from 1 on."
    if not most_rows / 2 <= rows <= most_rows:
        return f"a micro-batch of {rows} rows is not from {most_rows / 2:g} to {most_rows}."
    sequences = rows * steps * replicas * factor
    if abs(sequences / target - 1) > 0.03:
        return f"that is {sequences:,.1f} sequences per update, {signed(sequences / target - 1)} against {target:,}."
    return None


check = Exercises(
    [
        Exercise(
            "end_updates",
            end_updates,
            level=2,
            minutes=15,
            draw=draw_updates,
            cases=[([1], 4), ([2, 2, 2, 2], 4), ([3, 3, 3, 3, 3], 4), ([9, 1, 1, 1, 1], 4)],
            hint=(
                "keep the sequences of the whole run, and what is due after this update. Compare what is missing "
                "before the pack with what is too much after it."
            ),
            slips={
                "that ends an update only once the target is reached; it may be closer one pack earlier.": (
                    once_the_target_is_reached
                ),
                "that begins to count anew in each update, so what was too much is never made up for.": (
                    each_update_for_itself
                ),
                "the last update is missing; it takes the packs that are left.": (
                    lambda counts, target: end_updates(counts, target)[:-1]
                ),
            },
        ),
        Exercise(
            "same_memory",
            same_memory,
            level=1,
            minutes=5,
            draw=draw_memory,
            cases=[(0.81, 64, 128), (0.9, 100, 100), (0.9, 100, 50)],
            hint="the weight that is left after n sequences is beta to the power of n / (sequences per update).",
            slips={
                "that is upside down: with more sequences in an update, one update must forget more.": (
                    lambda beta, before, after: beta ** (before / after)
                ),
                "that divides beta. Its power counts updates, so the exponents must agree.": (
                    lambda beta, before, after: beta * before / after
                ),
                "that multiplies 1 − beta, which agrees only if beta is close to 1.": (
                    lambda beta, before, after: 1 - (1 - beta) * after / before
                ),
            },
        ),
        Exercise(
            "fit_device",
            fit_device,
            level=3,
            minutes=15,
            draw=draw_device,
            cases=[(64, 2, 1, 16), (64, 2.05, 1, 16), (60, 1.5, 1, 16), (1500, 1.99, 10, 15), (30000, 1.99, 8, 40)],
            fault=fault_of_a_device,
            hint="try every micro-batch that is allowed, each with the accumulation that comes closest.",
            slips={
                "that keeps the largest micro-batch and rounds the accumulation alone, which leaves too much over.": (
                    lambda target, factor, replicas, most_rows: (
                        most_rows,
                        max(1, round(target / (most_rows * replicas * factor))),
                    )
                ),
                "that forgets the packing factor: a row holds several sequences.": (
                    lambda target, factor, replicas, most_rows: fit_device(target, 1, replicas, most_rows)
                ),
            },
        ),
    ]
)
