"""What notebook 07 computes: the rows of an update, sentences that the data choose, and recorded runs."""

import numpy as np

from packbook.questions import compare
from packbook.shared.recorded_runs import Interval, against, at_end, runs_of
from packlib.arguments import plural
from packlib.packing import Packs
from packlib.training import Recipe
from packlib.training.adjustment import TOLERATED


def micro_batches(lengths: np.ndarray, packs: Packs, recipe: Recipe, slots: int, seed: int) -> list[np.ndarray]:
    """Return the micro-batches of one update, made of packs at random.

    Args:
        lengths: tokens of each sequence.
        packs: the sequences of each pack.
        slots: in a row.

    Returns:
        For each micro-batch its segment ids, int16, shape (rows, slots); 0 is padding.
    """
    shape = (recipe.gradient_accumulation_steps, recipe.micro_batch)
    chosen_packs = np.random.default_rng(seed).choice(len(packs), shape)
    segment_ids = np.zeros((*shape, slots), np.int16)
    for step, row in np.ndindex(shape):
        pack = packs[int(chosen_packs[step, row])]
        ids = np.repeat(np.arange(len(pack)) + 1, lengths[pack])  # 1 1 1 2 2 …
        segment_ids[step, row, : len(ids)] = ids
    return list(segment_ids)


def strips(
    lengths: np.ndarray, updates: dict[str, tuple[Packs, Recipe]], slots: int, seed: int
) -> dict[str, list[np.ndarray]]:
    """Return the first eight micro-batches of each of some updates.

    Args:
        updates: by name, the packs and the recipe of an update.

    Returns:
        Segment ids as from `micro_batches`, by a label such as "padded: 45 sequences"; it counts the whole update.
    """
    drawn_parts = {}
    for name, (packs, recipe) in updates.items():
        parts = micro_batches(lengths, packs, recipe, slots, seed)
        num_sequences = int(sum(segment_ids.max(1).sum() for segment_ids in parts))
        drawn_parts[f"{name}: {plural(num_sequences, 'sequence')}"] = parts[:8]
    return drawn_parts


def what_changes(before: Recipe, after: Recipe) -> str:
    """Return the change of one update by packing, in the words of the question; less than 1 % is no change."""
    change = after.sequences_per_update / before.sequences_per_update - 1
    return compare(change, 0, "its rows", "nothing", "its sequences", within=0.01)


def signed(share: float) -> str:
    """Return a change in percent with its sign: "+2.5 %" or "−25.0 %"."""
    return f"{100 * share:+,.1f} %".replace("-", "−")


def advice_on_rounding(off: float) -> str:
    """Describe the remainder of the rounded accumulation for this recipe, and what to do about it.

    Args:
        off: change of the sequences per update, as a share of those before.
    """
    result = f"For this recipe an update has {signed(off)} sequences after dividing"
    if abs(off) <= TOLERATED:
        return f"{result}, which is about the same number as before."
    if off > 0.5:
        return f"{result}: the accumulation cannot be divided further, so divide the micro-batch, or keep the batch."
    return f"{result}: choose the micro-batch as well, or end updates at a number of sequences."


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
        share: the last rate, in percent of the highest.
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
    updates = {arm: round(float(np.mean(each_seed))) for arm, each_seed in at_end(runs, "update").items()}
    intervals = against(at_end(runs), "padded")
    return {arm: (interval, updates[arm]) for arm, interval in intervals.items()}


def in_words(
    interval: Interval, lower: str = "lower", higher: str = "higher", inconclusive: str = "inconclusive"
) -> str:
    """Return the text for the verdict on a difference: it is lower or higher than 0, or its interval includes 0."""
    return {"lower": lower, "higher": higher, "inconclusive": inconclusive}[interval.verdict]


def above_padded(recorded: dict[str, dict[str, tuple[Interval, int]]]) -> list[bool]:
    """Return, for each way that keeps the large batch, by optimizer, whether its final loss is above padded rows.

    Args:
        recorded: what `adjusted` returns, by optimizer.
    """
    is_higher = []
    for ways in recorded.values():
        for way, (interval, _) in ways.items():
            if not way.startswith("divided"):
                is_higher.append(interval.verdict == "higher")
    return is_higher


def contrast(name: str, arm: str, base: str) -> Interval:
    """Return the final loss of one way less that of another one, seed by seed."""
    return against(at_end(runs_of(name)), base)[arm]
