"""The exercises of notebook 18, in its order."""

import math

from packbook.exercises import Exercise, Exercises
from packlib.arguments import percent


def cut_by_tokens(lengths, budget):
    """Cut lengths, in order, into lists as long as the budget allows. No length is above the budget."""
    batches = []
    for length in lengths:
        if not batches or sum(batches[-1]) + length > budget:
            batches.append([])
        batches[-1].append(length)
    return batches


def draw_lengths(rng):
    """Draw up to nine lengths, and a budget that none of them exceeds."""
    budget = rng.randint(5, 20)
    return [rng.randint(1, budget) for _ in range(rng.randint(1, 9))], budget


def cut_by_slots(lengths, budget):
    """Cut lengths, in order, into lists whose number times their longest is at most the budget."""
    batches = []
    for length in lengths:
        if not batches or max(*batches[-1], length) * (len(batches[-1]) + 1) > budget:
            batches.append([])
        batches[-1].append(length)
    return batches


def update_rates(sizes, ranks, accumulation, reference, rate):
    """Return the linear rate of each update; `sizes` are the samples of all micro-batches in turn."""
    every = ranks * accumulation
    return [rate * sum(sizes[i : i + every]) / reference for i in range(0, len(sizes), every)]


def draw_sizes(rng):
    """Draw the samples of all micro-batches of one to three updates, ranks, accumulation, reference and rate."""
    ranks, accumulation = rng.randint(1, 3), rng.randint(1, 3)
    sizes = [rng.randint(1, 9) for _ in range(ranks * accumulation * rng.randint(1, 3))]
    return sizes, ranks, accumulation, rng.choice([4, 8, 16]), rng.choice([0.001, 0.5])


def row_for(rooms, sample):
    """Return the position of the row with room for both that points most along the sample; -1 if no row has room."""
    best, best_row = -1.0, -1
    for row, (tokens, patches) in enumerate(rooms):
        along = tokens * sample[0] + patches * sample[1]
        if tokens >= sample[0] and patches >= sample[1] and along > best:
            best, best_row = along, row
    return best_row


def draw_rooms(rng):
    """Draw the room of up to five rows in tokens and patches, and the tokens and patches of a sample."""
    rooms = [[rng.randint(0, 12), rng.randint(0, 12)] for _ in range(rng.randint(1, 5))]
    return rooms, [rng.randint(1, 8), rng.randint(0, 8)]


def first_row_with_room(rooms, sample):
    """Return the first row with room for both."""
    fitting = [row for row, room in enumerate(rooms) if room[0] >= sample[0] and room[1] >= sample[1]]
    return fitting[0] if fitting else -1


def row_with_most_room(rooms, sample):
    """Return the row with room for both that has the most tokens and patches together."""
    fitting = [row for row, room in enumerate(rooms) if room[0] >= sample[0] and room[1] >= sample[1]]
    return max(fitting, key=lambda row: sum(rooms[row]), default=-1)


def row_by_tokens_alone(rooms, sample):
    """Return the row with room for the tokens that points most along the sample."""
    return row_for([(tokens, sample[1]) for tokens, _ in rooms], sample)


