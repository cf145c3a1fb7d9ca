"""What notebook 18 computes: batches as rows to draw, samples with tokens and tiles, and rows with two budgets."""

from collections.abc import Iterable, Sequence

import numpy as np

from packbook.questions import compare
from packbook.shared.recorded_runs import Interval
from packlib.batches import TokenBatches
from packlib.packing import Packs, PairPacks

TILE = 144  # tokens of a tile of an image


def rows_of_batches(batches: TokenBatches, lengths: np.ndarray, number: int) -> list[list[list[int]]]:
    """Return the first `number` batches as lists of rows; a row is a list with the length of one sample."""
    drawn_batches = []
    for index in range(min(number, len(batches))):
        drawn_batches.append([[int(lengths[sample])] for sample in batches[index]])
    return drawn_batches


def rows_of_packs(packs: Packs, lengths: np.ndarray, rows: int, number: int) -> list[list[list[int]]]:
    """Return the first `number` batches of `rows` packs as lists of rows; a row is a list of several lengths."""
    drawn_packs = []
    for index in range(min(rows * number, len(packs))):
        drawn_packs.append([int(lengths[sample]) for sample in packs[index]])
    return [drawn_packs[start : start + rows] for start in range(0, len(drawn_packs), rows)]


def costlier(cost: dict[str, float]) -> str:
    """Return the order in which one shape costs more, in the words of the question.

    Args:
        cost: by order, the share of the slots that padding to one shape adds; shares within a point count as equal.
    """
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
    """Return an order of the samples of one row in which the row's walk stays close to the diagonal.

    The walk goes from (0, 0) by the tokens and tiles of each sample, both as shares of their budgets.

    Args:
        tokens: of each sample.
        tiles: of each sample.
        budgets: most tokens and most tiles of a row.
    """
    steps = np.stack([tokens, tiles], axis=1) / np.array(budgets)
    waiting = list(range(len(tokens)))
    position = np.zeros(2)
    order: list[int] = []
    while waiting:
        ends = [position + steps[sample] for sample in waiting]
        nearest = min(range(len(waiting)), key=lambda i: abs(ends[i][0] - ends[i][1]))
        position = ends[nearest]
        order.append(waiting.pop(nearest))
    return order


def middle_row(rows: Iterable[Sequence[int]], tokens: np.ndarray, tiles: np.ndarray, budgets: tuple[int, int]) -> int:
    """Return the index of the row that is full in the middle, of those with three samples or more.

    A row is as full as the fuller of its two budgets.
    """
    fullness = {}
    for index, row in enumerate(rows):
        if len(row) > 2:
            samples = list(row)
            fullness[index] = max(tokens[samples].sum() / budgets[0], tiles[samples].sum() / budgets[1])
    by_fullness = sorted(fullness, key=lambda index: fullness[index])
    return by_fullness[len(by_fullness) // 2]


def what_is_scarce(packs: PairPacks) -> str:
    """Return a sentence that names the budget that needs more rows, and whether the other one matters."""
    needs = f"Tokens alone need {packs.token_bound:,} rows, tiles alone {packs.patch_bound:,}"
    if max(packs.token_bound, packs.patch_bound) > 1.1 * min(packs.token_bound, packs.patch_bound):
        return f"{needs}: mostly one budget decides here, the {packs.scarcer.replace('patches', 'tiles')}."
    return f"{needs}: both budgets are about equally scarce here."


def in_words(found: Interval) -> str:
    """Return the verdict on a difference: "higher", "lower" or "inconclusive"."""
    return found.verdict
