"""Train as `packlib.fit` does, in a folder: a killed run goes on from it, and ends bit for bit as one left alone."""

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from packlib.arguments import flag, whole_number
from packlib.batches import PackLoader
from packlib.collectives import lost_ranks_named
from packlib.training import Recipe
from packlib.training.loop import Training, show
from packlib.training.objective import Objective
from runs.checkpoint import RunFolder


@lost_ranks_named()
def fit(
    model: nn.Module,
    loader: PackLoader,
    recipe: Recipe,
    objective: Objective | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    even_updates: bool = False,
    save_every: int = 100,
    on_update: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None,
    progress: bool = False,
) -> list[dict[str, Any]]:
    """Train as `packlib.fit` does, with the same arguments, and keep the run in a folder.

    Args:
        folder: where metrics.jsonl and checkpoint.pt go. If a checkpoint is there the run goes on from it, and ends bit
            for bit as if it had not been interrupted (on a GPU, where torch's kernels are deterministic). None writes
            nothing. One run at a time has a folder.
        save_every: updates between two checkpoints; there is one at the end too.

    Returns:
        The records of `packlib.fit`, those of the interrupted run included.

    Raises:
        FloatingPointError, TypeError, ValueError: as `packlib.fit`, saying which checkpoint there is; or if the folder
            holds another run.
        BlockingIOError: if another run has the folder (under torch.distributed a RankError, on every rank).
    """
    whole_number("save_every", save_every, 1)
    flag("progress", progress)
    training = Training(model, loader, recipe, objective, optimizer, even_updates)
    if folder is not None and not hasattr(loader, "load_state_dict"):
        raise TypeError("To save checkpoints the loader needs state_dict and load_state_dict, as a PackLoader has.")
    parts = {"model": training.bare, "optimizer": training.optimizer, "schedule": training.schedule}
    setting = {**asdict(recipe), "betas": list(recipe.betas), "even_updates": even_updates}
    run = RunFolder(folder, parts, training.stream, setting | {"ranks": training.ranks.size})
    with run.alone():
        run.resume()
        with training.bar(progress, run.records) as bar:
            while training.goes_on(run.records):
                try:
                    run.record(training.update(run.records, on_update))
                except FloatingPointError as error:
                    raise FloatingPointError(f"{str(error)[:-1]}; {run.what_was_saved()}.") from None
                if len(run.records) % save_every == 0:
                    run.save()
                show(bar, run.records[-1])
        run.save()
        return run.records