def pipeline_updates(lengths, budget):
    """Cut samples, from long to short, into updates of four micro-batches, to which they are dealt in turn.

    The micro-batches of an update have equally many rows: as many as the budget allows at the update's longest length.
    The number of samples is a multiple of four, and no length is above the budget.
    """
    ids, updates = sorted(range(len(lengths)), key=lambda i: -lengths[i]), []
    while ids:
        rows = min(budget // lengths[ids[0]], len(ids) // 4)
        part, ids = ids[: 4 * rows], ids[4 * rows :]
        updates.append([part[i::4] for i in range(4)])
    return updates


def draw_updates(rng):
    """Draw lengths of a number that four divides, and a budget, for which the reference has no fault."""
    while True:
        lengths = [rng.randint(8, 64) for _ in range(4 * rng.randint(1, 16))]
        budget = rng.choice([64, 128, 256])
        if fault_of_updates(pipeline_updates(lengths, budget), lengths, budget) is None:
            return lengths, budget


def fault_of_updates(got, lengths, budget):
    """Return a sentence with the fault of updates of four micro-batches each; None if they have none."""
    samples = sorted(i for update in got for part in update for i in part)
    if samples != list(range(len(lengths))):
        return "each sample must be there exactly once."
    slots = 0
    for number, update in enumerate(got, 1):
        rows = {len(part) for part in update}
        if len(update) != 4 or len(rows) != 1:
            return f"update {number} must have four micro-batches with the same number of rows."
        size = rows.pop() * max(lengths[i] for part in update for i in part)
        if size > budget:
            return f"the micro-batches of update {number} have {size} slots; the budget is {budget}."
        slots += 4 * size
    enough = math.ceil(sum(lengths) / (4 * budget)) + 1
    if len(got) > enough:
        return f"it makes {len(got)} updates; at most {enough} are allowed."
    padding = 1 - sum(lengths) / slots
    return f"{percent(padding)} of the slots are padding; 20 % are allowed." if padding > 0.2 else None


def one_row_each(lengths, budget):
    """Make updates with one row for each micro-batch."""
    ids = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [[[i] for i in ids[at : at + 4]] for at in range(0, len(ids), 4)]


def in_the_order_of_the_data(lengths, budget):
    """Make updates as the reference does, without sorting the samples."""
    ids, updates = list(range(len(lengths))), []
    while ids:
        rows = min(max(1, budget // max(lengths)), len(ids) // 4)
        part, ids = ids[: 4 * rows], ids[4 * rows :]
        updates.append([part[i::4] for i in range(4)])
    return updates


_PAIRS = [23, 31, 58, 17, 40, 26, 22, 35, 64, 19, 28, 45, 30, 21, 37, 25]  # lengths of sentence pairs

check = Exercises(
    [
        Exercise(
            "cut_by_tokens",
            cut_by_tokens,
            level=1,
            minutes=5,
            draw=draw_lengths,
            cases=[([5], 5), ([2, 3], 5), ([3, 3], 5), (_PAIRS, 128)],
            hint="begin a batch only where the next length does not fit into the last one.",
            slips={
                "that stays below the budget; a batch may be exactly full.": (
                    lambda lengths, budget: cut_by_tokens(lengths, max(*lengths, budget - 1))
                ),
                "that counts slots, rows times the longest; this budget counts tokens.": cut_by_slots,
                "that sorts the lengths first; they stay in their order.": (
                    lambda lengths, budget: cut_by_tokens(sorted(lengths), budget)
                ),
                "the last batch is missing.": lambda lengths, budget: cut_by_tokens(lengths, budget)[:-1],
            },
        ),
        Exercise(
            "update_rates",
            update_rates,
            level=2,
            minutes=10,
            draw=draw_sizes,
            hint="an update is ranks × accumulation micro-batches; all their samples count.",
            slips={
                "that forgets the ranks: the micro-batches of all ranks belong to one update.": (
                    lambda sizes, ranks, accumulation, reference, rate: update_rates(
                        sizes, 1, accumulation, reference, rate
                    )
                ),
                "that makes a rate for each micro-batch, but an update takes only one step.": (
                    lambda sizes, ranks, accumulation, reference, rate: update_rates(sizes, 1, 1, reference, rate)
                ),
                "that takes the root; the linear rule does not.": (
                    lambda sizes, ranks, accumulation, reference, rate: [
                        rate * (linear / rate) ** 0.5
                        for linear in update_rates(sizes, ranks, accumulation, reference, rate)
                    ]
                ),
            },
        ),
        Exercise(
            "row_for",
            row_for,
            level=2,
            minutes=10,
            draw=draw_rooms,
            cases=[([[5, 5]], [6, 1]), ([[9, 2], [2, 9]], [2, 1]), ([[9, 2], [2, 9]], [1, 2])],
            hint="leave out the rows without room; of the others, multiply room by sample in both budgets and add up.",
            slips={
                "that takes the first row with room, whichever way its room points.": first_row_with_room,
                "that takes the row with the most room in all, whichever way the sample points.": row_with_most_room,
                "that looks at the tokens alone, so the second budget is broken.": row_by_tokens_alone,
            },
        ),
        Exercise(
            "pipeline_updates",
            pipeline_updates,
            level=3,
            minutes=20,
            draw=draw_updates,
            cases=[([7, 7, 7, 7], 7), ([10, 30, 11, 31, 10, 30, 12, 31], 40), (4 * _PAIRS, 256)],
            fault=fault_of_updates,
            hint=(
                "neighbors in sorted order have about one length; give each update as many rows as its widest sample "
                "allows."
            ),
            slips={
                "that takes one row for each micro-batch, so there are too many updates; use the budget.": one_row_each,
                "that leaves the samples in their order, so short ones are padded to long ones.": (
                    in_the_order_of_the_data
                ),
            },
        ),
    ]
)
