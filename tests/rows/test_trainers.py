"""transformers' Trainer on packs, on one process and two: an update, an evaluation, a prediction, each token once."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from packlib.distributed import run_ranks
from packlib.rows import TransformersCollator, pack_dataset

PAGE = (Path(__file__).resolve().parents[2] / "packlib" / "rows" / "README.md").read_text(encoding="utf-8")


def sequences():
    rng = np.random.default_rng(3)
    return [rng.integers(5, 60, n).tolist() for n in rng.integers(3, 28, 24)]


def a_model():
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return LlamaForCausalLM(LlamaConfig(vocab_size=64, max_position_embeddings=64, **small)).double()
