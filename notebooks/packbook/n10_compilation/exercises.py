"""The exercises of notebook 10, in its order."""

from itertools import pairwise

from packbook.exercises import Exercise, Exercises
from packbook.n10_compilation.runs import meets_new, onset


def padded_slots(lengths, edges):
    """Return the slots of all rows; a row is as long as the first edge that its sequence fits into."""
    return sum(min(edge for edge in edges if edge >= length) for length in lengths)


def best_edges(lengths, k):
    """Choose k different edges with the least slots: the dynamic program, which keeps the edges beside the slots."""
    edges = sorted(set(lengths))
    below = [0, *(sum(length <= edge for length in lengths) for edge in edges)]
    best = {j: (edge * below[j + 1], [edge]) for j, edge in enumerate(edges)}  # one bucket up to edge j
    for _ in range(k - 1):
        best = {
            j: min(
                (slots + edges[j] * (below[j + 1] - below[i + 1]), [*chosen, edges[j]])
                for i, (slots, chosen) in best.items()
                if i < j
            )
            for j in best
            if j > min(best)
        }
    return best[len(edges) - 1][1]


def _edges_fault(got, lengths, k):
    """Return a sentence that says what is wrong with the edges `got`; None if no `k` edges make fewer slots."""
    if len(set(got)) != k:
        return f"there must be {k} different edges."
    if max(got) < max(lengths):
        return f"a sequence of {max(lengths)} tokens fits into none."
    slots, least = padded_slots(lengths, got), padded_slots(lengths, best_edges(lengths, k))
    return f"that makes {slots} slots; {least} are possible." if slots > least else None


def warm_order(lengths, ranks):
    """Order rows so that rounds come first, in which all ranks get one length, longest first; the rest as it was."""
    padded = list(lengths)
    for length, longer in pairwise(sorted(set(lengths))):
        if padded.count(length) < ranks:
            padded = [longer if other == length else other for other in padded]
    return [(i, padded[i]) for i in onset(padded, ranks)]


def _order_fault(got, lengths, ranks):
    """Return a sentence with the fault of `got`, pairs of a batch and its padded length; None if it has none."""
    order, padded = [i for i, _ in got], [length for _, length in got]
    if sorted(order) != list(range(len(lengths))):
        return "each batch must be there exactly once."
    if any(length < lengths[i] or length not in lengths for i, length in got):
        return "each batch must be padded to its own length or to a longer one of those given."
    least = sum(length for _, length in warm_order(lengths, ranks))
    stalls, fewest = int(meets_new(padded, ranks).any(axis=0).sum()), len(set(padded))
    if stalls > fewest:
        return f"some rank compiles in {stalls} of the steps; with these lengths {fewest} are possible."
    for step in range(fewest):
        in_step = set(padded[ranks * step : ranks * (step + 1)])
        if len(in_step) > 1:
            listed = ", ".join(map(str, sorted(in_step)))
            return f"in step {step + 1} the ranks have batches of {listed}, not of one length."
    if sum(padded) > least:
        return f"the batches have {sum(padded)} slots a row in all; {least} are enough."
    if min(padded[:ranks]) < max(lengths):
        return "memory must be found first: every rank begins with the longest."
    after_onset = order[ranks * fewest :]
    return "after the onset the batches must keep their order." if after_onset != sorted(after_onset) else None


def draw_edges(rng):
    """Draw up to eight lengths, and up to four edges, of which the last holds all lengths."""
    edges = sorted(rng.sample(range(2, 40), rng.randint(1, 4)))
    return [rng.randint(1, edges[-1]) for _ in range(rng.randint(1, 8))], edges


def draw_batches(rng):
    """Draw the lengths of batches, of which the longest comes for each rank, and the number of ranks."""
    ranks = rng.randint(1, 3)
    longest = rng.choice([24, 32])
    lengths = [rng.choice([8, 12, 16, longest]) for _ in range(rng.randint(0, 9))] + [longest] * ranks
    rng.shuffle(lengths)
    return lengths, ranks


