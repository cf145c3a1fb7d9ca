"""What notebook 07 computes: the rows of an update, sentences that the data choose, and recorded runs."""

import numpy as np

from packbook.questions import compare
from packbook.shared.recorded_runs import Interval, against, at_end, runs_of
from packlib.arguments import plural
from packlib.packing import Packs
from packlib.training import Recipe
from packlib.training.adjustment import TOLERATED


def micro_batches(lengths: np.ndarray, packs: Packs, recipe: Recipe, slots: int, seed: int) -> list[np.ndarray]:
    """Return the micro-batches of one update, of packs at random: segment ids (rows, slots), 0 for padding."""
    order = np.random.default_rng(seed).choice(len(packs), (recipe.gradient_accumulation_steps, recipe.micro_batch))
    parts = np.zeros((*order.shape, slots), np.int16)
    for place in np.ndindex(order.shape):
        pack = packs[int(order[place])]
        filled = np.repeat(np.arange(len(pack)) + 1, lengths[pack])
        parts[place][: len(filled)] = filled
    return list(parts)


def strips(
    lengths: np.ndarray, updates: dict[str, tuple[Packs, Recipe]], slots: int, seed: int
) -> dict[str, list[np.ndarray]]:
    """Return an update's first eight micro-batches, of each kind, under its name and the whole update's sequences."""
    parts = {name: micro_batches(lengths, *which, slots, seed) for name, which in updates.items()}
    return {
        f"{name}: {plural(int(sum(ids.max(1).sum() for ids in part)), 'sequence')}": part[:8]
        for name, part in parts.items()
    }


def what_changes(before: Recipe, after: Recipe) -> str:
    """Return the change of one update by packing, in the words of the question; less than 1 % is no change."""
    more = after.sequences_per_update / before.sequences_per_update - 1
    return compare(more, 0, "its rows", "nothing", "its sequences", within=0.01)


def signed(share: float) -> str:
    """Return a change in percent with its sign: "+2.5 %" or "−25.0 %"."""
    return f"{100 * share:+,.1f} %".replace("-", "−")


def advice_on_rounding(off: float) -> str:
    """Describe the remainder of the rounded accumulation for this recipe, and what to do about it."""
    left = f"For this recipe an update has {signed(off)} sequences after dividing"
    if abs(off) <= TOLERATED:
        return f"{left}, which is about the same number as before."
    if off > 0.5:
        return f"{left}: the accumulation cannot be divided further, so divide the micro-batch, or keep the batch."
    return f"{left}: choose the micro-batch as well, or end updates at a number of sequences."


def update_in_words(before: Recipe, after: Recipe) -> str:
    """Describe the rows and sequences of an update before and after the data were packed."""
    rows = f"The code still counts rows: {after.global_batch:,}, as before."
    if what_changes(before, after) == "nothing":
        return f"{rows} And a row holds about one sequence, as before."
    return (
        f"{rows} On average an update now holds {after.sequences_per_update:,.1f} sequences instead of "
        f"{before.sequences_per_update:,.0f}, and the same data last for {after.total_steps:,} updates instead of "
        f"{before.total_steps:,}."
    )


def how_the_schedule_ends(share: float, factor: float, rising: bool) -> str:
    """Say why the rate ends where it does, if the schedule counts updates and the batch was kept.

    Args:
        share: of the highest rate, in percent.
        factor: packing factor.
        rising: True if the data ended before the warm-up did.
    """
    if rising:
        return "The schedule waits for updates that never come: the data ended before the warm-up did."
    if share < 1:
        return "A row holds about one sequence, as before, so the schedule ends nearly as planned."
    return (
        f"The schedule waits for updates that never come. The warm-up took {factor:g} times as many sequences as "
        "planned, and the data ended before the rate had fallen."
    )


def adjusted(name: str) -> dict[str, tuple[Interval, int]]:
    """Return, by way to adjust in a recorded experiment, its final loss less that of padded rows, and its updates."""
    runs = runs_of(name)
    updates = {arm: round(float(np.mean(each))) for arm, each in at_end(runs, "update").items()}
    return {arm: (one, updates[arm]) for arm, one in against(at_end(runs), "padded").items()}


def in_words(found: Interval, lower: str = "lower", higher: str = "higher", inconclusive: str = "inconclusive") -> str:
    """Return a sentence about the interval of a difference."""
    if abs(found.mean) <= found.half:
        return inconclusive
    return higher if found.mean > 0 else lower


def above_padded(recorded: dict[str, dict[str, tuple[Interval, int]]]) -> list[bool]:
    """Say of each way that keeps the large batch, with each optimizer, whether its final loss is above padded rows."""
    intervals = [one for ways in recorded.values() for way, (one, _) in ways.items() if not way.startswith("divided")]
    return [in_words(one) == "higher" for one in intervals]


def contrast(name: str, arm: str, base: str) -> Interval:
    """Return the final loss of one way less that of another one, seed by seed."""
    return against(at_end(runs_of(name)), base)[arm]
