"""`transformers.Trainer` on packs: every sequence and every labeled token counts once, on one rank or many.

Trainer takes a row of a batch for a sample. A row of packs holds several sequences, so Trainer would count by row what
belongs to tokens and sequences: it averages micro-batches that hold different numbers of them, repeats packs where
ranks do not divide them, and cuts the last batch of an evaluation. Three of its parts are replaced here: what it loads,
what an update is divided by, and how it evaluates.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerControl, TrainingArguments
from transformers.trainer_pt_utils import nested_concat, nested_numpify
from transformers.trainer_utils import EvalLoopOutput, EvalPrediction

from packlib.batches import PackBatchSampler, PackDataset, PackedBatch, PackingCollator, PackLoader
from packlib.checks import one_of, shown
from packlib.model import PackedOutput, Sums
from packlib.model.losses import sequence_of
from packlib.training.objective import MaskedObjective, add_up, default_objective

KEPT = ("token_logits", "nsp_logits", "pooled", "hidden")
_UNUSED = {  # arguments of Trainer that would change nothing here, and what they must be
    "label_smoothing_factor": 0.0,
    "include_for_metrics": [],
    "batch_eval_metrics": False,
    "eval_do_concat_batches": True,
    "fp16_full_eval": False,
    "bf16_full_eval": False,
}


class PackTrainer(Trainer):
    """A `transformers.Trainer` for packed models; its data sets are `PackDataset`s.

    The loss of an update is that of `fit`: each loss over its count in all micro-batches of all ranks. Each rank trains
    on its share of the packs (see `PackBatchSampler`), with new masks each epoch. `evaluate` gives the exact means of
    what the objective measures, with `eval_loss` the sum of its losses.

    `predict` and `compute_metrics` get two mappings of arrays, rank after rank, each sequence once (S) and each
    labeled token once (M):

    - predictions: what `keep` names: "token_logits", shape (M, vocabulary); "nsp_logits", shape (S, 2); "pooled", shape
      (S, d); "hidden", shape (tokens, d), the tokens of each sequence after those of the one before.
    - label_ids: "token_labels", "token_samples" and "token_places", shape (M,): the label of each token, its sample and
      its place there; "sequence_labels", "sample_ids" and "lengths", shape (S,).

    Args:
        data_collator: a `PackingCollator`; by default one without masking.
        objective: what to train and measure; by default as in `fit`.
        keep: the outputs of the model that a prediction keeps.
        options: all others are Trainer's.

    Raises:
        TypeError, ValueError: naming an argument that does not suit packs.
    """

    control: TrainerControl
    loss_is_scaled_for_ga = True  # `compute_loss` divides by the counts of the whole update

    def __init__(
        self,
        model: nn.Module | None = None,
        args: TrainingArguments | None = None,
        data_collator: PackingCollator | None = None,
        train_dataset: PackDataset | None = None,
        eval_dataset: PackDataset | dict[str, PackDataset] | None = None,
        *,
        objective: MaskedObjective | None = None,
        keep: Iterable[str] = ("token_logits", "nsp_logits"),
        **options: Any,
    ):
        if not isinstance(data_collator, PackingCollator | None):
            raise TypeError(f"data_collator must be a PackingCollator, not {shown(data_collator)}.")
        if not isinstance(objective, MaskedObjective | None):
            raise TypeError(f"objective must be a MaskedObjective or of its kind, not {shown(objective)}.")
        super().__init__(model, args, data_collator, train_dataset, eval_dataset, **options)
        self.model_accepts_loss_kwargs = True  # before transformers had `loss_is_scaled_for_ga`
        self.packing = data_collator
        self.objective = default_objective(self.model) if objective is None else objective
        self.keep = [one_of("keep", name, KEPT) for name in ([keep] if isinstance(keep, str) else keep)]
        for name, value in _UNUSED.items():
            if (given := getattr(self.args, name, value)) != value:
                raise ValueError(f"{name} must be {value!r} for packs, not {given!r}.")
        one_of("train_sampling_strategy", self._strategy, ("random", "sequential"))
        if self.compute_loss_func is not None:
            raise ValueError("compute_loss_func must be None for packs: pass an objective.")
        if self.args.n_gpu > 1:
            raise ValueError(f"One process cannot train on {self.args.n_gpu} GPUs: start it with torchrun.")

    @property
    def _strategy(self) -> str:
        return getattr(self.args, "train_sampling_strategy", "random")

    def get_train_dataloader(self) -> PackLoader:
        """This rank's share of the packs, in another order and with other masks each epoch."""
        data, args = _packs(self.train_dataset), self.args
        seed = args.seed if args.data_seed is None else args.data_seed
        share = {"ranks": args.world_size, "rank": args.process_index}
        shuffle = self._strategy == "random"
        size, drop_last = self._train_batch_size, args.dataloader_drop_last
        sampler = PackBatchSampler(len(data), size, seed, shuffle, drop_last, **share)
        lasting = args.dataloader_persistent_workers
        return PackLoader(data, sampler, self._collator(data), persistent_workers=lasting, **self._workers())

    def get_eval_dataloader(self, eval_dataset: str | PackDataset | None = None) -> DataLoader:
        """Every `world_size`-th pack, in order; ranks need not have equally many."""
        if eval_dataset is None or isinstance(eval_dataset, str):
            eval_dataset = self.eval_dataset if eval_dataset is None else self.eval_dataset[eval_dataset]
        data, size = _packs(eval_dataset), self.args.eval_batch_size
        mine = range(self.args.process_index, len(data), self.args.world_size)
        batches = [list(mine[at : at + size]) for at in range(0, len(mine), size)]
        return DataLoader(data, batch_sampler=batches, collate_fn=self._collator(data), **self._workers())

    get_test_dataloader = get_eval_dataloader

    def _collator(self, data: PackDataset) -> PackingCollator:
        return PackingCollator(data.packs.max_length) if self.packing is None else self.packing

    def _workers(self) -> dict:
        args = self.args
        names = ("num_workers", "pin_memory", "prefetch_factor")
        return {name: getattr(args, f"dataloader_{name}") for name in names}

    def get_batch_samples(
        self, epoch_iterator: Iterator, num_batches: int, device: torch.device
    ) -> tuple[list, dict[str, int]]:
        """The micro-batches of an update, and the counts that its losses are divided by, over all ranks."""
        batches = list(islice(epoch_iterator, num_batches))
        counts = [self.objective.counts(batch) for batch in batches]
        total = torch.tensor([[count[name] for name in self.objective.losses] for count in counts]).sum(0)
        total = self.accelerator.reduce(total.to(device), "sum").tolist()
        return batches, dict(zip(self.objective.losses, total, strict=True))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: PackedBatch,
        return_outputs: bool = False,
        num_items_in_batch: dict[str, int] | None = None,
    ) -> Tensor | tuple[Tensor, PackedOutput]:
        """This micro-batch's part of the loss of its update; alone, without counts, its own loss."""
        output = model(**inputs)
        sums = self.objective.sums(output, inputs)
        if num_items_in_batch is None:
            loss = sum(sums[name].mean for name in self.objective.losses)
        else:  # the ranks' gradients are averaged
            parts = (sums[name].total / max(count, 1) for name, count in num_items_in_batch.items())
            loss = sum(parts) * self.args.world_size
        return (loss, output) if return_outputs else loss

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Evaluate each rank's share, add up what it measured and join what it predicted."""
        only_loss = self.args.prediction_loss_only if prediction_loss_only is None else prediction_loss_only
        self.callback_handler.eval_dataloader = dataloader
        kept, number = [], 0

        def measure(model: nn.Module, batch: PackedBatch) -> dict[str, Sums]:
            nonlocal number
            with self.accelerator.autocast():
                output = model(**batch)
            if not only_loss:
                predictions, labels = self._kept(output, batch)
                if self.preprocess_logits_for_metrics is not None:
                    predictions = self.preprocess_logits_for_metrics(predictions, labels)
                kept.append(nested_numpify((predictions, labels)))
            number += batch.num_sequences
            self.control = self.callback_handler.on_prediction_step(self.args, self.state, self.control)
            return self.objective.sums(output, batch)

        own = {name: both.tolist() for name, both in add_up(self.model, dataloader, measure).items()}
        shares = self._over_ranks((own, number, kept))
        metrics, joined = dict[str, float](), None
        for name in dict.fromkeys(name for own, _, _ in shares for name in own):
            total, count = map(sum, zip(*(own[name] for own, _, _ in shares if name in own), strict=True))
            metrics |= {name: total / count} if count else {}
        if losses := [metrics[name] for name in self.objective.losses if name in metrics]:
            metrics["loss"] = sum(losses)
        for part in (part for _, _, kept in shares for part in kept):
            joined = part if joined is None else nested_concat(joined, part)
        predictions, labels = (None, None) if joined is None else joined
        if self.compute_metrics is not None and joined is not None:
            metrics |= self.compute_metrics(EvalPrediction(predictions=predictions, label_ids=labels))
        prefix = f"{metric_key_prefix}_"
        metrics = {name if name.startswith(prefix) else prefix + name: metrics[name] for name in metrics}
        return EvalLoopOutput(predictions, labels, metrics, num_samples=sum(number for _, number, _ in shares))

    def _over_ranks(self, own: tuple) -> list[tuple]:
        shares = [own] * self.args.world_size
        if len(shares) > 1:
            dist.all_gather_object(shares, own)
        return shares

    def _kept(self, output: PackedOutput, batch: PackedBatch) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What a prediction keeps of a batch: without the empty places of static shapes, and without padding."""
        count, useful = batch.num_sequences, batch.segment_ids.flatten() > 0
        labels = {name: batch[name][:count] for name in ("sequence_labels", "sample_ids")}
        labels["lengths"] = batch.lengths
        rows = {"nsp_logits": slice(count), "pooled": slice(count), "hidden": useful}
        if output.token_positions is not None and output.token_labels is not None:
            rows["token_logits"] = filled = output.token_positions >= 0
            at = output.token_positions[filled]
            labels["token_labels"] = output.token_labels[filled]
            labels["token_samples"] = batch.sample_ids[sequence_of(at, batch)]
            labels["token_places"] = batch.position_ids.flatten()[at]
        found = {name: output[name] for name in self.keep if output.get(name) is not None}
        if "hidden" in found:
            found["hidden"] = found["hidden"].flatten(0, 1)
        return {name: value[rows[name]] for name, value in found.items()}, labels


def _packs(data: Any) -> PackDataset:
    if isinstance(data, PackDataset):
        return data
    raise TypeError(f"PackTrainer trains and evaluates on a PackDataset, not on {shown(data)}.")
