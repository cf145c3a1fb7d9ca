"""The exercises of notebook 01, in its order."""

import math

from packbook.exercises import Exercise, Exercises


def padding_share(lengths, max_length):
    """Return the share of slots that are padding when each sequence is padded to `max_length`."""
    return 1 - sum(lengths) / (len(lengths) * max_length)


def draw_lengths_and_maximum(rng):
    """Draw one to eight lengths, and the maximum length, which none of them exceeds."""
    max_length = rng.choice([4, 8, 16, 128])
    return [rng.randint(1, max_length) for _ in range(rng.randint(1, 8))], max_length


def best_factor(counts):
    """Return the best packing factor; `counts[l]` sequences have length l, and the last l is the maximum length."""
    tokens = sum(length * count for length, count in enumerate(counts))
    return (len(counts) - 1) * sum(counts) / tokens


def draw_counts(rng):
    """Draw the counts of a histogram of at least one sequence."""
    counts = [0, *(rng.randint(0, 5) for _ in range(rng.randint(1, 9)))]
    counts[rng.randint(1, len(counts) - 1)] += 1  # else there might be no sequence
    return (counts,)


def slots_of_batches(lengths, batch_size):
    """Return the slots of all batches, cut in the given order, each padded to its longest sequence."""
    batches = [lengths[i : i + batch_size] for i in range(0, len(lengths), batch_size)]
    return sum(len(batch) * max(batch) for batch in batches)


def draw_lengths_and_batch(rng):
    """Draw one to ten lengths and a batch size, which need not divide their number."""
    return [rng.randint(1, 9) for _ in range(rng.randint(1, 10))], rng.randint(1, 4)


def mean_width(lengths, batch_size):
    """Return the mean length of the longest of `batch_size` sequences, chosen at random, each at most once."""
    total = 0
    for shorter, length in enumerate(sorted(lengths)):
        total += length * math.comb(shorter, batch_size - 1)  # choices whose longest is this one
    return total / math.comb(len(lengths), batch_size)


def draw_lengths_to_choose_from(rng):
    """Draw one to nine lengths, and a batch size of at most their number."""
    lengths = [rng.randint(1, 40) for _ in range(rng.randint(1, 9))]
    return lengths, rng.randint(1, len(lengths))


MANY = [  # lengths with too many choices of 20 to list
    31, 7, 12, 88, 5, 64, 19, 3, 27, 41, 9, 15, 8, 22, 36, 11, 50, 6, 14, 73,
    18, 2, 29, 10, 45, 13, 7, 21, 33, 16, 4, 57, 12, 25, 9, 38, 17, 6, 96, 20,
]  # fmt: skip


def mean_width_with_repeats(lengths, batch_size):
    """Return the mean length of the longest in a batch if a sequence may come twice, as in the notebook's formula."""
    number = len(lengths)
    ordered = sorted(lengths)
    chances = [((at + 1) / number) ** batch_size - (at / number) ** batch_size for at in range(number)]
    return sum(length * chance for length, chance in zip(ordered, chances, strict=True))


check = Exercises(
    [
        Exercise(
            "padding_share",
            padding_share,
            level=1,
            minutes=5,
            draw=draw_lengths_and_maximum,
            cases=[([4], 4), ([1], 4)],
            hint="count the slots of the whole rectangle first.",
            slips={
                "that is the share of the tokens; padding is the rest of the rectangle.": (
                    lambda lengths, max_length: sum(lengths) / (len(lengths) * max_length)
                ),
                "that pads to the longest sequence; here each row has `max_length` slots.": (
                    lambda lengths, max_length: 1 - sum(lengths) / (len(lengths) * max(lengths))
                ),
                "that is the number of empty slots; the share is that number divided by all slots.": (
                    lambda lengths, max_length: len(lengths) * max_length - sum(lengths)
                ),
                "that is a percentage; give the share, from 0 to 1.": (
                    lambda lengths, max_length: 100 * padding_share(lengths, max_length)
                ),
            },
        ),
        Exercise(
            "best_factor",
            best_factor,
            level=1,
            minutes=5,
            draw=draw_counts,
            cases=[([0, 1],), ([0, 2, 0],), ([0] + [1] * 16,)],
            hint="divide the maximum length by the mean length of a sequence.",
            slips={
                "the maximum length is the last index, also if no sequence has it.": (
                    lambda counts: (
                        max(n for n, c in enumerate(counts) if c)
                        * sum(counts)
                        / sum(n * c for n, c in enumerate(counts))
                    )
                ),
                "`counts` begins with length 0, so the maximum length is `len(counts) - 1`.": (
                    lambda counts: len(counts) * sum(counts) / sum(n * c for n, c in enumerate(counts))
                ),
                "that is the mean over the different lengths; each counts as often as it occurs.": (
                    lambda counts: (
                        (len(counts) - 1) * sum(c > 0 for c in counts) / sum(n for n, c in enumerate(counts) if c)
                    )
                ),
            },
        ),
        Exercise(
            "slots_of_batches",
            slots_of_batches,
            level=2,
            minutes=10,
            draw=draw_lengths_and_batch,
            cases=[([3], 1), ([1, 3], 2), ([1, 3], 1), ([4, 1, 2], 2)],
            hint="the last batch may hold fewer sequences, and it is a rectangle all the same.",
            slips={
                "the smaller last batch is missing.": (
                    lambda lengths, batch_size: slots_of_batches(
                        lengths[: len(lengths) // batch_size * batch_size], batch_size
                    )
                ),
                "the last batch has only as many rows as there are sequences left.": (
                    lambda lengths, batch_size: sum(
                        batch_size * max(lengths[i : i + batch_size]) for i in range(0, len(lengths), batch_size)
                    )
                ),
                "that sorts the lengths first; the batches are cut in the given order.": (
                    lambda lengths, batch_size: slots_of_batches(sorted(lengths), batch_size)
                ),
                "that pads all batches to the longest sequence of all; each has its own.": (
                    lambda lengths, batch_size: len(lengths) * max(lengths)
                ),
            },
        ),
        Exercise(
            "mean_width",
            mean_width,
            level=3,
            minutes=20,
            draw=draw_lengths_to_choose_from,
            cases=[([5], 1), ([1, 3], 2), ([1, 2, 3], 2), (MANY, 20)],
            hint=(
                "sort the lengths. If one of them is the longest chosen, all the others come from those before it: in "
                "how many ways?"
            ),
            slips={
                "that is the mean over the batches in the given order; here every choice is equally likely.": (
                    lambda lengths, batch_size: slots_of_batches(lengths, batch_size) / len(lengths)
                ),
                "that lets a sequence come twice in a batch, as the notebook's formula does.": mean_width_with_repeats,
                "the others come from the sequences *before* the longest, `batch_size - 1` of them.": (
                    lambda lengths, batch_size: (
                        sum(n * math.comb(at, batch_size) for at, n in enumerate(sorted(lengths)))
                        / math.comb(len(lengths), batch_size)
                    )
                ),
            },
        ),
    ]
)
