"""What notebook 18 computes: batches as rows to draw, samples with two budgets, and walks through them."""

from collections.abc import Iterable, Sequence

import numpy as np

from packbook.questions import compare
from packbook.shared.recorded_runs import Interval
from packlib.batches import TokenBatches
from packlib.packing import Packs, PairPacks

TILE = 144  # tokens of a tile of an image


def rows_of_batches(batches: TokenBatches, lengths: np.ndarray, number: int) -> list[list[list[int]]]:
    """Return the first batches, each a list of rows with one length."""
    return [[[int(lengths[i])] for i in batches[at]] for at in range(min(number, len(batches)))]


def rows_of_packs(packs: Packs, lengths: np.ndarray, rows: int, number: int) -> list[list[list[int]]]:
    """Return the first batches of so many packs, each pack a row with several lengths."""
    rows_of_lengths = [[int(lengths[i]) for i in packs[at]] for at in range(min(rows * number, len(packs)))]
    return [rows_of_lengths[at : at + rows] for at in range(0, len(rows_of_lengths), rows)]


def costlier(cost: dict[str, float]) -> str:
    """Return the order in which one shape costs more, in the words of the question; a point of the slots is a tie."""
    return compare(cost["random"], cost["ascending"], "ascending", "equal", "random", within=0.01)


def what_one_shape_costs(cost: dict[str, float]) -> str:
    """Explain the answer to the question in which order one shape costs more."""
    ascending, at_random = 100 * cost["ascending"], 100 * cost["random"]
    shares = f"{ascending:.1f} % of the slots in ascending order, {at_random:.1f} % in random order"
    if costlier(cost) == "equal":
        return f"The padding for one shape is {shares}: these lengths are so alike that the order does not matter."
    return (
        f"The padding for one shape is {shares}. Four neighbors of a sorted list have about one length, so one shape "
        "hardly adds to them; in random order the widest of four batches is far from the others."
    )


def texts_with_images(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return synthetic samples: half are long texts, half are short texts with 1 to 12 tiles of images.

    Returns:
        The tokens of each sample, those of its tiles included, and its tiles; int64, shape (number,) each.
    """
    rng = np.random.default_rng(seed)
    tiles = np.where(rng.random(number) < 0.5, 0, rng.integers(1, 13, number))
    median = np.where(tiles == 0, 1500, 230)
    words = (median * rng.lognormal(0, 0.8, number)).astype(int).clip(12, 8000)
    return words + TILE * tiles, tiles


def zigzag(tokens: np.ndarray, tiles: np.ndarray, budgets: tuple[int, int]) -> list[int]:
    """Return an order of the samples of one row in which its walk stays close to the diagonal."""
    left, at, order = list(range(len(tokens))), np.zeros(2), list[int]()
    steps = np.stack([tokens, tiles], axis=1) / np.array(budgets)
    while left:
        ends = [at + steps[i] for i in left]
        nearest = min(range(len(left)), key=lambda i: abs(ends[i][0] - ends[i][1]))
        at = ends[nearest]
        order.append(left.pop(nearest))
    return order


def middle_row(rows: Iterable[Sequence[int]], tokens: np.ndarray, tiles: np.ndarray, budgets: tuple[int, int]) -> int:
    """Find, of rows with three samples or more, the one whose fuller budget is the median."""
    full = {
        number: max(tokens[list(row)].sum() / budgets[0], tiles[list(row)].sum() / budgets[1])
        for number, row in enumerate(rows)
        if len(row) > 2
    }
    return sorted(full, key=full.__getitem__)[len(full) // 2]


def what_is_scarce(packs: PairPacks) -> str:
    """Return a sentence that names the budget that needs more rows, and whether the other one matters."""
    needs = f"Tokens alone need {packs.token_bound:,} rows, tiles alone {packs.patch_bound:,}"
    if max(packs.token_bound, packs.patch_bound) > 1.1 * min(packs.token_bound, packs.patch_bound):
        return f"{needs}: mostly one budget decides here, the {packs.scarcer.replace('patches', 'tiles')}."
    return f"{needs}: both budgets are about equally scarce here."


def in_words(found: Interval) -> str:
    """Return a sentence about the interval of a difference."""
    if abs(found.mean) <= found.half:
        return "inconclusive"
    return "higher" if found.mean > 0 else "lower"
