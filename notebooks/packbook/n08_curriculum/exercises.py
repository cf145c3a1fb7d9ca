"""The exercises of notebook 08, in its order."""

from packbook.exercises import Exercise, Exercises


def slots_saved(duration, shortest, longest):
    """Return the share of the slots of full rows that is saved while the length grows evenly."""
    return duration * (longest - shortest) / 2 / longest


def draw_warmup(rng):
    """Draw the duration of a warm-up as a share of the run, and the shortest and the longest length."""
    longest = rng.choice([64, 128, 1024])
    return rng.randint(1, 9) / 10, rng.randint(1, longest // 2), longest


def length_due(done, total, duration, lengths):
    """Return the length when `done` of `total` updates are over: all but the last share the warm-up equally."""
    warmup = round(duration * total)
    if done >= warmup:
        return lengths[-1]
    return lengths[(len(lengths) - 1) * done // warmup]


def draw_lengths(rng):
    """Draw the lengths of a warm-up: 8, 16, … up to 48."""
    return list(range(8, 8 * rng.randint(2, 6) + 1, 8))


def draw_update(rng):
    """Draw the updates done and in total, the duration of the warm-up, and its lengths."""
    total = rng.randint(5, 60)
    return rng.randint(0, total - 1), total, rng.choice([0.0, 0.3, 0.5, 0.9]), draw_lengths(rng)


def without_rounding(done, total, duration, lengths):
    """Return the length due if the updates of the warm-up need not be whole."""
    warmup = duration * total
    return lengths[-1] if done >= warmup else lengths[int((len(lengths) - 1) * done / warmup)]


def as_the_public_one(done, total, duration, lengths):
    """Return the length due in the public warm-up, where each length lasts for a whole number of updates."""
    updates_of_a_length = max(1, round(duration * total) // (len(lengths) - 1))
    return lengths[min(len(lengths) - 1, done // updates_of_a_length)]


def with_a_share_for_the_last(done, total, duration, lengths):
    """Return the length due if all lengths, with the last, share the warm-up equally."""
    warmup = round(duration * total)
    return lengths[-1] if done >= warmup else lengths[len(lengths) * done // warmup]


def fair_updates(tokens, rows, duration, lengths):
    """Return the smallest number of updates that see so many tokens."""
    updates = 1
    while rows * sum(length_due(done, updates, duration, lengths) for done in range(updates)) < tokens:
        updates += 1
    return updates


def draw_run(rng):
    """Draw the tokens of a run with full rows, the rows of an update, the warm-up's duration, and its lengths."""
    updates, rows, lengths = rng.randint(1, 30), rng.randint(1, 4), draw_lengths(rng)
    return updates * rows * lengths[-1], rows, rng.choice([0.0, 0.3, 0.6, 1.0]), lengths


def of_full_rows(tokens, rows, duration, lengths):
    """Return the number of updates if all rows have the last length."""
    return max(1, -(-tokens // (rows * lengths[-1])))


def with_the_warmup_of_full_rows(tokens, rows, duration, lengths):
    """Return the number of updates if the warm-up lasts for `duration` times the updates that full rows would take."""
    full, seen, updates = of_full_rows(tokens, rows, duration, lengths), 0, 0
    while seen < tokens:
        seen += rows * length_due(updates, full, duration, lengths)
        updates += 1
    return updates


_PUBLIC = list(range(8, 1025, 8))  # the lengths of the public warm-up

check = Exercises(
    [
        Exercise(
            "slots_saved",
            slots_saved,
            level=1,
            minutes=5,
            draw=draw_warmup,
            hint="what is the mean length during the warm-up, as a share of the longest?",
            slips={
                "that is what the run still computes; the rest is saved.": (
                    lambda duration, shortest, longest: 1 - slots_saved(duration, shortest, longest)
                ),
                "that is what the warm-up itself saves; it lasts for a part of the run.": (
                    lambda duration, shortest, longest: slots_saved(1, shortest, longest)
                ),
                "that takes the rows to be of the shortest length throughout the warm-up; they grow.": (
                    lambda duration, shortest, longest: duration * (1 - shortest / longest)
                ),
                "that begins at length 0; the first rows have the shortest length.": (
                    lambda duration, shortest, longest: duration / 2
                ),
            },
        ),
        Exercise(
            "length_due",
            length_due,
            level=2,
            minutes=15,
            draw=draw_update,
            cases=[
                (0, 10, 0.0, [8, 16]),
                (4, 10, 0.5, [8, 16, 24]),
                *((done, 100, 0.3, _PUBLIC) for done in (1, 29, 30)),
                *((done, 1000, 0.3, _PUBLIC) for done in (2, 3, 253, 254, 299, 300, 999)),
                *((done, 99, 0.3, _PUBLIC) for done in (15, 29, 30)),  # 0.3 × 99 is not whole
            ],
            hint="multiply before you divide: (number of steps) × done // (updates of the warm-up).",
            slips={
                "the updates of the warm-up are rounded to a whole number.": without_rounding,
                "that divides first and rounds down, as the public warm-up does; the maximum comes too early.": (
                    as_the_public_one
                ),
                "that gives the last length a share of the warm-up; it is due when the warm-up is over.": (
                    with_a_share_for_the_last
                ),
            },
        ),
        Exercise(
            "fair_updates",
            fair_updates,
            level=3,
            minutes=15,
            draw=draw_run,
            hint="try one number of updates after the other, and add up the tokens of each.",
            slips={
                "that is the number of updates of full rows; the first rows of the warm-up are shorter.": of_full_rows,
                "the warm-up is a share of the updates of this run, not of those of the run with full rows.": (
                    with_the_warmup_of_full_rows
                ),
                "with that the run sees fewer tokens than asked for: one update is missing.": (
                    lambda tokens, rows, duration, lengths: fair_updates(tokens, rows, duration, lengths) - 1
                ),
            },
        ),
    ]
)
