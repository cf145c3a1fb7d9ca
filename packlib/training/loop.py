"""One training loop for padded and packed runs, on one process or many."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from packlib.arguments import flag, function, instance, listed
from packlib.bars import progress_bar, wanted
from packlib.batches import PackedBatch, PackLoader
from packlib.collectives import Collectives, lost_ranks_named
from packlib.training.lamb import make_optimizer
from packlib.training.objective import Objective, default_objective
from packlib.training.recipe import Recipe
from packlib.training.schedules import SequenceSchedule
from packlib.training.updates import UpdateStream


@lost_ranks_named()
def fit(
    model: nn.Module,
    loader: PackLoader,
    recipe: Recipe,
    objective: Objective | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    even_updates: bool = False,
    on_update: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None,
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Train `model` until it has seen `recipe.total_sequences` sequences.

    Each loss is divided by its count over the whole update, all micro-batches of all ranks: not the mean of means,
    so it does not matter how the sequences are spread. Under torch.distributed each rank calls this with a loader of
    its own share, as `pack_loader` gives it; a model that is not in `DistributedDataParallel` yet is put there.

    >>> from packlib.batches import TokenStore, pack_lengths, pack_loader
    >>> from packlib.training import Recipe, fit
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> config = GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    >>> store = TokenStore.from_samples([{"input_ids": [7] * length} for length in (5, 3, 3, 2, 8)])
    >>> loader = pack_loader(store, pack_lengths(store.lengths, max_length=8), batch_size=1)
    >>> recipe = Recipe(micro_batch=1, learning_rate=0.1, total_sequences=50, packing_factor=5 / 3)
    >>> records = fit(GPT2LMHeadModel(config), loader, recipe)
    >>> records[-1]["sequences"], records[-1]["loss"] < records[0]["loss"]
    (50, True)

    Args:
        model: a `PackedBert`, or a causal or masked model of transformers, unmodified (see `for_transformers`).
        loader: batches of `recipe.micro_batch` packs, passed through again and again (see `pack_loader`); with
            packs of depth 1 this is the padded run.
        objective: what to train; by default `PretrainingObjective` for `PackedBert`, with the model's `reduction`,
            and `CausalObjective` or `MaskedObjective` for the others.
        optimizer: by default the recipe's; its rate is the highest one.
        even_updates: end each update at the pack closest to `recipe.sequences_per_update` sequences, and not
            after `recipe.gradient_accumulation_steps` micro-batches (see `UpdateStream`).
        on_update: called with the record of each update; what it returns (an evaluation, say) is added to it. Its
            time does not count.
        progress: True for a bar with the loss and the useful tokens a second, False for none; by default,
            a terminal gets one after two seconds.

    Returns:
        One record an update: "update", "sequences" and "tokens" so far, "update_sequences", "learning_rate" and
        "gradient_norm" of this update, "loss", each loss and metric of the objective, "seconds" so far (waiting for
        data included), "tokens_per_second" of this update.

    Raises:
        FloatingPointError: if a loss or gradient is not finite, naming the update and the micro-batch with its
            samples. The model has the weights from before the update.
        TypeError, ValueError: if recipe and loader do not go together.
    """
    if on_update is not None:
        function("on_update", on_update)
    training = Training(model, loader, recipe, objective, optimizer, even_updates)
    records: list[dict[str, Any]] = []
    with training.bar(wanted(progress), records) as bar:
        while training.goes_on(records):
            records.append(training.update(records, on_update))
            show(bar, records[-1])
    return records


