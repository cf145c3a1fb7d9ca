"""From lengths to decisions: which rows, what becomes of longer sequences, which method, how many packs per update.

Notebook 12 shows the same step by step, and `packlib report` writes it as a page.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from packlib.arguments import depth_limit, flag, function, instance, one_of, path_of, whole_number
from packlib.lengths import LengthHistogram
from packlib.lengths.counting import MAX_LENGTH
from packlib.lengths.overlong import CUT_RULES, CutRule
from packlib.packing import Method
from packlib.tools.advice.advice import Advice
from packlib.tools.advice.data import Data, read_uncut
from packlib.tools.advice.depths import final_plan, greedy_plans, smallest_depth, try_depths, with_plan
from packlib.tools.advice.memory import MOST_DEVICES, memory_size, model_shape, rows_that_fit
from packlib.tools.advice.micro_batch import Batch, fit_update
from packlib.tools.advice.row_lengths import FORMS, Form, choose, count_row, form_of, try_lengths
from packlib.tools.advice.second_need import second_need
from packlib.tools.advice.today import BESIDE, TODAY, Habit, batches_today
from packlib.tools.advice.upstream import compare_with_source, find_pile
from packlib.tools.rows.loss_masks import MaskWord
from packlib.training.recipe import Recipe
from packlib.work import Work


def advise(
    lengths: LengthHistogram | Iterable[int] | str | os.PathLike[str],
    max_length: int | None = None,
    *,
    column: str | None = None,
    source: LengthHistogram | Iterable[int] | str | os.PathLike[str] | None = None,
    model: str | os.PathLike[str] | None = None,
    memory: str | None = None,
    today: Habit = "random",
    batch_size: int | None = None,
    accumulation: int | None = None,
    epochs: int | None = None,
    recipe: Recipe | None = None,
    ranks: int | None = None,
    overlong: CutRule | None = None,
    max_sequences_per_pack: int | None = None,
    keep_max_length: bool = False,
    attention: Form | None = None,
    thorough: bool = False,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    masks: Mapping[str, MaskWord] | None = None,
    tokenizer: Any = None,
    second_budget: tuple[str, int] | None = None,
) -> Advice:
    """Recommend row length, rule for longer sequences, method and packs per update, and estimate the savings.

    >>> from packlib import advise
    >>> advice = advise([90] * 600 + [1250] * 600, max_length=2048)
    >>> advice.decisions[1].choice
    'Take rows of 1,256 tokens instead of 2,048'
    >>> advice.plan.num_packs, f"{advice.plan.efficiency:.1%}", f"{advice.slots_ratio:.2f}"
    (647, '98.9%', '1.85')
    >>> advice.decisions[-1].choice
    "Divide the sequences of today's update by 1.85"

    Args:
        lengths: lengths in tokens, a histogram of them, or the name or the files of a data set, as `read_uncut` reads
            them. Give the lengths before any cut: `advise` cuts the sequences that are too long.
        max_length: slots of a row as it is now; by default that of the data set, or the longest length.
        column: the column of tokens or lengths in files, those of the source too; by default `input_ids`, or else the
            only column.
        source: the lengths from before the data was cut, or their files, to compare the data with.
        model: the path of a `config.json`, of its folder, or a known size such as "7B"; for memory and work.
        memory: of one device, such as "80GB"; it needs `model`. By default a micro batch may have as many slots as
            an average batch has today, padding included.
        today: how batches are made now: a habit of `padding_waste`, or "packed"; see `batches_today`.
        batch_size: rows in a forward pass of one device now, where no recipe says it. By default 32 is assumed for the
            slots of today's batches.
        accumulation: forward passes behind an update now, where no recipe says it; by default 1 beside a `batch_size`.
            If neither is given, today's update is unknown, and the advice is a number to divide its sequences by.
        epochs: passes over the data, where no recipe says the number of sequences; by default 1.
        recipe: of the training as it is now. Without one, learning rate and betas are left alone.
        ranks: devices that share an update now, each with batches of its own, where no recipe says it; by default 1.
        overlong: what becomes of sequences that are longer than a row: "split" into further pieces, "truncate" or
            "drop". By default they are split, since that loses no token.
        max_sequences_per_pack: the most sequences that a pack may hold. By default there is no limit, unless the model
            has something once for each sequence, such as a pooler.
        keep_max_length: keep `max_length` even where another row length saves work.
        attention: the form in which the model gets the packs, for which the row length is chosen: "bounds" of the
            sequences, for a flash kernel, or a "dense" mask of all pairs. By default bounds, if they save over 5 % of
            the layers' work, each form in rows of its own best length.
        thorough: pack by the method "optimal", which can take minutes, and not by "auto", as `plan` does.
        seed: of the random order in which packs are filled, where `today` is "packed".
        progress: a function that is called with words about what is being done.
        masks: which columns of the rows are masks of the loss, as in `pack_dataset`.
        tokenizer: a tokenizer of transformers that makes tokens of the column `messages` or `text`, as in
            `pack_dataset`.
        second_budget: a column of the rows and the most that a pack may hold of it, as in `pack_dataset`. Longer
            sequences are then dropped, since the share of a piece in its sequence's amount is unknown, and
            `max_length` is kept.

    Raises:
        TypeError, ValueError, FileNotFoundError: naming the value that is wrong, and what is allowed.
    """
    say: Callable[[str], None] = (lambda _: None) if progress is None else function("progress", progress)
    limit = depth_limit(max_sequences_per_pack)
    keeps_length = flag("keep_max_length", keep_max_length) or second_budget is not None
    one_of("today", today, TODAY)
    default_rule: CutRule = "split" if second_budget is None else "drop"
    rule = one_of("overlong", default_rule if overlong is None else overlong, CUT_RULES)
    if second_budget is not None and rule != "drop":
        raise ValueError(f"overlong must be 'drop' with a second budget, not {rule!r}.")
    if attention is not None:
        one_of("attention", attention, FORMS)
    shape = None if model is None else model_shape(os.fspath(path_of("model", model)))
    device_memory = None if memory is None else memory_size(memory)
    if device_memory and not shape:
        raise ValueError(f"memory {memory!r} needs a model: what a row takes depends on it.")
    if max_length is not None:
        whole_number("max_length", max_length, 1, MAX_LENGTH)
    passes = whole_number("epochs", 1 if epochs is None else epochs, 1)
    batch_now = _batch_now(recipe, batch_size=batch_size, accumulation=accumulation, epochs=epochs, ranks=ranks)

    data = _read(lengths, column, say, masks, tokenizer, second_budget)
    whole = data.whole
    uncut_source = None if source is None else _read(source, column, say, None, tokenizer).whole
    length_today = data.max_length if max_length is None else int(max_length)
    padded = whole.with_max_length(length_today, rule)
    batches = batches_today(padded, batch_now.micro_batch, today, limit, seed)

    say(f"trying row lengths around {length_today:,}")
    work, causal = (shape.work, shape.causal) if shape else (Work.decoder(), True)
    longest = None if shape is None else shape.positions
    method: Method = "optimal" if flag("thorough", thorough) else "auto"
    lengths_tried, plans_by_length = try_lengths(whole, length_today, rule, work, causal, limit, longest, method)
    allowed_rows = tuple(row for row in lengths_tried if row.max_length == length_today or not keeps_length)
    form = attention or form_of(allowed_rows, length_today)
    row_length = length_today if keeps_length else choose(lengths_tried, length_today, form).max_length
    histogram = whole.with_max_length(row_length, rule)

    say(f"packing rows of {row_length:,}")
    needs_depths = limit is not None or (shape is not None and shape.once)
    depths = try_depths(histogram, plans_by_length[row_length]) if needs_depths else ()
    depth = limit if limit or not depths else smallest_depth(depths)
    best_plan, other_plans = final_plan(plans_by_length[row_length], histogram, depth, method)
    depths = with_plan(depths, best_plan)
    if depth == limit:  # the table of row lengths then has the packs of the plan that is advised
        advised_row = count_row(whole, histogram, rule, work, causal, best_plan.num_packs)
        lengths_tried = tuple(advised_row if row.max_length == row_length else row for row in lengths_tried)

    upstream = None
    if uncut_source is not None:
        pile_length, _ = find_pile(whole)
        upstream = compare_with_source(whole, uncut_source, row_length, depth, pile_length)
    fit = None
    if shape is not None and device_memory is not None:
        fit = rows_that_fit(shape, row_length, device_memory, batch_now.replicas)
    update = None
    if recipe or batch_size is not None or accumulation is not None:
        packs_that_fit = fit.rows if fit else int(batches.slots_a_batch // row_length)
        update = fit_update(
            replace(batch_now, packing_factor=batches.packing_factor),
            best_plan.packing_factor,
            most=max(1, packs_that_fit),
            devices=fit.shards if fit else None,
            packs=best_plan.num_packs,
        )
    return Advice(
        whole=whole,
        upstream=upstream,
        labels=data.labels,
        max_length=length_today,
        overlong=rule,
        chose_rule=overlong is not None,
        keeps_length=keeps_length,
        histogram=histogram,
        row_lengths=lengths_tried,
        form=form,
        plans=(best_plan, *greedy_plans(best_plan, other_plans)),
        depths=depths,
        limit=limit,
        today=batches,
        habits=tuple(batches_today(padded, batch_now.micro_batch, habit) for habit in BESIDE if habit != today),
        assumes_batch_size=recipe is None and batch_size is None,
        update=update,
        recipe=recipe,
        epochs=passes,
        devices=batch_now.replicas,
        shape=shape,
        fit=fit,
        work=work,
        tokenized=tokenizer is not None,
        thorough=thorough,
        second=None if data.second is None else second_need(data.second, best_plan),
    )


def _batch_now(
    recipe: Recipe | None,
    *,
    batch_size: int | None,
    accumulation: int | None,
    epochs: int | None,
    ranks: int | None,
) -> Batch:
    """Return the batch of today's update, that of the recipe if there is one; raise an error if both are given."""
    size = whole_number("batch_size", 32 if batch_size is None else batch_size, 1)
    steps = whole_number("accumulation", 1 if accumulation is None else accumulation, 1)
    devices = whole_number("ranks", 1 if ranks is None else ranks, 1, MOST_DEVICES)
    if recipe is None:
        return Batch(size, steps, devices)
    instance("recipe", recipe, Recipe)
    if recipe.packing_factor != 1:
        raise ValueError(f"The recipe is packed already, with factor {recipe.packing_factor:g}: give the old one.")
    in_a_recipe = {"batch_size": batch_size, "accumulation": accumulation, "epochs": epochs, "ranks": ranks}
    for name, value in in_a_recipe.items():
        if value is not None:
            raise ValueError(f"{name} must be left out beside a recipe, which says it.")
    return Batch(recipe.micro_batch, recipe.gradient_accumulation_steps, recipe.replicas)


def _read(
    lengths: Any,
    column: str | None,
    say: Callable[[str], None],
    masks: Mapping[str, MaskWord] | None = None,
    tokenizer: Any = None,
    second_budget: tuple[str, int] | None = None,
) -> Data:
    """Return the data behind `lengths`: read a data set by its name or files, or count the lengths themselves.

    The other arguments are for files, which have columns.
    """
    if isinstance(lengths, (str, os.PathLike)):
        say("reading the lengths")
        return read_uncut(lengths, column, say, masks, tokenizer, second_budget, argument="lengths")
    if masks or tokenizer is not None or second_budget is not None:
        name = "masks" if masks else "tokenizer" if tokenizer is not None else "second_budget"
        raise ValueError(f"{name} must be left out for lengths, which have no columns; it is for files of rows.")
    if column is not None:
        raise ValueError(f"column {column!r} is for files; the lengths were given as they are.")
    whole = lengths if isinstance(lengths, LengthHistogram) else LengthHistogram.from_lengths(lengths)
    return Data(whole, whole.max_length)
