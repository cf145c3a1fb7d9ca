"""The exercises of notebook 06, in its order."""

import torch

from packbook.exercises import Exercise, Exercises
from packbook.n06_unpacking_losses.lab import FAULTS, SUSPECTS, not_the_four


def unpack(values, slots, starts):
    """Return the summed loss of each sequence, and its number of predicted tokens, as two lists or tensors."""
    sequence = torch.searchsorted(starts, slots, right=True) - 1
    zeros = torch.zeros(len(starts), dtype=values.dtype)
    return zeros.index_add(0, sequence, values), zeros.index_add(0, sequence, torch.ones_like(values))


def as_tensors(values, slots, starts):
    """Return the arguments of `unpack`: losses in float32, their slots, and the first slot of each sequence."""
    return torch.tensor(values, dtype=torch.float32), torch.tensor(slots), torch.tensor(starts)


def draw_losses(rng):
    """Draw losses at some slots of up to five sequences."""
    starts = [0, *sorted(rng.sample(range(1, 20), rng.randint(0, 4)))]
    slots = sorted(rng.sample(range(24), rng.randint(1, 8)))
    return as_tensors([rng.randint(1, 9) for _ in slots], slots, starts)


def border_to_the_one_before(values, slots, starts):
    """Unpack as if the first slot of a sequence belonged to the sequence before."""
    sequence = (torch.searchsorted(starts, slots) - 1).clamp(min=0)
    zeros = torch.zeros(len(starts), dtype=values.dtype)
    return zeros.index_add(0, sequence, values), zeros.index_add(0, sequence, torch.ones_like(values))


def means_in_place_of_sums(values, slots, starts):
    """Return the mean loss of each sequence, and its number of predicted tokens."""
    totals, counts = unpack(values, slots, starts)
    return totals / counts.clamp(min=1), counts


def sequence_mean(packs):
    """Return the mean of sequences' means; `packs[i][j]` has the losses of sequence j in pack i, or nothing."""
    means = [sum(losses) / len(losses) for pack in packs for losses in pack if losses]
    return sum(means) / len(means)


def draw_packs(rng):
    """Draw packs of one to three sequences, some of which have nothing to predict."""
    packs = [
        [[float(rng.randint(1, 9)) for _ in range(rng.randint(0, 3))] for _ in range(rng.randint(1, 3))]
        for _ in range(rng.randint(1, 3))
    ]
    packs[0][0].append(float(rng.randint(1, 9)))  # else there might be no loss at all
    return (packs,)


def mean_over_packs(packs):
    """Return the mean over packs of the mean over their tokens."""
    by_pack = [[loss for losses in pack for loss in losses] for pack in packs]
    means = [sum(losses) / len(losses) for losses in by_pack if losses]
    return sum(means) / len(means)


def mean_over_tokens(packs):
    """Return the mean over all tokens."""
    losses = [loss for pack in packs for losses in pack for loss in losses]
    return sum(losses) / len(losses)


def means_by_sequence_then_pack(packs):
    """Return the mean over packs of the mean over their sequences."""
    means = [sequence_mean([pack]) for pack in packs if any(pack)]
    return sum(means) / len(means)


def empty_ones_count(packs):
    """Divide the sum of the sequences' means by the number of all sequences, also those without a loss."""
    means = [sum(losses) / len(losses) for pack in packs for losses in pack if losses]
    return sum(means) / sum(map(len, packs))


def loss_factor(counts):
    """Return the factor of every summed loss; `counts[r][s]` sequences are in micro-batch s of replica r."""
    return len(counts) / sum(map(sum, counts))


def draw_counts(rng):
    """Draw how many sequences are in each micro-batch of each replica; at least one is."""
    replicas, steps = rng.randint(1, 4), rng.randint(1, 4)
    counts = [[rng.randint(0, 9) for _ in range(steps)] for _ in range(replicas)]
    counts[0][0] += 1
    return (counts,)


check = Exercises(
    [
        Exercise(
            "unpack",
            unpack,
            level=2,
            minutes=15,
            draw=draw_losses,
            cases=[
                as_tensors([3], [0], [0]),
                as_tensors([3, 4], [1, 4], [0, 4]),
                as_tensors([1, 2, 4], [2, 17, 18], [0, 5, 16, 19]),
            ],
            hint="torch.searchsorted(starts, slots, right=True) - 1 says whose each value is; then two index_add.",
            slips={
                "the first slot of a sequence is its own, and no slot of the sequence before: right=True.": (
                    border_to_the_one_before
                ),
                "sequences with nothing to predict stay in the result, with two zeros.": (
                    lambda values, slots, starts: [
                        part[unpack(values, slots, starts)[1] > 0] for part in unpack(values, slots, starts)
                    ]
                ),
                "that divides already; asked are the sums and the counts.": means_in_place_of_sums,
                "the counts come second.": lambda values, slots, starts: unpack(values, slots, starts)[::-1],
            },
        ),
        Exercise(
            "sequence_mean",
            sequence_mean,
            level=1,
            minutes=5,
            draw=draw_packs,
            cases=[([[[2.0]]],), ([[[1.0, 3.0]], [[4.0]]],), ([[[2.0], [4.0]], [[9.0]]],)],
            hint="one mean for each sequence that has a loss, then one mean of those, whatever their packs.",
            slips={
                "that is the mean over packs: sequences that share a pack count less.": means_by_sequence_then_pack,
                "that is the mean over packs of their tokens; the packs must not matter.": mean_over_packs,
                "that is the mean over tokens; each sequence counts alike here.": mean_over_tokens,
                "a sequence with nothing to predict does not count, also not in the number.": empty_ones_count,
            },
        ),
        Exercise(
            "loss_factor",
            loss_factor,
            level=2,
            minutes=10,
            draw=draw_counts,
            cases=[([[4]],), ([[4, 6]],), ([[4], [6]],), ([[1, 2], [3, 4]],)],
            hint="gradients are added over steps and averaged over replicas: undo that, and divide by all sequences.",
            slips={
                "training averages over the replicas, which divides by their number; undo that.": (
                    lambda counts: 1 / sum(map(sum, counts))
                ),
                "the gradients of micro-batches are added up; only those of replicas are averaged.": (
                    lambda counts: len(counts) * len(counts[0]) / sum(map(sum, counts))
                ),
                "averaging over the replicas divides by their number; multiply by it.": (
                    lambda counts: 1 / len(counts) / sum(map(sum, counts))
                ),
            },
        ),
        Exercise(
            "broken_trainer",
            FAULTS,
            level=3,
            minutes=30,
            fault=not_the_four,
            hint="two faults are in `collate`, one is in `loss`, and one is in `step`.",
            slips={
                "a name too many counts as a wrong one: keep those that you have measured.": list(SUSPECTS),
                "write the names that `packlib check` has: what attention lets through is `isolation`.": (
                    "attention, positions, mean, accumulation".split(", ")
                ),
            },
        ),
    ]
)