class Training:
    """A model and what trains it by a recipe; the arguments are those of `fit`.

    Attributes:
        ranks: the processes that train together.
        model, bare: the model, in `DistributedDataParallel` if there are several ranks, and without it.
        objective, optimizer: those of `fit`, or their defaults.
        schedule: sets the learning rate by the sequences so far.
        stream: this rank's micro-batches of each update, without end.
        total: sequences to train on.
    """

    def __init__(
        self,
        model: nn.Module,
        loader: PackLoader,
        recipe: Recipe,
        objective: Objective | None,
        optimizer: torch.optim.Optimizer | None,
        even_updates: bool,
    ) -> None:
        instance("model", model, nn.Module)
        instance("recipe", recipe, Recipe)
        if objective is not None:
            function("objective", getattr(objective, "counts", objective))
            function("objective", objective)
        if optimizer is not None:
            instance("optimizer", optimizer, torch.optim.Optimizer)
        _check(loader, recipe, flag("even_updates", even_updates))
        self.ranks = Collectives()
        self.bare = model.module if isinstance(model, DistributedDataParallel) else model
        needs_wrapper = self.ranks.size > 1 and model is self.bare
        self.model = DistributedDataParallel(model) if needs_wrapper else model
        self.objective = default_objective(self.bare) if objective is None else objective
        self.optimizer = make_optimizer(self.bare, recipe) if optimizer is None else optimizer
        self.schedule = SequenceSchedule.for_recipe(self.optimizer, recipe)
        target = recipe.sequences_per_update / self.ranks.size if even_updates else None
        self.stream = UpdateStream(loader, recipe.gradient_accumulation_steps, target)
        self.total = recipe.total_sequences

    def goes_on(self, records: list[dict[str, Any]]) -> bool:
        """Return whether sequences of the recipe are left after the updates of `records`."""
        return not records or records[-1]["sequences"] < self.total

    def bar(self, progress: bool | None, records: list[dict[str, Any]]) -> Any:
        """Return a bar of sequences that stands at the last of `records`; ranks but the first show none."""
        done = records[-1]["sequences"] if records else 0
        shown = progress if self.ranks.rank == 0 else False
        return progress_bar(progress=shown, total=self.total, initial=done, unit=" sequences", desc="train")

    def update(
        self,
        records: list[dict[str, Any]],
        on_update: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None,
    ) -> dict[str, Any]:
        """Make the update that follows those of `records`, and return its record."""
        before = records[-1] if records else {"sequences": 0, "tokens": 0, "seconds": 0.0}
        number, rate = len(records) + 1, self.schedule.get_last_lr()[0]
        started = time.perf_counter()
        self.bare.train()
        counts, means, norm = _gradients(self.model, next(self.stream), self.objective, self.ranks, number)
        self.optimizer.step()
        self.schedule.step(counts["sequences"])
        seconds = time.perf_counter() - started
        record = {
            "update": number,
            "sequences": before["sequences"] + counts["sequences"],
            "tokens": before["tokens"] + counts["tokens"],
            "update_sequences": counts["sequences"],
            "learning_rate": rate,
            "gradient_norm": norm,
            **means,
            "seconds": before["seconds"] + seconds,
            "tokens_per_second": counts["tokens"] / seconds,
        }
        return record | ((on_update(record) or {}) if on_update else {})


def show(bar: Any, record: dict[str, Any]) -> None:
    """Move a bar on by an update, and show its loss and the speed so far."""
    bar.update(record["update_sequences"])
    bar.set_postfix_str(f"loss {record['loss']:.3f}, {record['tokens'] / record['seconds']:,.0f} useful tokens/s")


