"""For the tests of the loop: a model of one layer, packs of 120 samples, a recipe, and runs that break off."""

from dataclasses import replace

import numpy as np
import torch
from model_cases import MAX_LENGTH, bert_config, masking, store

from packlib.batches import PackingCollator, pack_lengths, pack_loader
from packlib.model import PackedBert
from packlib.packing import Packs
from packlib.training import PretrainingObjective, Recipe

FACTOR = 3.6  # sequences in a pack of `loader`, within 10 %


def small_model(dtype=torch.float64, dropout=0.0):
    torch.manual_seed(1)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = bert_config(**size, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return PackedBert(config).to(dtype)


def loader(batch_size, depth=None, which=slice(None), **options):
    """Packs of 120 samples, or `which` of these packs."""
    sequences = store().take(range(0, 360, 3))
    packs = pack_lengths(sequences.lengths, MAX_LENGTH, "lpfhp", depth)
    ids = list(packs)[which]
    packs = Packs(
        np.concatenate(ids), np.cumsum([0, *map(len, ids)]), sequences.lengths[np.concatenate(ids)], MAX_LENGTH
    )
    data = [sequences[i] for i in range(len(sequences))]
    return pack_loader(data, packs, PackingCollator(MAX_LENGTH, masking()), batch_size, seed=3, **options)


def recipe(micro_batch, accumulation, total=300, **changes):
    fields = {"optimizer": "lamb", "warmup_sequences": 50, **changes}
    return Recipe(micro_batch, 0.02, total, gradient_accumulation_steps=accumulation, **fields)


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def furthest(a, b):
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def stable(records):
    """The records without what a clock says."""
    return [{k: v for k, v in r.items() if k not in ("seconds", "tokens_per_second")} for r in records]


class Interrupted(Exception):
    pass


def stop_at(update):
    def stop(record):
        if record["update"] == update:
            raise Interrupted
        return {"seen": record["update"]}

    return stop


class Broken(PretrainingObjective):
    """Makes the loss, or only its gradient, NaN once: at the `at`-th micro-batch."""

    def __init__(self, at, gradient=False):
        super().__init__()
        self.at, self.gradient, self.calls = at, gradient, 0

    def __call__(self, model, batch):
        self.calls += 1
        sums = super().__call__(model, batch)
        if self.calls == self.at:
            total = sums["mlm_loss"].total.clone()
            if self.gradient:
                total.register_hook(lambda g: g * float("nan"))
            else:
                total = total * float("nan")
            sums["mlm_loss"] = replace(sums["mlm_loss"], total=total + 0)
        return sums
