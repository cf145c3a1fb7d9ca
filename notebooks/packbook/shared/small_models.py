"""Models of width 64 with random weights, in float64: small enough to run and compare exactly."""

import torch
from transformers import BertConfig, GPT2Config, GPT2LMHeadModel

from packlib.model import PackedBert


def small_bert(layers: int = 2, seed: int = 0) -> PackedBert:
    """Return a new BERT; the same seed gives the same weights each time."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=4000, hidden_size=64, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=128, initializer_range=0.1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return PackedBert(config).double()


def small_gpt(seed: int = 0) -> GPT2LMHeadModel:
    """Return a new GPT-2, a causal model, as transformers makes it; the same seed gives the same weights each time."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": 4000, "n_positions": 128, "n_embd": 64, "n_layer": 2, "n_head": 4}
    off = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "bos_token_id": 2, "eos_token_id": 3}
    return GPT2LMHeadModel(GPT2Config(initializer_range=0.1, **sizes, **off)).double()
