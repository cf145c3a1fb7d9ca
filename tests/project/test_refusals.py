"""Each public function refuses a wrong argument itself: in one sentence that names it and the value.

A call that works is written down for each function, and what each of its arguments may be. Then one argument after the
other gets values that it must not have.
"""

import atexit
import inspect
import math
import re
import shutil
import tempfile
import traceback
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import BertConfig, LlamaConfig, LlamaForCausalLM

import packlib
from packlib import batches, distributed, lengths, model, packing, tools, training, work
from packlib.packing.search.bound import PRICE_OF_A_PACK

NAN, INFINITY = math.nan, math.inf
NO_WHOLE_NUMBER = [True, 2.5, 2.0, NAN, INFINITY, "2", [2], np.float64(2), np.array([2]), torch.tensor(2.0), 1j, {}]
NO_NUMBER = [True, NAN, INFINITY, -INFINITY, "2", [2], None, np.array([2.0]), 1j, {}]
NO_FLAG = [0, 1, "no", None, [True], 1.0, np.array([True])]
NO_WORD = ["nope", "", 3, True, ["error"], b"error", NAN]
NO_INTEGERS = [5, None, "abc", [2.5], [NAN], [True], ["3"], [[3]], [3, None], np.zeros((2, 2), int), [2**70], [1j],
               np.array([2.5]), {"a": 1}, [3, [4]], torch.tensor([2.5]), b"ab"]  # fmt: skip


class Whole:
    def __init__(self, at_least, at_most=None, none=False):
        self.bad = [*NO_WHOLE_NUMBER, at_least - 1, -(10**30)]
        self.bad += [] if at_most is None else [at_most + 1, 10**30]
        self.bad += [] if none else [None]


class Seeds(Whole):
    """One from 0 up, several in a list, or None."""

    def __init__(self):
        super().__init__(0, none=True)
        self.bad = [value for value in self.bad if value != [2]] + [[2, -1], [2.5]]


class Number:
    def __init__(self, below=(), none=False):
        self.bad = [value for value in NO_NUMBER if not (none and value is None)] + list(below)


class Flag:
    bad = NO_FLAG


class FlagOrNone:
    bad = NO_FLAG[:3] + NO_FLAG[4:]  # without None


class Word:
    def __init__(self, none=False):
        self.bad = NO_WORD + [None] * (not none)


class Integers:
    """One whole number after the other, from `at_least`."""

    def __init__(self, at_least=1, empty=False, none=False, size=None):
        self.bad = [value for value in NO_INTEGERS if not (none and value is None)] + [[at_least - 1, 3], [-(2**62)]]
        self.bad += [] if empty else [[]]
        self.bad += [] if size is None else [[at_least] * (size + 1)]


class SecondBudget:
    """A column's name, and the most that a pack may hold of it."""

    bad = (3, "patches", True, ("patches",), ("patches", 0), ("patches", True), ("patches", 4.0), ("patches", NAN),
           ("patches", "4"), ("nope", 4), (3, 4), ("patches", 4, 5), {"patches": 4}, ("patches", None))  # fmt: skip


class Instance:
    """One of a class, or of another kind that `but` of these values is of."""

    def __init__(self, none=False, more=(), but=()):
        self.bad = [value for value in [3, "it", [], {}, None, object()] if not (none and value is None)]
        self.bad = [value for value in self.bad if value not in but] + list(more)


LENGTHS = [5, 3, 3, 2, 8]
HISTOGRAM = lengths.LengthHistogram.from_lengths(LENGTHS)
PLAN = packing.plan(LENGTHS, 8)
PACKS = PLAN.assign(LENGTHS)
STORE = batches.TokenStore.from_samples([{"input_ids": [7] * length} for length in LENGTHS])
BATCH = batches.collate(STORE.take([0, 1]), [2], 8)
WORK = work.Work(1, 1)
RECIPE = training.Recipe(8, learning_rate=1e-4, total_sequences=1_000, gradient_accumulation_steps=4)
TREES = packing.group_trees([2], [[3, 4]])
LABELED_STORE = batches.TokenStore.from_samples([{"input_ids": [7] * n, "labels": [7] * n} for n in LENGTHS])
LABELED = batches.collate(LABELED_STORE.take([0, 1]), [2], 8)
LOADER = batches.pack_loader(LABELED_STORE, PACKS, batch_size=1)
TOKENIZER = batches.wordnet_tokenizer()
SMALL = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
BERT = model.PackedBert(BertConfig(vocab_size=TOKENIZER.vocab_size, max_position_embeddings=16, **SMALL))
LLAMA = LlamaForCausalLM(LlamaConfig(vocab_size=9, **SMALL))
OUTPUT = BERT(**LABELED)
TWO_SEQUENCES = training.Recipe(1, learning_rate=1e-9, total_sequences=2)
OPTIMIZER = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
BRANCHES = [[1, 2], [1, 3]]
TREE_ROWS = packlib.pack_trees(BRANCHES, [0, 0], 8)
ROWS = [{"input_ids": [7, 8]}, {"input_ids": [9]}]
ROWS_PLAN = packing.plan([2, 1], 8)
SIZED_ROWS = [{"input_ids": [7, 8], "patches": 3}, {"input_ids": [9], "patches": 1}]
CACHE = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, CACHE)
NO_PATH = Instance(but=["it"], more=[b"it", True, ["it"], 2.5])
PLAN_FILE, LENGTHS_FILE, COUNTS_FILE, PACKS_FILE, STORE_FILE, RECIPE_FILE = (CACHE / name for name in (
    "a_plan.json", "a_histogram.json", "counts.csv", "some_packs", "some_tokens", "a_recipe.json"))  # fmt: skip
PLAN.save(PLAN_FILE)
HISTOGRAM.save(LENGTHS_FILE)
HISTOGRAM.to_csv(COUNTS_FILE)
PACKS.save(PACKS_FILE)
STORE.save(STORE_FILE)
RECIPE.save(RECIPE_FILE)
SOURCE = Dataset.from_list(ROWS)
STREAM = SOURCE.to_iterable_dataset()
PACKED = Dataset.from_list([{"input_ids": [7, 8, 9], "seq_lengths": [2, 1]}])
SIZED = Dataset.from_list([{"input_ids": [7, 8, 9], "seq_lengths": [2, 1], "patches": [3, 1]}])
CHECKED = [{"input_ids": [1 + (at * 3 + k) % 8 for k in range(4 + at)]} for at in range(4)]
BEFORE = tools.advice.Batch(4, 2)
WHOLE, NO_LIMIT, SEED, SEED_OR_NONE = Whole(1), Whole(1, none=True), Whole(0), Whole(0, none=True)
MAX_LENGTH = Whole(1, 1 << 24)


