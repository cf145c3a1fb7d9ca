"""The classic packings, for comparison: one sequence a pack, next-fit, first-fit- and best-fit-decreasing.

Johnson, Near-Optimal Bin Packing Algorithms (1973). The decreasing ones work on the histogram, since equal
sequences are interchangeable; next-fit depends on the order of the sequences.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from packlib.checks import whole_number
from packlib.lengths.counting import as_lengths
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import Group, from_long_to_short, lpfhp

Run = tuple[int, tuple[int, ...], int]  # equal packs that were opened one after the other: space left, lengths, packs

_BLOCK = 32  # runs
_MOST_ONE_BY_ONE = 1 << 28  # their lengths alone take 2 GiB


def unpacked(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """Every sequence alone: padding as usual."""
    return [((length,), n) for length, n in from_long_to_short(histogram)]


def next_fit(
    histogram: LengthHistogram,
    max_sequences_per_pack: int | None = None,
    order: Iterable[int] | None = None,
    seed: int = 0,
) -> list[Group]:
    """One open pack; a sequence that does not fit closes it. What a loader does that concatenates as it reads.

    Args:
        order: the lengths in the order they come; by default shuffled by `seed`.
    """
    if order is None:
        if histogram.num_sequences > _MOST_ONE_BY_ONE:
            raise ValueError(
                f"next_fit takes sequences one by one, at most {_MOST_ONE_BY_ONE:,}; {histogram.name} has "
                f"{histogram.num_sequences:,}."
            )
        lengths = np.random.default_rng(whole_number("seed", seed, 0)).permutation(histogram.expand())
    else:
        lengths = as_lengths(order)
        if LengthHistogram.from_lengths(lengths, max(histogram.max_length, int(lengths.max()))) != histogram:
            raise ValueError(f"The order must hold the lengths of {histogram.name}, each as often as it occurs.")
    packs: Counter[tuple[int, ...]] = Counter()
    pack, used = list[int](), 0
    for length in lengths.tolist():
        if used + length > histogram.max_length or len(pack) == max_sequences_per_pack:
            packs[tuple(sorted(pack))] += 1
            pack, used = [], 0
        pack.append(length)
        used += length
    packs[tuple(sorted(pack))] += 1
    return list(packs.items())


def first_fit_decreasing(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """From long to short, each sequence into the first pack that takes it.

    Equal packs that stand one after the other fill in the same way, so they are kept as one run; the last run are the
    empty packs. The runs stand in blocks, and a length skips those whose largest space is too small for it.
    """
    limit = max_sequences_per_pack or histogram.num_sequences
    blocks: list[list[Run]] = [[(histogram.max_length, (), histogram.num_sequences)]]
    largest = [histogram.max_length]
    closed: list[Group] = []
    for length, n in from_long_to_short(histogram):
        at = 0
        while n:
            at = next(block for block in range(at, len(largest)) if largest[block] >= length)
            runs = list[Run]()
            for run in blocks[at]:
                if n and run[0] >= length:
                    n, parts = _fill_run(run, length, n, limit)
                    for space, lengths, packs in parts:
                        if space == 0 or len(lengths) == limit:
                            closed.append((lengths, packs))
                        else:
                            runs.append((space, lengths, packs))
                else:
                    runs.append(run)
            pieces = [runs[i : i + _BLOCK] for i in range(0, len(runs), _BLOCK)] if len(runs) > 2 * _BLOCK else [runs]
            blocks[at : at + 1] = pieces
            largest[at : at + 1] = [max((space for space, _, _ in piece), default=0) for piece in pieces]
            at += len(pieces)
    return closed + [(lengths, packs) for block in blocks for _, lengths, packs in block if lengths]


def _fill_run(run: Run, length: int, n: int, limit: int) -> tuple[int, list[Run]]:
    """Put up to `n` sequences into the first packs of a run; return how many are left, and the runs it becomes."""
    space, lengths, packs = run
    fits = min(space // length, limit - len(lengths))
    full = min(packs, n // fits)
    rest = n - full * fits if full < packs else 0
    parts = ((fits, full), (rest, int(rest > 0)), (0, packs - full - (rest > 0)))
    runs = [(space - copies * length, lengths + (length,) * copies, count) for copies, count in parts if count]
    return n - full * fits - rest, runs


def best_fit_decreasing(histogram: LengthHistogram, max_sequences_per_pack: int | None = None) -> list[Group]:
    """From long to short, each sequence into the fullest pack that takes it.

    That is LPFHP: it only handles many equal packs at once.
    """
    return lpfhp(histogram, max_sequences_per_pack)
