"""How much memory training takes with rows of a length: notebook 11's calculator, on a configuration or a size."""

import math
import re
from dataclasses import replace
from pathlib import Path

from packlib.checks import shown, whole_number
from packlib.model.forms import STATE, table
from packlib.reading import named, read_json
from packlib.training.scaling.calculator import Phase, Setup, calculate, value_of
from packlib.work import Work

_NAMES = {  # of an attribute of `Setup`, in the configurations of Hugging Face
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "width": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "vocabulary": ("vocab_size",),
}
_FEED_FORWARD = ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "hidden_dim")
_BILLION = {"M": 1e-3, "B": 1.0}
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_USED = "num_experts_per_tok"
_GROUPS = ("num_key_value_heads", "head_dim")
_LARGEST = 10**13  # weights, as of a size of 10000B
_MASKED = 0.15  # of the tokens have a prediction where the model fills masks in


def about_memory(model: str, max_length: int, micro_batch: int) -> str:
    """The memory of one device, in a sentence that says what it rests on.

    >>> about_memory("340M", 512, 8).split(",")[0]
    'About 9.6 GB on one device with 8 rows of 512 tokens'

    Args:
        model: the path of a `config.json`, of its folder, or a size such as "340M" or "7B".
        max_length: tokens in a row.
        micro_batch: rows in one forward pass.

    Raises:
        FileNotFoundError, ValueError: if the model is neither.
    """
    setup, predicted, shape = model_setup(model)
    setup = replace(setup, positions=max_length)
    phase = Phase(max_length, 1, micro_batch, 1, predictions=math.ceil(predicted * max_length))

    def gigabytes(name: str, recompute: bool = False) -> float:
        return value_of(calculate(replace(setup, recompute=recompute), [phase]), name, max_length)[0] / 1e9

    calculated = value_of(calculate(setup, [phase]), "parameters")
    parameters = _parameters(model, setup) or calculated
    activations, again = gigabytes("ACTIVATIONS"), gigabytes("ACTIVATIONS", True)
    states = (gigabytes("MEMORY") - activations) * parameters / calculated
    millions = f"{parameters / 1e6:,.{0 if parameters > 1e7 else 2}f} million"
    return (
        f"About {states + activations:,.1f} GB on one device with {micro_batch:,} rows of {max_length:,} tokens, "
        f"packed or padded: {states:,.1f} GB of weights, gradients and moments, and {activations:,.1f} GB of "
        f"activations; {states + again:,.1f} GB in all if each layer is computed twice. This is an estimate by the "
        f"formulas of packlib.training.scaling.calculator, for {shape}, {millions} parameters "
        "in 16 bits with FP32 master weights and AdamW, nothing sharded, attention scores not stored, and dropout."
    )


def about_positions(model: str, longest: int) -> str:
    """Whether the longest sequence has more tokens than the model has positions, in a sentence; empty if it has not.

    Args:
        model: as in `about_memory`; a size says nothing of positions.
        longest: tokens of the longest sequence.
    """
    config = {} if _size(model) else _configuration(model)[1]
    room = next((config[name] for name in _POSITIONS if config.get(name)), longest)
    if longest <= room:
        return ""
    return (
        f"The longest sequence has {longest:,} tokens, and the configuration is for {room:,} positions: cut what is "
        "longer, or make sure that the model takes it."
    )