def shares(rank, ranks, epoch):
    """Make batches of one sequence each, in order: each rank has its share."""
    return [[row] for row in ROWS[rank::ranks]]


def padded(rows):
    """Pad each sequence to the longest."""
    sequences = [torch.tensor(row["input_ids"]) for row in rows]
    ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=-1)
    there = ids >= 0
    return {"input_ids": ids.clamp(min=0), "attention_mask": there.long(), "labels": ids.where(there, -100)}


# a function, a call that works, and what its arguments may be
CALLS = {
    "load": (lengths.load, {"name_or_path": "squad", "max_length": 384, "overlong": "error", "column": None},
             {"name_or_path": Instance(more=[b"squad", True]),
              "max_length": Whole(1, 1 << 24, none=True), "overlong": Word()}),
    "LengthHistogram": (lengths.LengthHistogram, {"counts": [0, 1, 2], "name": "a", "max_length": 2, "kind": "measured",
                        "source": "", "truncated": 0, "dropped": 0},
                        {"counts": Integers(0), "max_length": Whole(1, 1 << 24, none=True), "kind": Word(),
                         "truncated": Whole(0, 2**63 - 1), "dropped": Whole(0, 2**63 - 1),
                         "name": Instance(more=[b"a"], but=["it"]), "source": Instance(more=[b"a"], but=["it"])}),
    "from_lengths": (lengths.LengthHistogram.from_lengths, {"lengths": LENGTHS, "max_length": 8, "overlong": "error"},
                     {"lengths": Integers(), "max_length": Whole(1, 1 << 24, none=True), "overlong": Word()}),
    "with_max_length": (HISTOGRAM.with_max_length, {"max_length": 8, "overlong": "error"},
                        {"max_length": MAX_LENGTH, "overlong": Word()}),
    "log_normal": (lengths.log_normal, {"num_sequences": 9, "max_length": 8, "mean_log": 1.0, "sigma_log": 1.0},
                   {"num_sequences": WHOLE, "max_length": MAX_LENGTH, "mean_log": Number(),
                    "sigma_log": Number([0, -1])}),
    "uniform": (lengths.uniform, {"num_sequences": 9, "max_length": 8, "shortest": 2},
                {"num_sequences": WHOLE, "max_length": MAX_LENGTH, "shortest": Whole(1, 8)}),
    "two_humped": (lengths.two_humped, {"num_sequences": 9, "max_length": 8, "centers": (2.0, 6.0),
                                        "widths": (1.0, 1.0), "share": 0.5},
                   {"num_sequences": WHOLE, "max_length": MAX_LENGTH, "share": Number([-0.1, 1.1]),
                    "centers": Instance(more=[(1,), (1, 2, 3), (NAN, 1), ("a", "b"), 2.5]),
                    "widths": Instance(more=[(1,), (1, 2, 3), (NAN, 1), ("a", "b"), (0, 1), 2.5])}),
    "protein_like": (lengths.protein_like, {"num_sequences": 9, "max_length": 8, "mean": 4.0, "shape": 2.0},
                     {"num_sequences": WHOLE, "max_length": MAX_LENGTH, "mean": Number([0, -1]),
                      "shape": Number([0, -1])}),
    "image_patch_like": (lengths.image_patch_like, {"num_sequences": 9, "max_length": 8, "patch": 16,
                                                    "sides": (64, 96), "widest": 2.0},
                         {"num_sequences": WHOLE, "max_length": Whole(1, 1 << 24, none=True), "patch": WHOLE,
                          "sides": Instance(more=[(64,), (64, 96, 96), (NAN, 1), ("a", "b"), (96, 64), 2.5]),
                          "widest": Number([0.5, -1])}),
    "padding_waste": (lengths.padding_waste, {"lengths": LENGTHS, "batch_size": 2, "habit": "buckets", "buckets": 2,
                                              "window": 2},
                      {"lengths": Integers(), "batch_size": WHOLE, "habit": Word(), "buckets": WHOLE, "window": WHOLE}),
    "plan": (packing.plan, {"lengths": LENGTHS, "max_length": 8, "method": "lpfhp", "max_sequences_per_pack": 3},
             {"lengths": Integers(), "max_length": Whole(1, 1 << 24, none=True), "method": Word(),
              "max_sequences_per_pack": NO_LIMIT}),
    "PackingPlan.assign": (PLAN.assign, {"lengths": LENGTHS, "seed": 1},
                           {"lengths": Integers(size=5), "seed": SEED_OR_NONE}),
    "Packs": (packing.Packs, {"sample_ids": [0, 1], "offsets": [0, 2], "lengths": [3, 4], "max_length": 8},
              {"sample_ids": Integers(0, size=2), "offsets": Integers(0), "lengths": Integers(size=2),
               "max_length": MAX_LENGTH}),
    "StreamPacker": (packing.StreamPacker, {"max_length": 8, "window": 2, "max_sequences_per_pack": 2},
                     {"max_length": WHOLE, "window": WHOLE, "max_sequences_per_pack": NO_LIMIT}),
    "StreamPacker.add": (packing.StreamPacker(8).add, {"length": 3}, {"length": Whole(1, 8)}),
    "document_rows": (packing.document_rows, {"lengths": LENGTHS, "max_length": 4, "rule": "split"},
                      {"lengths": Integers(), "max_length": MAX_LENGTH, "rule": Word()}),
    "least_cuts": (packing.least_cuts, {"lengths": LENGTHS, "max_length": 4},
                   {"lengths": Integers(), "max_length": MAX_LENGTH}),
    "full_strategies": (lambda **k: list(packing.full_strategies(**k)), {"max_length": 8, "max_sequences_per_pack": 3},
                        {"max_length": WHOLE, "max_sequences_per_pack": WHOLE}),
    "num_full_strategies": (packing.num_full_strategies, {"max_length": 8, "max_sequences_per_pack": 3},
                            {"max_length": WHOLE, "max_sequences_per_pack": WHOLE}),
    "strategy_matrix": (packing.strategy_matrix, {"max_length": 8, "max_sequences_per_pack": 3},
                        {"max_length": WHOLE, "max_sequences_per_pack": WHOLE}),
    "nonnegative_least_squares": (packing.nonnegative_least_squares,
                                  {"matrix": np.eye(2), "target": np.ones(2)},
                                  {"matrix": Instance(more=[np.full((2, 2), NAN), np.zeros(2), np.zeros((3, 2))]),
                                   "target": Instance(more=[[1, NAN], [1], ["a", "b"], np.ones((2, 2))])}),
    "certified_bound": (packing.certified_bound,
                        {"counts": np.array([0, 1, 2]), "prices": np.array([0, 1, 2]), "max_sequences_per_pack": 2},
                        {"counts": Integers(0, size=3), "prices": Instance(more=[[0, -1, 2], [0, 0, 0], [1, 2],
                         [0, 1, PRICE_OF_A_PACK + 1], [0.0, NAN, 1.0]]), "max_sequences_per_pack": NO_LIMIT}),
    "pack_pairs": (packing.pack_pairs, {"tokens": [3, 4], "patches": [0, 5], "max_length": 8, "max_patches": 8},
                   {"tokens": Integers(size=2), "patches": Integers(0, size=2), "max_length": WHOLE,
                    "max_patches": WHOLE}),
    "Work": (work.Work, {"per_token": 1, "per_square": 1}, {"per_token": Number([-1]), "per_square": Number([-1])}),
    "Work.bert": (work.Work.bert, {"layers": 99, "width": 99, "feed_forward": 99},
                  {"layers": WHOLE, "width": WHOLE, "feed_forward": NO_LIMIT}),
    "Work.decoder": (work.Work.decoder, dict(layers=99, width=99, feed_forward=99, heads=99, key_value_heads=99,
                                             head_width=99),
                     dict(layers=WHOLE, width=WHOLE, feed_forward=WHOLE, heads=Whole(1), key_value_heads=Whole(1, 99),
                          head_width=WHOLE)),
    "Work.fitted": (work.Work.fitted, {"tokens": [8, 8, 4], "squares": [64, 24, 16], "seconds": [2.1, 1.3, 0.7]},
                    {name: Instance(more=[[8, 8], [8, NAN, 8], [8, -1, 8], ["a", "b", "c"], [[1], [2], [3]]])
                     for name in ("tokens", "squares", "seconds")}),
    "Work.of": (WORK.of, {"what": LENGTHS}, {"what": Integers()}),
    "balance": (work.balance, {"packs": PACKS, "ranks": 1, "packs_per_rank": 1, "window": 2, "work": WORK, "seed": 0},
                {"packs": Instance(), "ranks": Whole(1, 5), "packs_per_rank": Whole(1, 5), "window": WHOLE,
                 "work": Instance(none=True), "seed": SEED}),
    "balance_step": (work.balance_step, {"lengths": LENGTHS, "max_length": 8, "ranks": 2, "work": WORK, "seed": 0,
                                         "meet": "step"},
                     {"lengths": Integers(), "max_length": Whole(8, 1 << 24), "ranks": Whole(1, 5),
                      "work": Instance(none=True), "seed": SEED, "meet": Word()}),
    "context_shards": (work.context_shards, {"packs": PACKS, "ranks": 99, "sharding": "pack", "work": WORK},
                       {"packs": Instance(), "ranks": Whole(1, 1024), "sharding": Word(), "work": Instance()}),
    "share_sequences": (work.share_sequences, {"lengths": LENGTHS, "ranks": 2, "max_length": 8, "work": WORK},
                        {"lengths": Integers(), "ranks": WHOLE, "max_length": WHOLE, "work": Instance(none=True)}),
    "waiting": (work.waiting, {"each": [3.0, 1.0], "ranks": 2, "packs_per_rank": 1, "seed": 0},
                {"each": Instance(more=[[3.0, NAN], [0.0, 1.0], [-1.0, 2.0], [[1.0, 2.0]], ["a", "b"], [INFINITY, 1]]),
                 "ranks": Whole(1, 2), "packs_per_rank": Whole(1, 1), "seed": SEED}),
    "collate": (batches.collate, {"sequences": STORE, "sizes": [2, 3], "max_length": 99, "pad_id": 0,
                                  "sequence_places": 5, "blank_packs": 0},
                {"sequences": Instance(), "sizes": Integers(), "max_length": Whole(13), "pad_id": Whole(0),
                 "sequence_places": Whole(5, none=True), "blank_packs": Whole(0)}),
    "pad": (batches.pad, {"batch": BATCH, "max_length": 8, "pad_id": 0},
            {"batch": Instance(), "max_length": Whole(5, none=True), "pad_id": Whole(0)}),
    "PackingCollator": (batches.PackingCollator, {"max_length": 8, "masking": None, "pad_id": 0,
                                                  "max_sequences_per_pack": 2, "max_predictions_per_pack": 2},
                        {"max_length": NO_LIMIT, "masking": Instance(none=True), "pad_id": Whole(0),
                         "max_sequences_per_pack": NO_LIMIT, "max_predictions_per_pack": NO_LIMIT}),
    "flatten_rows": (batches.flatten_rows, {"rows": [{"input_ids": [7, 8, 9], "seq_lengths": [2, 1]}]},
                     {"rows": Instance(more=[[{}], [3], [{"input_ids": [7], "seq_lengths": [1.0]}],
                      [{"input_ids": [7, 8], "seq_lengths": [3, -1]}], [{"input_ids": [7.5], "seq_lengths": [1]}],
                      [{"input_ids": [7], "seq_lengths": [True]}], [{"input_ids": 7, "seq_lengths": [1]}],
                      [{"input_ids": [[7]], "seq_lengths": [1]}], [{"input_ids": [7], "seq_lengths": 1}],
                      [{"input_ids": [7], "position_ids": [0.5]}], [{"input_ids": [7], "position_ids": None}],
                      [{"input_ids": [], "seq_lengths": []}], [{"input_ids": [7], "seq_lengths": ["1"]}],
                      [{"input_ids": None, "seq_lengths": [1]}], [{"input_ids": [7], "seq_lengths": None}]])}),
    "flatten_packs": (batches.flatten_packs, {"batch": BATCH}, {"batch": Instance()}),
    "pack_lengths": (batches.pack_lengths, {"lengths": LENGTHS, "max_length": 8, "method": "lpfhp",
                                            "max_sequences_per_pack": 3, "seed": 1},
                     {"lengths": Integers(), "max_length": Whole(8, 1 << 24), "method": Word(),
                      "max_sequences_per_pack": NO_LIMIT, "seed": SEED_OR_NONE}),
    "pack_loader": (batches.pack_loader, {"dataset": STORE, "packs": PACKS, "collator": None, "batch_size": 1,
                                          "seed": 0, "shuffle": True, "drop_last": False, "ranks": 1, "rank": 0},
                    {"dataset": Instance(), "packs": Instance(none=True), "collator": Instance(none=True),
                     "batch_size": NO_LIMIT,
                     "seed": SEED, "shuffle": Flag, "drop_last": Flag, "ranks": Whole(1, none=True),
                     "rank": Whole(0, 0, none=True)}),
    "batch_by_tokens": (batches.batch_by_tokens,
                        {"lengths": LENGTHS, "max_tokens": 10, "min_batch": 1, "max_batch": 3, "order": "random",
                         "same_shape_every": 1, "target_lengths": LENGTHS, "count_padding": False,
                         "blank_batches": False, "seed": 0},
                        {"lengths": Integers(), "max_tokens": Whole(8), "min_batch": Whole(1, 3),
                         "max_batch": NO_LIMIT, "order": Word(), "same_shape_every": Whole(1, 1),
                         "target_lengths": Integers(none=True, size=5), "count_padding": Flag, "blank_batches": Flag,
                         "seed": Seeds()}),
    "MlmMasking": (batches.MlmMasking, {"seed": 0, "mask_id": 4, "vocab_size": 50, "special_ids": (0, 4),
                                        "probability": 0.15},
                   {"seed": Whole(0, 2**64 - 1), "mask_id": Whole(0, 49), "vocab_size": WHOLE,
                    "special_ids": Integers(0, empty=True), "probability": Number([0, 1.1, -0.1])}),
    "MlmMasking.call": (batches.MlmMasking(0, 4, 50, (0,)), {"sequences": STORE, "epochs": 0},
                        {"sequences": Instance(),
                         "epochs": Instance(but=[3], more=[-1, 0.5, [1], True, [-1] * 5, [0.5] * 5])}),
    "SequenceLengthWarmup": (batches.SequenceLengthWarmup, dict(duration=0.5, min_length=120, max_length=126, step=120,
                                                                truncate=True, keep_end=False, pad_id=0),
                             dict(duration=Number([-0.1, 1.1]), min_length=Whole(1, 126), max_length=Whole(120),
                                  step=WHOLE, truncate=Flag, keep_end=Flag, pad_id=Whole(0))),
    "SequenceLengthWarmup.length": (batches.SequenceLengthWarmup(0.5, 8, 32, 8).length, {"done": 3, "total": 10},
                                    {"done": Whole(0), "total": WHOLE}),
    "shorten": (batches.shorten, {"batch": {"input_ids": torch.arange(8)[None]}, "length": 4, "truncate": True,
                                  "keep_end": False, "pad_id": 0},
                {"batch": Instance(more=[{"input_ids": [1, 2]}, {"input_ids": torch.arange(8)}]), "length": WHOLE,
                 "truncate": Flag, "keep_end": Flag, "pad_id": Whole(0)}),
    "difficulties": (batches.difficulties, {"dataset": STORE, "score": LENGTHS},
                     {"dataset": Instance(), "score": Instance(none=True, more=[[1, 2], ["a"] * 5, [NAN] * 5,
                      [None] * 5, [[1]] * 5, [1j] * 5, lambda sample: "a", lambda sample: None, [2**70] * 5])}),
    "scale_learning_rate": (batches.scale_learning_rate, dict(rate=1e-3, batch_size=4, reference=2, rule="linear"),
                            dict(rate=Number([-1]), batch_size=WHOLE, reference=WHOLE, rule=Word())),
    "VariableBatchLR": (batches.VariableBatchLR, {"wrapped": OPTIMIZER, "reference": 2, "rule": "linear"},
                        {"wrapped": Instance(), "reference": WHOLE, "rule": Word()}),
    "TokenStore.take": (STORE.take, {"indices": [0, 1]}, {"indices": Integers(0, empty=True)}),
    "TokenStore": (batches.TokenStore, dict(input_ids=[7, 8], token_type_ids=[0, 0], offsets=[0, 2],
                                            sequence_labels=[-100], labels=[-100, 3], sample_ids=[4]),
                   dict(input_ids=Integers(0, size=2), token_type_ids=Integers(0, size=2), offsets=Integers(0),
                        sequence_labels=Integers(0, size=1), labels=Integers(0, none=True, size=2),
                        sample_ids=Integers(0, none=True, size=1))),
    "TokenStore.from_samples": (batches.TokenStore.from_samples,
                                {"samples": [{"input_ids": [7, 8]}], "sample_ids": [3]},
                                {"samples": Instance(more=[[3], [{}], [{"input_ids": [7.5]}], [{"input_ids": 7}],
                                 [{"input_ids": []}], [{"input_ids": [-7]}], [{"input_ids": [2**70]}],
                                 [{"input_ids": [7], "labels": [1, 2]}], [{"input_ids": [7], "label": 0.5}]]),
                                 "sample_ids": Integers(0, none=True, size=1)}),
    "PackedBatch": (batches.PackedBatch, {"input_ids": torch.tensor([[5, 6]]), "segment_ids": torch.tensor([[1, 2]]),
                                          "labels": torch.tensor([[5, 6]]), "position_ids": torch.tensor([[0, 0]])},
                    {name: Instance(none=name in ("labels", "position_ids"), more=[torch.tensor([[5.0, 6.0]]),
                     torch.tensor([5, 6]), torch.tensor([[-5, 6]]), torch.tensor([[True, True]]), [[5, 6]],
                     torch.zeros(1, 3, dtype=torch.int64)])
                     for name in ("input_ids", "segment_ids", "labels", "position_ids")}),
    "Recipe": (training.Recipe, dict(micro_batch=99, learning_rate=1e-4, total_sequences=1000,
                                     gradient_accumulation_steps=99, replicas=99, betas=(0.9, 0.99), weight_decay=0.01,
                                     warmup_sequences=10),
               dict(micro_batch=WHOLE, learning_rate=Number([-1]), total_sequences=WHOLE,
                    gradient_accumulation_steps=WHOLE, replicas=WHOLE, weight_decay=Number([-1]),
                    betas=Instance(more=[(0.9,), (0.9, 1.0), (-0.1, 0.9), ("a", "b"), (NAN, 0.9), 0.9]),
                    warmup_sequences=Whole(0, 1000))),
    "adjust": (training.adjust, {"recipe": RECIPE, "packing_factor": 2.0, "how": "accumulation"},
               {"recipe": Instance(), "packing_factor": Number([0, 0.5, -2]), "how": Word()}),
    "rate_at": (training.rate_at, {"sequences": 3, "total": 10, "warmup": 2, "decay": "linear", "power": 1.0},
                {"sequences": Number([-1]), "total": WHOLE, "warmup": Whole(0, 10), "decay": Word(),
                 "power": Number([0, -1])}),
    "SequenceSchedule": (training.SequenceSchedule, {"optimizer": OPTIMIZER,
                         "total": 10, "warmup": 2, "decay": "linear", "power": 1.0},
                         {"total": WHOLE, "warmup": Whole(0, 10), "decay": Word(), "power": Number([0, -1])}),
    "Lamb": (lambda **k: training.Lamb([torch.zeros(1, requires_grad=True)], **k),
             {"lr": 1e-3, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.0, "adapt": True},
             {"lr": Number([-1]), "eps": Number([-1]), "weight_decay": Number([-1]), "adapt": Flag,
              "betas": Instance(more=[(0.9,), (0.9, 1.0), (-0.1, 0.9), ("a", "b"), (NAN, 0.9), 0.9])}),
    "stochastic_round": (training.stochastic_round, {"tensor": torch.ones(2), "dtype": torch.bfloat16},
                         {"tensor": Instance(more=[torch.ones(2, dtype=torch.int64)]),
                          "dtype": Instance(more=[torch.float32, "bfloat16"])}),
    "round_weights": (training.round_weights, {"optimizer": OPTIMIZER, "rounding": "stochastic", "seed": 0},
                      {"optimizer": Instance(), "rounding": Word(), "seed": SEED}),
    "sort_rows": (distributed.sort_rows, {"rows": np.array([[2, 1], [1, 2]]), "by": 1},
                  {"rows": Instance(more=[[[1.5]], np.zeros((2, 2)), np.zeros(3, int), [["a"]]]),
                   "by": Whole(1, 2, none=True)}),
    "exact_sort": (distributed.exact_sort, {"rows": np.array([[2, 1], [1, 2]]), "by": 1},
                   {"rows": Instance(more=[[[1.5]], np.zeros((2, 2)), np.zeros(3, int), [["a"]]]),
                    "by": Whole(1, 2, none=True)}),
    "interleave": (distributed.interleave, {"rows": np.array([[2, 1], [1, 2]])},
                   {"rows": Instance(more=[[[1.5]], np.zeros((2, 2)), np.zeros(3, int), [["a"]]])}),
    "load_imbalance": (distributed.load_imbalance, {"loads": [2, 4]},
                       {"loads": Instance(more=[["a"], [NAN], [-1, 2], [0, 0], [[1, 2], [3]], [INFINITY, 1]])}),
    "pack_distributed": (distributed.pack_distributed, {"local_lengths": LENGTHS, "max_length": 8, "method": "lpfhp",
                                                        "max_sequences_per_pack": 3},
                         {"local_lengths": Integers(), "max_length": MAX_LENGTH, "method": Word(),
                          "max_sequences_per_pack": NO_LIMIT}),
    "deal": (distributed.deal, {"plan": PLAN, "ranks": 0, "world_size": 2},
             {"plan": Instance(), "ranks": Whole(0, 1), "world_size": WHOLE}),
    "DistributedCurriculumSampler": (distributed.DistributedCurriculumSampler,
                {"dataset": STORE, "difficulty": None, "curriculum": "global", "seed": 0, "drop_last": False},
                {"dataset": Instance(), "curriculum": Word(), "seed": SEED, "drop_last": Flag}),
    "run_ranks": (distributed.run_ranks, {"function": math.sqrt, "world_size": 1, "timeout": 60.0},
                  {"world_size": WHOLE, "timeout": Number([0, -1])}),
    "tokenize": (batches.tokenize, {"tokenizer": TOKENIZER, "texts": ["a dog"], "pairs": [""],
                                    "sequence_labels": [-100], "max_length": 8, "overlong": "error",
                                    "progress": False},
                 {"tokenizer": Instance(), "texts": Instance(more=["a dog", [3], [None], [b"a"], [["a"]], ("a", 3)]),
                  "pairs": Instance(none=True, more=["a", [3], ["a", "b"], [b"a"]]),
                  "sequence_labels": Integers(-100, none=True, size=1), "max_length": NO_LIMIT, "overlong": Word(),
                  "progress": FlagOrNone}),
    "predict": (lambda **k: list(model.predict(**k)),
                {"model": BERT, "texts": ["a dog"], "tokenizer": TOKENIZER, "max_length": 8, "window": 2,
                 "batch_size": 1},
                {"model": Instance(), "tokenizer": Instance(), "max_length": Whole(1), "window": WHOLE,
                 "batch_size": WHOLE,
                 "texts": Instance(but=[[], {}], more=["a dog", [3], [("a", 3)], [("a",)], [("a", "b", "c")],
                                                       [None]])}),
    "PackedBert": (model.PackedBert, {"config": BERT.config, "backend": "auto", "reduction": "token",
                                      "max_predictions_per_pack": 2},
                   {"config": Instance(), "backend": Word(), "reduction": Word(),
                    "max_predictions_per_pack": NO_LIMIT}),
    "PackedBert.forward": (BERT, dict(LABELED),
                           {name: Instance(none=name != "segment_ids",
                                           more=[torch.ones(1, 8), torch.ones(2, 8).long(), torch.ones(8).long()])
                            for name in ("input_ids", "segment_ids", "labels")}),
    "attention_arguments": (model.attention_arguments, {"segment_ids": BATCH.segment_ids, "backend": "sdpa",
                                                        "dtype": torch.float32},
                            {"segment_ids": Instance(more=[torch.ones(1, 8), torch.ones(8).long()]), "backend": Word(),
                             "dtype": Instance(more=[torch.int64, "float32"])}),
    "choose_backend": (model.choose_backend, {"backend": "auto", "device": "cpu", "dtype": torch.float32,
                                              "needs_gradient": True, "dropout": 0.1},
                       {"backend": Word(), "device": Instance(but=[3]), "dtype": Instance(more=["float32"]),
                        "needs_gradient": Flag, "dropout": Number([-0.1, 1.1])}),
    "for_transformers": (model.for_transformers, {"batch": LABELED, "model": LLAMA, "form": "dense"},
                         {"batch": Instance(), "model": Instance(), "form": Word()}),
    "packed_output": (model.packed_output, {"model": LLAMA, "batch": LABELED, "form": "dense"},
                      {"batch": Instance(), "model": Instance(), "form": Word()}),
    **{name: (getattr(model, name), {"output": OUTPUT, "batch": LABELED, "reduction": "token"},
              {"output": Instance(), "batch": Instance(but=[{}]), "reduction": Word()})
       for name in ("token_loss", "token_accuracy", "nsp_loss", "nsp_accuracy")},
    "per_sequence": (model.per_sequence, {"output": OUTPUT, "batch": LABELED},
                     {"output": Instance(), "batch": Instance()}),
    "evaluate": (training.evaluate, {"model": BERT, "batches": [LABELED], "objective": None},
                 {"model": Instance(), "batches": Instance(but=[[], {}], more=[[3], [{}]]),
                  "objective": Instance(none=True)}),
    "fit": (training.fit, {"model": BERT, "loader": LOADER, "recipe": TWO_SEQUENCES, "objective": None,
                           "optimizer": None, "even_updates": False, "on_update": None, "progress": False},
            {"model": Instance(), "loader": Instance(), "recipe": Instance(), "objective": Instance(none=True),
             "optimizer": Instance(none=True), "even_updates": Flag, "on_update": Instance(none=True),
             "progress": FlagOrNone}),
    **{name: (getattr(training, name), {"reduction": "token"}, {"reduction": Word()})
       for name in ("CausalObjective", "MaskedObjective", "PretrainingObjective")},
    "UpdateStream": (lambda **k: training.UpdateStream(**k).gradient_accumulation_steps,
                     {"loader": LOADER, "gradient_accumulation_steps": 2, "target": 3.0},
                     {"loader": Instance(but=[[]]), "gradient_accumulation_steps": WHOLE,
                      "target": Number([0.5, -1], none=True)}),
    "make_optimizer": (training.make_optimizer, {"model": BERT, "recipe": RECIPE},
                       {"model": Instance(), "recipe": Instance()}),
    "parameter_groups": (training.parameter_groups, {"model": BERT, "weight_decay": 0.1},
                         {"model": Instance(), "weight_decay": Number([-1])}),
    "SequenceSchedule.optimizer": (training.SequenceSchedule, {"optimizer": OPTIMIZER, "total": 10},
                                   {"optimizer": Instance()}),
    "PackDataset": (batches.PackDataset, {"dataset": STORE, "packs": PACKS},
                    {"dataset": Instance(), "packs": Instance(none=True)}),
    "warm_memory": (batches.warm_memory, {"model": BERT, "batch": LABELED, "loss": None},
                    {"model": Instance(), "batch": Instance(), "loss": Instance(none=True)}),
    "group_trees": (packing.group_trees, {"prompts": [2], "answers": [[3, 4]]},
                    {"prompts": Integers(size=1),
                     "answers": Instance(more=[[3], [[0]], [[2.5]], [[]], [["a"]], [None]])}),
    "pack_trees": (packlib.pack_trees, {"sequences": [[1, 2], [1, 3]], "groups": [0, 0], "max_length": 8,
                                        "apart": None, "tries": 2, "seed": 0},
                   {"sequences": Instance(more=[[3], [[]], [["a"], [1]], [[2.5], [1]], [[1]], "ab"]),
                    "groups": Instance(more=[[0], [[0], [1]], [{}, {}]]), "max_length": Whole(2),
                    "apart": Instance(none=True, more=[[[1, 2]], [[1], [1]], [3, 4], [{1: 2}, 3]]),
                    "tries": Whole(0), "seed": SEED}),
    "pack_tree_lengths": (packing.pack_tree_lengths, {"trees": TREES, "max_length": 8, "tries": 2, "seed": 0},
                          {"trees": Instance(), "max_length": Whole(6), "tries": Whole(0), "seed": SEED}),
    "PackingPlan.load": (packing.PackingPlan.load, {"path": PLAN_FILE}, {"path": NO_PATH}),
    "PackingPlan.save": (PLAN.save, {"path": CACHE / "plan.json"}, {"path": NO_PATH}),
    "LengthHistogram.load": (lengths.LengthHistogram.load, {"path": LENGTHS_FILE}, {"path": NO_PATH}),
    "LengthHistogram.save": (HISTOGRAM.save, {"path": CACHE / "lengths.json"}, {"path": NO_PATH}),
    "LengthHistogram.from_csv": (lengths.LengthHistogram.from_csv, {"path": COUNTS_FILE}, {"path": NO_PATH}),
    "Packs.load": (packing.Packs.load, {"path": PACKS_FILE}, {"path": NO_PATH}),
    "Packs.save": (PACKS.save, {"path": CACHE / "packs"}, {"path": NO_PATH}),
    "TokenStore.load": (batches.TokenStore.load, {"path": STORE_FILE}, {"path": NO_PATH}),
    "TokenStore.save": (STORE.save, {"path": CACHE / "tokens"}, {"path": NO_PATH}),
    "Recipe.load": (training.Recipe.load, {"path": RECIPE_FILE}, {"path": NO_PATH}),
    "Recipe.save": (RECIPE.save, {"path": CACHE / "recipe.json"}, {"path": NO_PATH}),
    "lay_trees": (lambda **k: list(packlib.lay_trees(**k)),
                  {"rows": TREE_ROWS, "sequences": BRANCHES, "labels": BRANCHES, "only": [0]},
                  {"rows": Instance(),
                   "sequences": Instance(more=[[[1, 2]], [[1, 2], [1.5, 3]], [[1, 2], ["a", 3]], [[1, 2], [1]], [3, 4],
                    [[1, 2], [True, 3]], [[1, 2], [1, NAN]], [[1, 2], None]]),
                   "labels": Instance(none=True, more=[[[1, 2]], [[1, 2], [1.5, 3]], [[1, 2], [1]], [3, 4],
                    [[1, 2], [1, 2]], [[1, 2], [1, -1]], [[1, 2], None]]),
                   "only": Instance(none=True, but=[[], {}], more=[[True], [0.0], [-1], [1], ["0"], [NAN], [10**30],
                    [None]])}),
    "pack_dataset": (packlib.pack_dataset,
                     dict(dataset=ROWS, max_length=8, method="lpfhp", max_sequences_per_pack=3, overlong="error",
                          labels=True, seed=0, drop_unlabeled=False, progress=False, masks=None, cache_dir=CACHE),
                     dict(dataset=Instance(but=["it"], more=[[[1]], [{}], [{"input_ids": 7}], [{"input_ids": [7.5]}],
                                                 [{"input_ids": ["a"]}], [{"input_ids": [-7]}], [{"input_ids": [True]}],
                                                 [{"input_ids": [NAN]}], [{"input_ids": [2**70]}],
                                                 [{"input_ids": [7], "labels": [1, 2]}], [{"input_ids": None}],
                                                 [{"input_ids": [[7]]}]]),
                          max_length=Whole(2, 1 << 24), method=Word(), max_sequences_per_pack=NO_LIMIT,
                          overlong=Word(), labels=Flag, seed=SEED_OR_NONE, drop_unlabeled=Flag,
                          progress=FlagOrNone, cache_dir=Instance(none=True, but=["it"], more=[b"it", True, ["it"]]),
                          masks=Instance(none=True, but=[{}], more=[{"mask": "nope"}, {"mask": True}, {"mask": None},
                                                                    {"input_ids": "loss"}, {3: "loss"}]))),
    "pack_dataset.window": (packlib.pack_dataset, dict(dataset=ROWS, max_length=8, window=2, cache_dir=CACHE),
                            dict(window=NO_LIMIT)),
    "pack_dataset.plan": (packlib.pack_dataset, dict(dataset=ROWS, max_length=8, plan=ROWS_PLAN, cache_dir=CACHE),
                          dict(plan=Instance(none=True))),
    "pack_dataset.second_budget": (packlib.pack_dataset, dict(dataset=SIZED_ROWS, max_length=8, cache_dir=CACHE,
                                                              second_budget=("patches", 4)),
                                   dict(second_budget=SecondBudget())),
    "pack_dataset.tokenizer": (packlib.pack_dataset, dict(dataset=[{"text": "cat"}], max_length=8, cache_dir=CACHE,
                                                          tokenizer=TOKENIZER),
                               dict(tokenizer=Instance(none=True))),
    "PackedStream": (packlib.PackedStream, dict(dataset=STREAM, max_length=8, max_sequences_per_pack=3,
                                                overlong="error", labels=True, window=2, empty_every=9, even=False,
                                                masks=None, drop_unlabeled=False),
                     dict(dataset=Instance(), max_length=WHOLE, max_sequences_per_pack=NO_LIMIT, overlong=Word(),
                          labels=Flag, window=WHOLE, empty_every=WHOLE, even=Flag, drop_unlabeled=Flag,
                          masks=Instance(none=True, but=[{}], more=[{"mask": "nope"}]))),
    "TransformersCollator": (packlib.TransformersCollator, dict(model=LLAMA, form="dense", pad_to_multiple_of=8,
                                                                pad_id=0),
                             dict(model=Instance(), form=Word(), pad_to_multiple_of=NO_LIMIT, pad_id=Whole(0))),
    "TransformersCollator.shape": (packlib.TransformersCollator, dict(model=LLAMA, form="padding_free",
                                                                      shape=(16, 4, 8)),
                                   dict(shape=Instance(none=True, more=[(16, 4), (16, 4, 0), (16.0, 4, 8), (True, 4, 8),
                                                       (16, NAN, 8), "abc"]))),
    "TreeCollator": (packlib.TreeCollator, dict(model=LLAMA, pad_id=0), dict(model=Instance(), pad_id=Whole(0))),
    "audit": (packlib.audit, dict(data=PACKED, source=[2, 1], max_length=8, max_sequences_per_pack=3, batch_size=1,
                                  gradient_accumulation_steps=1, ranks=2, steps=1, work=WORK, tolerance=0.05,
                                  overlong="error", progress=False),
              dict(data=Instance(but=["it"], more=[[[1]], True]), max_length=Whole(1, 1 << 24, none=True),
                   source=Instance(none=True, more=[[True], [1.5], [-1], [0], [NAN], [[1]], [2**70], [None]]),
                   max_sequences_per_pack=NO_LIMIT, batch_size=Whole(1, 2**63 - 1, none=False),
                   gradient_accumulation_steps=Whole(1, 2**63 - 1), ranks=Whole(2, 2**63 - 1),
                   steps=Whole(1, 2**63 - 1, none=True), work=Instance(none=True), tolerance=Number([-0.1]),
                   overlong=Word(), progress=FlagOrNone)),
    "audit.columns": (packlib.audit, dict(data=PACKED, columns={"input_ids": "input_ids"}, masks={}),
                      dict(columns=Instance(none=True, but=[{}], more=[{"nope": "input_ids"}, {"input_ids": 3},
                                                                       {3: "input_ids"}, {"input_ids": "nope"}]),
                           masks=Instance(none=True, but=[{}], more=[{"labels": "loss"}, {"nope": "nope"},
                                                                     {"nope": "loss"}, {3: "loss"}]))),
    "audit.column": (packlib.audit, dict(data=PACKED, source=SOURCE, column="input_ids"),
                     dict(column=Instance(none=True, more=["nope", b"input_ids", True]))),
    "audit.second_budget": (packlib.audit, dict(data=SIZED, second_budget=("patches", 4)),
                            dict(second_budget=SecondBudget())),
    "check_loader": (packlib.check_loader, dict(make=shares, ranks=1, source=ROWS, id_column=None, steps=4,
                                                shuffled=False, repeats=False, other_ranks=(), time_limit=60),
                     dict(make=Instance(), ranks=WHOLE, steps=Whole(2, none=True), shuffled=Flag, repeats=Flag,
                          id_column=Instance(none=True, but=["it"], more=[b"it", True]),
                          source=Instance(none=True, but=["it"], more=[[{"input_ids": 7}], [{"input_ids": [[7]]}]]),
                          other_ranks=Instance(but=[[], {}], more=[[0], [True], [2.0], ["2"], [NAN], [[2]], [None]]),
                          time_limit=Number([0, -1]))),
    "fit_update": (tools.advice.micro_batch.fit_update,
                   dict(before=BEFORE, packing_factor=2.0, most=4, devices=1, packs=9),
                   dict(before=Instance(), packing_factor=Number([0, 0.5, -2]), most=WHOLE,
                        devices=NO_LIMIT, packs=NO_LIMIT)),
    "Batch": (tools.advice.Batch, dict(micro_batch=4, gradient_accumulation_steps=2, replicas=2, packing_factor=2.0),
              dict(micro_batch=WHOLE, gradient_accumulation_steps=WHOLE, replicas=WHOLE,
                   packing_factor=Number([0, 0.5, -2]))),
    "advise": (packlib.advise,
               dict(lengths=LENGTHS, max_length=8, today="random", batch_size=2, accumulation=2, epochs=2, ranks=2,
                    overlong="split", max_sequences_per_pack=2, keep_max_length=True, attention="bounds",
                    thorough=False, seed=0),
               dict(lengths=Integers(), max_length=Whole(1, 1 << 24, none=True), today=Word(), batch_size=NO_LIMIT,
                    accumulation=NO_LIMIT, epochs=NO_LIMIT, ranks=NO_LIMIT, overlong=Word(none=True),
                    max_sequences_per_pack=NO_LIMIT, keep_max_length=Flag, attention=Word(none=True), thorough=Flag,
                    seed=SEED)),
    "advise.model": (packlib.advise, dict(lengths=LENGTHS, batch_size=2, epochs=1, model="7B", memory="80GB"),
                     dict(model=Instance(none=True, but=["it"], more=[True, b"7B"]),
                          memory=Instance(none=True, more=[True, b"80GB", "0GB", "-80GB", "80 apples", 80]))),
    "advise.recipe": (packlib.advise, dict(lengths=LENGTHS, recipe=RECIPE), dict(recipe=Instance(none=True))),
    "check_packing": (packlib.check_packing,
                      dict(model=LLAMA, collate=padded, sequences=CHECKED, reduction="token", max_tokens=40,
                           ranks_share="batches", progress=False),
                      dict(model=Instance(), collate=Instance(), reduction=Word(none=True), max_tokens=Whole(2),
                           sequences=Instance(more=[[3], [{}], [{"input_ids": 7}], [{"input_ids": [7.5]}]]),
                           ranks_share=Word(), progress=FlagOrNone)),
    "check_packing.group": (packlib.check_packing,
                            dict(model=LLAMA, collate=padded, sequences=CHECKED, progress=False),
                            dict(group=Instance(none=True, more=[True]), loss=Instance(none=True),
                                 step=Instance(none=True), keep=Instance(but=[[], {}], more=[[True], ["a"], [0.5]]))),
    "batches_today": (tools.advice.today.batches_today,
                      dict(histogram=HISTOGRAM, batch_size=2, today="random", max_sequences_per_pack=2, seed=0),
                      dict(histogram=Instance(), batch_size=WHOLE, today=Word(), max_sequences_per_pack=NO_LIMIT,
                           seed=SEED)),
}  # fmt: skip

