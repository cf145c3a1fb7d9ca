"""The shape of a model, by its configuration or its size: the memory that training takes, and what a pack costs."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from packlib.arguments import listed, one_of, shown, whole_number
from packlib.files import at_home, named, read_json
from packlib.work import Work

USABLE = 0.9  # of a device's memory; the rest is for CUDA, buffers and fragments
MOST_DEVICES = 1 << 16  # that a report divides a model over
_UNITS = {"MB": 1e6, "GB": 1e9, "TB": 1e12, "MIB": 2.0**20, "GIB": 2.0**30, "TIB": 2.0**40}
_LARGEST = 10**13  # weights
_NAMES = {  # of a size, in the configurations of Hugging Face
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "width": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "vocabulary": ("vocab_size",),
}
_FEED_FORWARD = ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "hidden_dim")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")
_STATE = ("state_size", "mamba_d_state", "ssm_state_size", "linear_num_key_heads", "attention_hidden_size")
_ONCE = ("ForPreTraining", "ForNextSentencePrediction", "ForSequenceClassification", "ForMultipleChoice")
_GATED = ("silu", "gelu_pytorch_tanh")
# layers, width, feed-forward, heads, key-value heads, vocabulary, and whether one table serves both ends
_KNOWN = {
    "110M": ("BERT-Base", 12, 768, 3072, 12, 12, 30_522, True),
    "340M": ("BERT-Large", 24, 1024, 4096, 16, 16, 30_522, True),
    "124M": ("GPT-2", 12, 768, 3072, 12, 12, 50_257, True),
    "0.5B": ("Qwen2.5 0.5B", 24, 896, 4864, 14, 2, 151_936, True),
    "1B": ("Llama 3.2 1B", 16, 2048, 8192, 32, 8, 128_256, True),
    "3B": ("Llama 3.2 3B", 28, 3072, 8192, 24, 8, 128_256, True),
    "7B": ("Llama 2 7B", 32, 4096, 11_008, 32, 32, 32_000, False),
    "8B": ("Llama 3 8B", 32, 4096, 14_336, 32, 8, 128_256, False),
    "13B": ("Llama 2 13B", 40, 5120, 13_824, 40, 40, 32_000, False),
    "14B": ("Qwen2.5 14B", 48, 5120, 13_824, 40, 8, 152_064, False),
    "32B": ("Qwen2.5 32B", 64, 5120, 27_648, 40, 8, 152_064, False),
    "70B": ("Llama 3 70B", 80, 8192, 28_672, 64, 8, 128_256, False),
}


class Memory(NamedTuple):
    """Bytes on one device: weights, gradients and moments; and what a forward pass keeps for the backward pass."""

    states: float
    activations: float

    @property
    def total(self) -> float:
        return self.states + self.activations


class Fit(NamedTuple):
    """Rows and shards that fit into the memory of a device.

    Attributes:
        rows: of one forward pass, 0 if none fits.
        shards: devices that have to share weights, gradients and moments.
        recompute: whether each layer has to be computed twice.
        room: bytes of the device.
        longest: tokens of the longest row that would fit, however many devices share the weights, where none of the
            row length does; else 0.
    """

    rows: int
    shards: int
    recompute: bool
    room: float
    longest: int = 0


@dataclass(frozen=True)
class ModelShape:
    """A transformer, as far as memory and work depend on it.

    Attributes:
        name: of the configuration's file or of the known model.
        layers, width, heads, key_value_heads, head_width, vocabulary: sizes.
        feed_forward: width between the matrices of a feed-forward part.
        gated: the feed-forward part has three matrices and the norms no mean (Llama), else two (BERT, GPT-2).
        tied: one table of the vocabulary serves both ends.
        fused: one matrix makes queries, keys and values.
        kept: numbers that the feed-forward part keeps for the backward pass, of its own width.
        dropout: two masks in each layer.
        causal: a token sees none that come later.
        experts: feed-forward parts of a layer; 1 without a mixture of experts.
        used: the experts that each token goes through.
        positions: the most tokens of a sequence, or None where the shape does not say.
        once: the model has something once for each sequence, such as a pooler.
    """

    name: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    key_value_heads: int
    head_width: int
    vocabulary: int
    tied: bool
    gated: bool
    fused: bool = False
    kept: int = 4
    dropout: bool = False
    causal: bool = True
    experts: int = 1
    used: int = 1
    positions: int | None = None
    once: bool = False

    @property
    def parameters(self) -> int:
        """Weights, with all experts; norms and biases are left out."""
        heads = (2 * self.heads + 2 * self.key_value_heads) * self.head_width
        layer = self.width * heads + (2 + self.gated) * self.width * self.feed_forward * self.experts
        positions = 0 if self.gated else self.positions or 0
        return (1 + (not self.tied)) * self.vocabulary * self.width + positions * self.width + self.layers * layer

    @property
    def work(self) -> Work:
        """FLOP of a pack in the layers, each sequence attending to itself."""
        if not self.causal:
            return Work.bert(self.layers, self.width, self.feed_forward)
        inner = round((2 + self.gated) / 3 * self.feed_forward * self.used)
        return Work.decoder(self.layers, self.width, max(1, inner), self.heads, self.key_value_heads, self.head_width)

    def memory(self, rows: int, max_length: int, *, shards: int = 1, recompute: bool = False) -> Memory:
        """Estimate one device's memory in training, at its peak, with a kernel that stores no attention scores.

        Mixed precision is assumed, as with a trainer's `bf16=True`: weights, gradients and AdamW's two moments take
        four bytes each, and a 16-bit copy of the weights two more. The layers compute in 16 bits; the norms and the
        residual stream stay in 32 bits. The tests compare this with the peaks of models that train.

        >>> from packlib.tools.advice.memory import model_shape
        >>> memory = model_shape("7B").memory(rows=1, max_length=4096)
        >>> f"{memory.states / 1e9:.0f} GB and {memory.activations / 1e9:.0f} GB"
        '121 GB and 31 GB'

        Args:
            rows: in one forward pass; packed or padded makes no difference.
            shards: devices that share weights, gradients and moments.
            recompute: keep the input of each layer only, and compute it twice.
        """
        tokens, d = rows * max_length, self.width
        heads = (self.heads + 2 * self.key_value_heads) * self.head_width
        norms = (2 if self.gated else 1) * 4 * d
        inputs = (1 if self.fused else 3) + (2 if self.gated else 1)
        layer = 2 * norms + 2 * (d * inputs + self.heads * self.head_width + heads)
        layer += 2 * self.kept * self.feed_forward * self.used + 2 * d * self.dropout
        logits = 12 * self.vocabulary  # themselves, their logarithms and the gradients of both
        # a layer is computed again when nothing of the logits is left
        kept = 4 * d * self.layers + max(layer, logits) if recompute else layer * self.layers + logits
        return Memory(18 * self.parameters / shards, tokens * kept)


def model_shape(model: str) -> ModelShape:
    """Return a model's shape by the path of a `config.json`, by its folder, or by a known size such as "7B".

    >>> from packlib.tools.advice.memory import model_shape
    >>> shape = model_shape("7B")
    >>> shape.layers, shape.width, shape.feed_forward, f"{shape.parameters / 1e9:.2f} billion"
    (32, 4096, 11008, '6.74 billion')

    Raises:
        FileNotFoundError, TypeError, ValueError: if there is no such model, or it is none whose memory is known here.
    """
    size = model.upper()
    if re.fullmatch(r"\d+(\.\d+)?[MB]", size):
        name, layers, width, inner, heads, groups, vocabulary, tied = _KNOWN[one_of("model", size, _KNOWN)]
        bert, gated = name.startswith("BERT"), name[:4] in ("Llam", "Qwen")
        old: dict[str, Any] = dict(kept=5, positions=1024)
        if bert:
            old = dict(kept=2, positions=512, causal=False, once=True)
        return ModelShape(
            name, layers, width, inner, heads, groups, width // heads, vocabulary, tied, gated, fused=name == "GPT-2",
            **({} if gated else old | {"dropout": True}),
        )  # fmt: skip
    if not os.path.lexists(at_home(model)) and re.fullmatch(r"[\w.]+", model) and not model.endswith(".json"):
        raise FileNotFoundError(
            f"model must be a known size ({listed(_KNOWN)}), or the path of a config.json or of its folder, "
            f"not {shown(model)}."
        )
    return _configured(model)


def _configured(model: str) -> ModelShape:
    """Read the shape of a model from its configuration, under the names that families give the same size."""
    path, config = _configuration(model)
    whole = dict(at_least=1, at_most=_LARGEST)

    def size(names: tuple[str, ...], default: Any) -> int:
        name, value = next(((name, config[name]) for name in names if config.get(name) is not None), ("", default))
        return default if not name else whole_number(f"{name} in {named(path)}", value, **whole)

    family, architectures = str(config.get("model_type")), config.get("architectures") or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise TypeError(f"architectures in {named(path)} must be a list of names, not {shown(architectures)}.")
    if any(name in config for name in _STATE):
        raise ValueError(f"model must be a transformer, not {shown(family)}: it carries a state from token to token.")
    for names in _NAMES.values():
        if not any(name in config for name in names):
            raise ValueError(f"{named(path)} must be the configuration of a transformer, and has no {names[0]}.")
    sizes = {attribute: size(names, 1) for attribute, names in _NAMES.items()}
    groups = size(("num_key_value_heads",), sizes["heads"])
    whole_number(f"num_key_value_heads in {named(path)}", groups, 1, sizes["heads"])
    experts = size(_EXPERTS, 1)
    inner = size(("moe_intermediate_size",) * (experts > 1) + _FEED_FORWARD, 4 * sizes["width"])
    gated = config.get("hidden_act", config.get("hidden_activation")) in _GATED
    activation = config.get("activation_function", config.get("hidden_act", "gelu"))
    shape = ModelShape(
        name=named(path), **sizes, feed_forward=inner, key_value_heads=groups,
        head_width=size(("head_dim",), max(1, sizes["width"] // sizes["heads"])),
        tied=bool(config.get("tie_word_embeddings", True)), gated=gated, fused="n_embd" in config,
        kept=4 if gated else 5 if activation == "gelu_new" else 2,
        dropout=any(config.get(name) for name in ("hidden_dropout_prob", "resid_pdrop")),
        causal="bert" not in family, experts=experts,
        used=size(("num_experts_per_tok",), 1) if experts > 1 else 1, positions=size(_POSITIONS, None),
        once=family != "electra" and any(name.endswith(_ONCE) for name in architectures),
    )  # fmt: skip
    if shape.parameters > _LARGEST:
        raise ValueError(f"{named(path)} must be of a model of at most 10000B, not {shape.parameters / 1e9:.3g}B.")
    return shape


def _configuration(model: str) -> tuple[Path, dict]:
    path = at_home(model)
    if path.is_dir():
        path /= "config.json"
    config = read_json(path, "model's configuration", constants=True)
    inner = config.get("text_config") or config
    if not isinstance(inner, dict):
        raise TypeError(f"text_config in {named(path)} must be a JSON object, not {shown(inner)}.")
    return path, {"architectures": config.get("architectures"), **inner}


def memory_size(text: str) -> float:
    """Return the bytes of a memory such as "80GB".

    Raises:
        TypeError, ValueError: for anything else.
    """
    if not isinstance(text, str):
        raise TypeError(f'memory must be text such as "80GB", not {shown(text)}.')
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B)", text.strip(), re.I)
    if not match or match[2].upper() not in _UNITS or not float(match[1]):
        raise ValueError(f"memory must be a number with {', '.join(('MB', 'GB', 'TB', 'GiB'))}, not {shown(text)}.")
    return float(match[1]) * _UNITS[match[2].upper()]


def fitting(shape: ModelShape, max_length: int, room: float, devices: int) -> Fit:
    """Find the most rows that fit into a device's memory, and what that takes: recomputation, or more devices.

    Args:
        room: bytes of a device.
        devices: that share weights, gradients and moments now.
    """
    usable, shards = USABLE * room, devices
    while shards <= max(devices, MOST_DEVICES):
        for recompute in (False, True):
            one_row = shape.memory(1, max_length, shards=shards, recompute=recompute)
            if one_row.total <= usable:
                return Fit(int((usable - one_row.states) // one_row.activations), shards, recompute, room)
        shards *= 2
    return Fit(0, devices, True, room, int(usable // shape.memory(1, 1, recompute=True).activations))
