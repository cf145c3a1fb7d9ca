"""The shape of a model, by its configuration or its size: the memory that training takes, and what a pack costs."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from packlib.arguments import listed, one_of, shown, whole_number
from packlib.files import at_home, named, read_json
from packlib.work import Work

USABLE = 0.9  # share of a device's memory; the rest is for CUDA, buffers and fragments
MOST_DEVICES = 1 << 16  # number of devices that may share a model
# Bytes of each unit, in capital letters.
_UNITS = {"MB": 1e6, "GB": 1e9, "TB": 1e12, "MIB": 2.0**20, "GIB": 2.0**30, "TIB": 2.0**40}
_LARGEST = 10**13  # number of weights of a model
_NAMES = {  # by size of `ModelShape`, its names in configurations of Hugging Face; likewise the next four
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "width": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "vocabulary": ("vocab_size",),
}
_FEED_FORWARD = ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "hidden_dim")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")
_STATE = ("state_size", "mamba_d_state", "ssm_state_size", "linear_num_key_heads", "attention_hidden_size")
# Endings of architectures that have something once for each sequence, such as a pooler.
_ONCE = ("ForPreTraining", "ForNextSentencePrediction", "ForSequenceClassification", "ForMultipleChoice")
_GATED = ("silu", "gelu_pytorch_tanh")  # activations of feed-forward parts with three matrices
# Name, layers, width, feed-forward, heads, key-value heads, vocabulary, and whether input and output share a table.
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
    """Bytes on one device in training.

    Attributes:
        states: weights, gradients and moments.
        activations: what a forward pass keeps for the backward pass.
    """

    states: float
    activations: float

    @property
    def total(self) -> float:
        """Bytes of both."""
        return self.states + self.activations


class Fit(NamedTuple):
    """Rows and shards that fit into the memory of a device.

    Attributes:
        rows: the most rows of one forward pass; 0 if none fits.
        shards: number of devices that have to share weights, gradients and moments.
        recompute: whether each layer has to be computed twice.
        room: bytes of the device.
        longest: if no row fits, tokens of the longest row that would, however many devices share the weights; else 0.
    """

    rows: int
    shards: int
    recompute: bool
    room: float
    longest: int = 0


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a transformer on which memory and work depend.

    Attributes:
        name: of the configuration's file or of the known model.
        layers, width, heads, key_value_heads, head_width, vocabulary: sizes.
        feed_forward: width between the matrices of a feed-forward part.
        tied: whether input and output share one table of the vocabulary.
        gated: whether the feed-forward part has three matrices and the norms no mean (Llama), or two (BERT, GPT-2).
        fused: whether one matrix makes queries, keys and values.
        kept: number of vectors of the feed-forward width that a forward pass keeps for the backward pass.
        dropout: whether each layer keeps two masks of dropout.
        causal: whether a token sees only earlier ones.
        experts: feed-forward parts of a layer; 1 without a mixture of experts.
        used: number of experts that each token goes through.
        positions: the most tokens of a sequence, or None where the shape does not say.
        once: whether the model has something once for each sequence, such as a pooler.
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
        """Number of weights, with all experts; norms and biases are left out."""
        head_rows = (2 * self.heads + 2 * self.key_value_heads) * self.head_width  # queries, output, keys and values
        attention = self.width * head_rows
        feed_forward = (2 + self.gated) * self.width * self.feed_forward * self.experts
        tables = (1 if self.tied else 2) * self.vocabulary * self.width
        positions = 0 if self.gated else (self.positions or 0) * self.width  # gated models have rotary positions
        return tables + positions + self.layers * (attention + feed_forward)

    @property
    def work(self) -> Work:
        """FLOP of a pack in the layers, each sequence attending to itself."""
        if not self.causal:
            return Work.bert(self.layers, self.width, self.feed_forward)
        inner = round((2 + self.gated) / 3 * self.feed_forward * self.used)  # `Work.decoder` counts three matrices
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
            rows: number of rows in one forward pass; packed or padded makes no difference.
            max_length: slots of a row.
            shards: number of devices that share weights, gradients and moments.
            recompute: whether only the input of each layer is kept, and the layer computed twice.
        """
        # All in bytes for each slot: 4 for each number of a norm, 2 for each number of a matrix.
        norms = 2 * (2 if self.gated else 1) * 4 * self.width  # two in each layer
        inputs_of_matrices = (1 if self.fused else 3) + (2 if self.gated else 1)
        queries_keys_values = (self.heads + 2 * self.key_value_heads) * self.head_width
        attention_output = self.heads * self.head_width
        layer = norms + 2 * (self.width * inputs_of_matrices + attention_output + queries_keys_values)
        layer += 2 * self.kept * self.feed_forward * self.used
        layer += 2 * self.width * self.dropout  # two masks, one byte a number
        logits = 12 * self.vocabulary  # themselves, their logarithms and the gradients of both
        if recompute:  # a layer is computed again when nothing of the logits is left
            activations = 4 * self.width * self.layers + max(layer, logits)
        else:
            activations = layer * self.layers + logits
        return Memory(18 * self.parameters / shards, rows * max_length * activations)