CASES = [(name, argument) for name, (_, _, kinds) in CALLS.items() for argument in kinds]
# what a sentence may say in place of the argument's name; an expression for `re`
SAYS = {
    "what": "length", "patches": "patch", "indices": "sequence number", "score": "difficult", "target_lengths":
    "target length", "local_lengths": "length", "counts": "histogram", "matrix": "target", "max_length": "maximum",
    "sequence_places": "places", "min_batch": "max_batch", "min_length": "max_length", "sizes": "pack 0",
    "dataset": "sample|data set|row|column", "source": "input_id", "samples": "input_ids",
    "rows": "seq_length|position_id|input_id",
    "input_ids": "tokens",
    "sample_ids": "sample", "segment_ids": "sequence|input_id", "sequences": "token",
}  # fmt: skip


# public names that are not in the table, by the reason why
NOT_HERE = {
    "results, which a function makes and a user reads": "PaddingWaste DocumentRows PairPacks TreeRows "
    "Trees TokenBatches FlatBatch PackedOutput Sums Adjustment PackShare SortedRows ContextShards RankGroups Schedule "
    "Waiting PackedUpdate LoaderCheck TreeBatch RowLength Decision Today PackingCheck Labels PackingAudit Finding "
    "Advice",
    "takes nothing, or file names alone": "available data_path tokenizer_path wordnet_tokenizer",
    "torch's DataLoader, which checks its own arguments": "PackLoader",
    "raised, and not called by users": "RankError",
}