def _gradients(
    model: nn.Module, batches: list[PackedBatch], objective: Objective, ranks: Collectives, update: int
) -> tuple[dict[str, int], dict[str, float], float]:
    """Leave the gradients of one update in the model.

    Args:
        batches: this rank's micro-batches.
        update: the number of the update, for errors.

    Returns:
        Over all ranks and by name: the counts of sequences, useful tokens and each loss's values; and the means of each
        loss and measure, with the sum of the losses as "loss". Then the norm of the gradients.
    """
    device, world = next(model.parameters()).device, ranks.size
    model.zero_grad()
    # the counts are needed before the first forward pass: each loss is divided by its count over the whole update
    counts_of_batches = [
        {"sequences": b.num_sequences, "tokens": b.useful_tokens, **objective.counts(b)} for b in batches
    ]
    names = list(counts_of_batches[0])
    own_counts = np.array([[of_batch[name] for name in names] for of_batch in counts_of_batches]).sum(axis=0)
    counts = dict(zip(names, ranks.sum(own_counts).tolist(), strict=True))
    losses = [name for name in names if name not in ("sequences", "tokens")]

    totals = torch.zeros(())  # the sum and the count of each measure; float64, shape (measures, 2) after a batch
    own_losses = list[Tensor]()  # of this rank's micro-batches
    for i, batch in enumerate(batches):
        # the ranks add up their gradients once an update, at its last micro-batch
        is_last = i + 1 == len(batches)
        with nullcontext() if world == 1 or is_last else model.no_sync():
            sums = objective(model, batch.to(device, non_blocking=True))
            loss = sum(sums[name].total / max(counts[name], 1) for name in losses)
            (loss * world).backward()  # DistributedDataParallel takes the mean over the ranks
        own_losses.append(loss.detach())
        totals_and_counts = [torch.stack([s.total.detach().double(), s.count.double()]) for s in sums.values()]
        totals = totals + torch.stack(totals_and_counts)
    norm = float(nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]))
    over_all_ranks = dict(zip(sums, ranks.sum(totals.cpu().numpy()).tolist(), strict=True))
    means = {name: total / count for name, (total, count) in over_all_ranks.items() if count}
    means = {"loss": sum(means.get(name, 0.0) for name in losses), **means}
    if not (math.isfinite(means["loss"]) and math.isfinite(norm)):
        raise _not_finite(means["loss"], norm, batches, own_losses, update)
    for name in losses:
        _, count = over_all_ranks[name]
        if count != counts[name]:
            raise ValueError(
                f"The objective counted {counts[name]} for {name} before the forward pass and {count:.0f} after it."
            )
    return counts, means, norm


def _not_finite(
    loss: float, norm: float, batches: list[PackedBatch], own_losses: list[Tensor], update: int
) -> FloatingPointError:
    """Make the error of an update whose loss or gradient norm is not finite: it names the first micro-batch at fault.

    Args:
        loss, norm: those of the update, over all ranks.
        batches, own_losses: this rank's micro-batches, and the loss of each.
        update: its number.
    """
    fault = f"loss of update {update} is {loss} on another rank"
    if math.isfinite(loss):
        fault = f"gradient norm of update {update} is {norm}, though its loss is {loss:.4g}"
    for i, (batch, own_loss) in enumerate(zip(batches, own_losses, strict=True)):
        if not math.isfinite(own_loss):
            ids = batch.sample_ids[: batch.num_sequences].tolist()
            place = f"micro-batch {i + 1} of {len(batches)} (samples {listed(ids)})"
            fault = f"loss of update {update} is {loss} in {place}"
            break
    return FloatingPointError(f"The {fault}; the weights are those of update {update - 1}.")


def _check(loader: PackLoader, recipe: Recipe, even_updates: bool) -> None:
    """Raise an error if loader and recipe do not go together; a loader that is a plain list cannot tell all."""
    ranks, sampler = Collectives(), getattr(loader, "batch_sampler", None)
    size = getattr(sampler, "batch_size", recipe.micro_batch)
    if size != recipe.micro_batch:
        raise ValueError(
            f"The loader makes batches of {size} packs; the recipe's micro batch is {recipe.micro_batch}."
        )
    if recipe.replicas != ranks.size:
        raise ValueError(f"The recipe has {recipe.replicas} replicas, but {ranks.size} processes train.")
    packs = getattr(getattr(loader, "dataset", None), "packs", None)
    own_digest = None
    if packs is not None and ranks.size > 1 and getattr(sampler, "ranks", 1) == 1:
        # this rank loads them alone: if another does too, each sequence counts twice
        own_digest = sha256(np.concatenate([packs.sample_ids, packs.lengths_used]).tobytes()).hexdigest()
    if ranks.gather_objects(own_digest).count(own_digest) > 1 and own_digest is not None:
        raise ValueError(
            "Ranks have loaders of the same packs: make them with pack_loader under torch.distributed, which gives "
            "each rank its share."
        )
    if even_updates and packs is not None:
        factor = len(packs.sample_ids) / len(packs)
        if not 0.9 < factor / recipe.packing_factor < 1.1:
            raise ValueError(
                f"For even updates the recipe needs the packing factor of its packs: it says "
                f"{recipe.packing_factor:g}, and the loader's packs hold {factor:.3f} sequences on average."
            )