def model_setup(model: str) -> tuple[Setup, float, str]:
    """The model as the calculator takes it, the share of its tokens that have a prediction, and its shape in words."""
    if size := _size(model):
        billions = float(size[1]) * _BILLION[size[2]]
        if not 0.001 <= billions <= 10_000:
            raise ValueError(f"model must be from 1M to 10000B, not {shown(model)}.")
        layers = max(1, round((billions * 1e9 / (12 * 128**2)) ** (1 / 3)))  # 12 · layers · width² parameters
        width = round(math.sqrt(billions * 1e9 / (12 * layers)) / 64) * 64 or 64
        known = {"layers": layers, "width": width, "heads": width // 64, "vocabulary": Setup.vocabulary}
        forward, predicted, what = 4 * width, 1.0, "a shape that is assumed for this size"
    else:
        path, config = _configuration(model)
        family = config.get("model_type")
        if any(row["model_type"] == family and row["dense"] == STATE for row in table().values()):
            raise ValueError(f"model must be a transformer, not {shown(family)}: {STATE}.")
        known = {}
        for attribute, names in _NAMES.items():
            value = next((config[name] for name in names if name in config), None)
            if value is None:
                raise ValueError(f"{named(path)} must be the configuration of a transformer, and has no {names[0]}.")
            known[attribute] = whole_number(f"{names[0]} in {named(path)}", value, 1, _LARGEST)
        whole_number(f"{_GROUPS[0]} in {named(path)}", config.get(_GROUPS[0]) or 1, 1, known["heads"])
        matrices, inner, _, used = _feed_forward(path, config, known["width"])
        forward = round(matrices * inner * used / 2)  # of two matrices, as the calculator has them
        predicted = _MASKED if "bert" in str(config.get("model_type")) else 1.0
        what = f"the configuration {named(path)}"
        layer = 4 * known["width"] ** 2 + 2 * known["width"] * forward
        if (weights := known["layers"] * layer + known["vocabulary"] * known["width"]) > _LARGEST:
            raise ValueError(f"{named(path)} must be of a model of at most 10000B, not {weights / 1e9:.3g}B.")
    setup = Setup(
        **known, feed_forward=forward, layout=(known["layers"],), replicas=1, precision="16 bit, master weights",
        fused_attention=True,
    )  # fmt: skip
    return setup, predicted, f"{what}: {known['layers']} layers {known['width']:,} wide"


def model_work(model: str) -> Work:
    """What a pack costs this model: FLOP of its layers, all taken as dense and attending to the whole sequence.

    >>> model_work("7B").in_words
    'a model whose attention takes half of the work for a sequence of 50,689 tokens'

    Args, Raises:
        as in `about_memory`; a size is taken as a decoder.
    """
    setup, predicted, _ = model_setup(model)
    if predicted < 1:
        return Work.bert(setup.layers, setup.width, setup.feed_forward)
    config = {} if _size(model) else _configuration(model)[1]
    return Work.decoder(
        setup.layers,
        setup.width,
        max(1, round(setup.feed_forward / 1.5)),  # `Setup` has two matrices, and the decoder three
        setup.heads,
        config.get("num_key_value_heads") or setup.heads,
        config.get("head_dim") or max(1, setup.width // setup.heads),
    )


def _feed_forward(path: Path, config: dict, width: int) -> tuple[int, int, int, int]:
    """Matrices of a feed-forward part, the width between them, and how many such parts a layer has, and uses."""
    experts = next((config[name] for name in _EXPERTS if config.get(name)), 1)
    names = ("moe_intermediate_size", *_FEED_FORWARD) if experts > 1 else _FEED_FORWARD
    name, inner = next(((name, config[name]) for name in names if config.get(name)), (names[0], 4 * width))
    gated = config.get("hidden_act", config.get("hidden_activation")) in ("silu", "gelu_pytorch_tanh")
    used = config.get(_USED) or 1 if experts > 1 else 1
    return 3 if gated else 2, whole_number(f"{name} in {named(path)}", inner, 1, _LARGEST), experts, used


def _parameters(model: str, setup: Setup) -> int | None:
    """The weights of a decoder by its configuration, with all experts; None where the calculator knows better."""
    if _size(model) or model_setup(model)[1] < 1:
        return None
    path, config = _configuration(model)
    matrices, inner, experts, _ = _feed_forward(path, config, setup.width)
    head_width = config.get("head_dim") or setup.width // setup.heads
    both = (setup.heads + (config.get("num_key_value_heads") or setup.heads)) * head_width
    layer = 2 * setup.width * both + matrices * setup.width * inner * experts
    tables = 1 if config.get("tie_word_embeddings", True) else 2
    return tables * setup.vocabulary * setup.width + setup.layers * layer


def _size(model: str) -> re.Match | None:
    return re.fullmatch(r"(\d+(?:\.\d+)?)([MB])", model.upper())


def _configuration(model: str) -> tuple[Path, dict]:
    path = Path(model).expanduser()
    if path.is_dir():
        path /= "config.json"
    config = read_json(path, "model's configuration", constants=True)
    config = config.get("text_config") or config
    if not isinstance(config, dict):
        raise TypeError(f"text_config in {named(path)} must be a JSON object, not {shown(config)}.")
    for name in (*_POSITIONS, *_EXPERTS, *_GROUPS, _USED):
        whole_number(f"{name} in {named(path)}", config.get(name) or 1, 1, _LARGEST)
    return path, config