def test_every_public_function_is_in_the_table_or_has_a_reason():
    rooms = (lengths, packing, work, batches, model, training, distributed)
    rooms += (tools.rows, tools.check, tools.auditing, tools.loaders, tools.advice)
    is_called = inspect.isroutine, inspect.isclass  # up to Python 3.13 a type such as `Method` is callable too
    public = {name for room in rooms for name in room.__all__ if any(kind(getattr(room, name)) for kind in is_called)}
    left_out = set(" ".join(NOT_HERE.values()).split())
    in_the_table = {name.split(".")[0] for name in CALLS}
    assert public - in_the_table == left_out


@pytest.mark.parametrize("name, argument", CASES)
def test_a_wrong_argument_is_refused_in_one_sentence_that_names_it(name, argument):
    function, call, kinds = CALLS[name]
    for value in kinds[argument].bad:
        try:
            result = function(**call | {argument: value})
        except (TypeError, ValueError, IndexError) as error:
            sentence, raised_in = str(error), traceback.extract_tb(error.__traceback__)[-1].filename
        else:
            pytest.fail(f"{name}({argument}={value!r}) is taken, and returns {result!r:.200}")
        case = f"{name}({argument}={value!r}): {sentence}"
        assert Path(packlib.__file__).parent in Path(raised_in).parents, case
        assert "\n" not in sentence and len(sentence) < 500 and sentence.endswith((".", "?")), case
        stem = argument.rstrip("s")
        said = sentence.lower()
        assert stem in said or stem.replace("_", " ") in said or re.search(SAYS.get(argument, stem), said), case


def same(one, other):
    """The same values in all that is compared, whatever the class."""
    if isinstance(one, dict) or hasattr(one, "__dict__"):
        one, other = (value if isinstance(value, dict) else vars(value) for value in (one, other))
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (np.ndarray, torch.Tensor)):
        return np.array_equal(one, other)
    return one == other or repr(one) == repr(other)


@pytest.mark.parametrize("name, argument", [case for case in CASES if isinstance(CALLS[case[0]][2][case[1]], Whole)])
def test_a_small_integer_of_numpy_counts_as_pythons(name, argument):
    """Sums and products of it must not wrap around, as those of 8 bits do at 128."""
    function, call, _ = CALLS[name]
    if isinstance(call[argument], int) and call[argument] < 128:
        assert same(function(**call), function(**call | {argument: np.int8(call[argument])}))
