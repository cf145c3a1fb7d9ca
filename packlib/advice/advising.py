"""From lengths to advice: what padding costs, which packing to take, what it brings, what to change, what to mind.

Notebook 12 shows the advice, and `packlib report` writes it.
"""

import contextlib
import statistics

from packlib.advice.advice import WITHIN, Advice, Compiling, Overhead
from packlib.advice.bounded import Bounded, TimeIsUpError
from packlib.advice.records import recorded
from packlib.advice.trials import UNTIL_LOST, recommended, try_depths, try_methods, with_plan
from packlib.lengths import HABITS, LengthHistogram, data_path, load, padding_waste
from packlib.training.adjustment import adjust
from packlib.training.recipe import Recipe
from packlib.training.scaling.buckets import choose_buckets, waste_curve

MOST_BUCKETS = 16
TOLERATED_PADDING = 0.1  # as few bucket lengths as leave no more,
NEAR_LEAST = 0.02  # or little more than many of them
_UNCUT = 1 << 20  # tokens: longer than any sequence of the data sets that come with the workbook
PUBLISHED = Overhead(0.043, 0.045, "Published for BERT-Large on accelerators (Krell and others, 2021)", 512)
_RECORDED_IN = 128  # slots of a row in the benchmarks of models
_ENOUGH = 10**7  # sequences, from which an example makes a single pass


def advise(
    histogram: LengthHistogram,
    max_sequences_per_pack: int | None = None,
    batch_size: int = 32,
    recipe: Recipe | None = None,
    patience: float = 5,
    whole: LengthHistogram | None = None,
    seed: int = 0,
) -> Advice:
    """Find what to do with sequences of these lengths.

    Args:
        histogram: the lengths, cut to the maximum length.
        max_sequences_per_pack: the most sequences that a pack may hold, or None to leave it open.
        batch_size: sequences in a padded batch.
        recipe: of the padded training; by default an example.
        patience: seconds for each method on an idle machine; for `optimal` they are counted in rounds.
        whole: the lengths before they were cut; by default none were.
        seed: of the methods that are random.

    Raises:
        TypeError, ValueError: for a value out of range, or a recipe that is packed already.
        TimeIsUpError: if no method finishes.
    """
    waste = []
    with Bounded() as bounded:
        for habit in HABITS:
            with contextlib.suppress(TimeIsUpError):  # a formula, slow only for tens of thousands of lengths
                waste.append(bounded.call(padding_waste, histogram, batch_size, habit, limit=UNTIL_LOST * patience)[0])
        depths = try_depths(bounded, histogram, max_sequences_per_pack, WITHIN, patience)
        depth = recommended(depths, WITHIN)
        trials, best = try_methods(bounded, histogram, depth, patience, seed)
    curve = waste_curve(histogram, MOST_BUCKETS).tolist()
    enough = max(TOLERATED_PADDING, curve[-1] + NEAR_LEAST)
    few = next(k for k, share in enumerate(curve, 1) if share <= enough)
    before = recipe or example_recipe(histogram, batch_size)
    after, reasons, _ = adjust(before, best.packing_factor, "batch")
    return Advice(
        histogram=histogram,
        whole=whole or histogram,
        batch_size=batch_size,
        waste=tuple(waste),
        max_sequences_per_pack=max_sequences_per_pack,
        depths=with_plan(depths, depth, best, WITHIN),
        trials=trials,
        plan=best,
        overheads=measured_overheads(),
        compiling=measured_compiling(),
        bucket_waste=tuple(curve),
        buckets=choose_buckets(histogram, few),
        recipe=before,
        packed_recipe=after,
        reasons=reasons,
        is_example=recipe is None,
    )


def lengths_for(dataset: str, max_length: int | None, overlong: str) -> tuple[LengthHistogram, LengthHistogram]:
    """The lengths of a data set or file for rows of `max_length` slots, and as they are.

    Args:
        max_length: by default the data set's own, or the longest length of the file.
        overlong: "truncate" longer sequences, or "drop" them.

    Raises:
        ValueError: if no sequence is short enough to stay.
    """
    whole, own = uncut(dataset)
    return cut(whole, max_length or own, overlong), whole


def uncut(dataset: str, column: str | None = None) -> tuple[LengthHistogram, int]:
    """The lengths of a data set or file as they are, and the maximum length that it is used with."""
    own = load(dataset, column=column)
    return (load(dataset, _UNCUT) if own.truncated else own), own.max_length


def cut(whole: LengthHistogram, max_length: int, overlong: str) -> LengthHistogram:
    """The lengths for rows of `max_length` slots; as `lengths_for`."""
    if overlong == "drop" and not whole.counts[: max_length + 1].any():
        count = f"All {whole.num_sequences:,} sequences of {whole.name}"
        raise ValueError(f'{count} are longer than {max_length} tokens: overlong="drop" leaves none.')
    return whole.with_max_length(max_length, overlong)


def example_recipe(histogram: LengthHistogram, batch_size: int) -> Recipe:
    """Ten passes over the data, for those who gave no recipe; fewer over much data, and one at least."""
    total = min(10 * histogram.num_sequences, max(histogram.num_sequences, _ENOUGH))
    return Recipe(batch_size, 1e-4, total, warmup_sequences=total // 10, gradient_accumulation_steps=8)


def measured_overheads() -> tuple[Overhead, ...]:
    """What packing cost the model in each recorded benchmark that compares it, and the published figure."""
    found = []
    for path in sorted(data_path("benchmarks").glob("model_*.csv")):
        table = recorded(path.stem)
        kept = [
            row.get("realized / factor") or row.get("forward and backward, realized / factor")
            for row in table.rows
            if row.get("run") == "packed" and row.get("packing factor", 1) > 1
        ]
        if lost := [max(0.0, 1 - share) for share in kept if share]:
            found.append(Overhead(statistics.median(lost), max(lost), table.source, _RECORDED_IN))
    return (*found, PUBLISHED)


def measured_compiling() -> Compiling | None:
    """What compiling a graph took in the recorded benchmark; None where the recorded runs are not installed."""
    try:
        table = recorded("compiling_shapes")
    except FileNotFoundError:
        return None
    rows = {row["batches"]: row for row in table.rows if row["run"] == "static"}
    packed = rows.pop("packed")["compile seconds"]
    each = [row["compile seconds"] / row["graphs"] for row in rows.values()]
    return Compiling(min(each), max(each), packed, table.source)