def model_shape(model: str) -> ModelShape:
    """Return a model's shape by the path of a `config.json`, by its folder, or by a known size such as "7B".

    >>> from packlib.tools.advice.memory import model_shape
    >>> shape = model_shape("7B")
    >>> shape.layers, shape.width, shape.feed_forward, f"{shape.parameters / 1e9:.2f} billion"
    (32, 4096, 11008, '6.74 billion')

    Raises:
        FileNotFoundError, TypeError, ValueError: if there is no such model, or it is not a transformer whose sizes are
            known here.
    """
    size = model.upper()
    if re.fullmatch(r"\d+(\.\d+)?[MB]", size):
        return _known_shape(one_of("model", size, _KNOWN))
    if not os.path.lexists(at_home(model)) and re.fullmatch(r"[\w.]+", model) and not model.endswith(".json"):
        raise FileNotFoundError(
            f"model must be a known size ({listed(_KNOWN)}), or the path of a config.json or of its folder, "
            f"not {shown(model)}."
        )
    return _configured(model)


def _known_shape(size: str) -> ModelShape:
    """Return the shape of a model in `_KNOWN`, by its size."""
    name, layers, width, feed_forward, heads, key_value_heads, vocabulary, tied = _KNOWN[size]
    gated = name.startswith(("Llama", "Qwen"))
    of_family: dict[str, Any] = {}
    if name == "GPT-2":
        of_family = dict(kept=5, positions=1024, dropout=True, fused=True)
    elif name.startswith("BERT"):
        of_family = dict(kept=2, positions=512, dropout=True, causal=False, once=True)
    return ModelShape(
        name,
        layers,
        width,
        feed_forward,
        heads,
        key_value_heads,
        head_width=width // heads,
        vocabulary=vocabulary,
        tied=tied,
        gated=gated,
        **of_family,
    )


def _configured(model: str) -> ModelShape:
    """Read the shape of a model from its configuration, whose names for a size differ between families."""
    path, config = _configuration(model)

    def size(names: tuple[str, ...], default: Any) -> int:
        """Return the value of the first of these names that the configuration has."""
        for name in names:
            if config.get(name) is not None:
                return whole_number(f"{name} in {named(path)}", config[name], at_least=1, at_most=_LARGEST)
        return default

    family = str(config.get("model_type"))
    architectures = config.get("architectures") or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise TypeError(f"architectures in {named(path)} must be a list of names, not {shown(architectures)}.")
    if any(name in config for name in _STATE):
        raise ValueError(f"model must be a transformer, not {shown(family)}: it carries a state from token to token.")
    for names in _NAMES.values():
        if not any(name in config for name in names):
            raise ValueError(f"{named(path)} must be the configuration of a transformer, and has no {names[0]}.")
    sizes = {attribute: size(names, 1) for attribute, names in _NAMES.items()}
    key_value_heads = size(("num_key_value_heads",), sizes["heads"])
    whole_number(f"num_key_value_heads in {named(path)}", key_value_heads, 1, sizes["heads"])
    experts = size(_EXPERTS, 1)
    feed_forward_names = ("moe_intermediate_size", *_FEED_FORWARD) if experts > 1 else _FEED_FORWARD
    gated = config.get("hidden_act", config.get("hidden_activation")) in _GATED
    activation = config.get("activation_function", config.get("hidden_act", "gelu"))
    shape = ModelShape(
        name=named(path), **sizes, feed_forward=size(feed_forward_names, 4 * sizes["width"]),
        key_value_heads=key_value_heads,
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
    """Return the path of a configuration, and its values: those of the text part of a model for text and images."""
    path = at_home(model)
    if path.is_dir():
        path /= "config.json"
    config = read_json(path, "model's configuration", constants=True)
    text_config = config.get("text_config") or config
    if not isinstance(text_config, dict):
        raise TypeError(f"text_config in {named(path)} must be a JSON object, not {shown(text_config)}.")
    return path, {"architectures": config.get("architectures"), **text_config}


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


def rows_that_fit(shape: ModelShape, max_length: int, room: float, devices: int) -> Fit:
    """Return the most rows that fit into a device's memory, and if they need recomputation or more devices.

    Recomputation is tried first, then twice as many devices, and so on.

    Args:
        max_length: slots of a row.
        room: bytes of a device.
        devices: number of devices that share weights, gradients and moments today.
    """
    usable = USABLE * room
    shards = devices
    while shards <= max(devices, MOST_DEVICES):
        for recompute in (False, True):
            one_row = shape.memory(1, max_length, shards=shards, recompute=recompute)
            if one_row.total <= usable:
                return Fit(int((usable - one_row.states) // one_row.activations), shards, recompute, room)
        shards *= 2
    activations_of_token = shape.memory(1, 1, recompute=True).activations
    return Fit(0, devices, True, room, longest=int(usable // activations_of_token))
