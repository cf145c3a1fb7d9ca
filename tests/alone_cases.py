"""For the tests of trainers on packs: a tiny model, its sequences, and the updates that train on each of them alone."""

from pathlib import Path

import numpy as np
import torch
from processes import on_ranks
from transformers import LlamaConfig, LlamaForCausalLM

from packlib.batches import wordnet_tokenizer

FOLDERS = [str(Path(__file__).parent / room) for room in (".", "tools/rows", "tools/advice")]
SCRIPT = """
import sys, datasets
sys.path[:0] = {folders!r}
from alone_cases import *
datasets.config.HF_DATASETS_CACHE = {cache!r}
dataset, model = datasets.Dataset.from_dict({{"input_ids": sequences({count})}}), a_model()
{text}
print(f"same on rank {{accelerator.process_index}}")  # at once, since another rank prints too
"""


def a_model():
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(wordnet_tokenizer()), max_position_embeddings=64, **small))


def sequences(count=13):
    rng = np.random.default_rng(0)
    return [rng.integers(5, 100, n).tolist() for n in rng.integers(5, 30, count)]


def loss_alone(model, ids):
    """The mean over all targets, each sequence by itself."""
    losses = [model(input_ids=torch.tensor([one]), labels=torch.tensor([one])).loss * (len(one) - 1) for one in ids]
    return sum(losses) / sum(len(one) - 1 for one in ids)


def stepped(updates, rate=0.5):
    """The model after plain steps, each on so many sequences by themselves."""
    model = a_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for ids in updates:
        loss_alone(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def assert_same(model, reference, near=1e-5):
    before, moved = a_model(), 0.0
    for name, parameter in reference.named_parameters():
        assert (model.get_parameter(name) - parameter).abs().max() < near, name
        moved = max(moved, float((before.get_parameter(name) - parameter).abs().max()))
    assert moved > 20 * near


def assert_same_on_ranks(folder, text, count=13, ranks=2):
    """Run a script in processes that torchrun starts; it has `dataset` and `model`, and makes an `accelerator`."""
    path = folder / "script.py"
    path.write_text(SCRIPT.format(folders=FOLDERS, cache=str(folder / "cache"), text=text, count=count))
    said = on_ranks(path, ranks)
    assert all(f"same on rank {rank}" in said for rank in range(ranks))