def draw_lengths(rng):
    """Draw up to nine lengths, and a number of edges of at most as many as there are different lengths."""
    lengths = [rng.randint(1, 30) for _ in range(rng.randint(2, 9))]
    return lengths, rng.randint(1, len(set(lengths)))


def one_too_long(lengths, edges):
    """Return the slots if a length that equals an edge went to the next one."""
    return sum(min((edge for edge in edges if edge > length), default=edges[-1]) for length in lengths)


def pads_only_its_own(lengths, ranks):
    """Return the order if batches that were padded to a length did not count for it."""

    def padded(length):
        frequent = [other for other in lengths if lengths.count(other) >= ranks]
        return min((other for other in frequent if other >= length), default=max(lengths))

    return [(i, padded(lengths[i])) for i in onset(lengths, ranks)]


def take_away_one_by_one(lengths, k):
    """Take away, greedily, from all lengths the edge that costs least, until k are left."""
    edges = sorted(set(lengths))
    while len(edges) > k:
        edges = min(
            ([other for other in edges if other != edge] for edge in edges[:-1]),
            key=lambda remaining: padded_slots(lengths, remaining),
        )
    return edges


# lengths for the cases
_MANY = [7 * i % 97 + i % 5 + 1 for i in range(120)]  # of far more choices than can be tried
_LENGTHS = [3, 5, 5, 6, 9, 10, 17, 18, 18, 24, 40, 41, 64]
check = Exercises(
    [
        Exercise(
            "padded_slots",
            padded_slots,
            level=1,
            minutes=5,
            draw=draw_edges,
            cases=[([4], [4, 8]), ([3, 5, 9], [4, 16]), (_LENGTHS, [8, 24, 64])],
            hint="a sequence goes to the first edge that is not shorter than it is.",
            slips={
                "a length that fits exactly stays; it does not go to the next edge.": one_too_long,
                "that pads every sequence to the longest edge.": (lambda lengths, edges: len(lengths) * max(edges)),
            },
        ),
        Exercise(
            "warm_order",
            warm_order,
            level=2,
            minutes=15,
            draw=draw_batches,
            fault=_order_fault,
            cases=[
                ([8, 16, 16], 2),
                ([8, 8, 16, 16], 2),
                ([8, 16, 24, 24], 2),
                ([24, 8, 16, 8, 16, 24, 8, 24, 16, 12, 8], 3),
            ],
            hint=(
                "go from the shortest length up: one with fewer than `ranks` batches, counted with those padded to it, "
                "becomes the next."
            ),
            slips={
                "that is the onset above: lengths with too few batches must be padded.": (
                    lambda lengths, ranks: [(i, lengths[i]) for i in onset(lengths, ranks)]
                ),
                "batches that were padded to a length count for it, too.": pads_only_its_own,
                "the longest come first, so that memory is found at the start.": (
                    lambda lengths, ranks: sorted(warm_order(lengths, ranks), key=lambda pair: pair[1])
                ),
            },
        ),
        Exercise(
            "best_edges",
            best_edges,
            level=3,
            minutes=30,
            draw=draw_lengths,
            fault=_edges_fault,
            cases=[([1, 2, 9], 2), ([4, 9, 14, 18, 20, 27], 2), (_LENGTHS, 4), (_MANY, 12)],
            hint="keep with each best sum of slots the list of its edges, and take the minimum over pairs of both.",
            slips={
                "taking away the cheapest edge, one by one, does not always end at the best choice.": (
                    take_away_one_by_one
                ),
                "the same number of sequences in each bucket says nothing of their lengths.": (
                    lambda lengths, k: [sorted(lengths)[-(-len(lengths) * i // k) - 1] for i in range(1, k + 1)]
                ),
                "the most frequent lengths need not waste the least.": (
                    lambda lengths, k: sorted(sorted(set(lengths), key=lambda length: -lengths.count(length))[:k])
                ),
            },
        ),
    ]
)
