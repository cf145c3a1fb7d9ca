"""How much memory training takes with rows of a length: notebook 11's calculator, on a configuration or a size."""

import math
import re
from dataclasses import replace
from pathlib import Path

from packlib.checks import shown, whole_number
from packlib.packing import Work
from packlib.reading import named, read_json
from packlib.training.scaling.calculator import Phase, Setup, calculate, value_of

_NAMES = {  # of an attribute of `Setup`, in the configurations of Hugging Face
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "width": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "vocabulary": ("vocab_size",),
}
_FEED_FORWARD = ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "hidden_dim")
_BILLION = {"M": 1e-3, "B": 1.0}
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

    def gigabytes(name: str, recompute: bool) -> float:
        return value_of(calculate(replace(setup, recompute=recompute), [phase]), name, max_length)[0] / 1e9

    total, activations = gigabytes("MEMORY", False), gigabytes("ACTIVATIONS", False)
    parameters = value_of(calculate(setup, [phase]), "parameters")
    return (
        f"About {total:,.1f} GB on one device with {micro_batch:,} rows of {max_length:,} tokens, packed or padded: "
        f"{total - activations:,.1f} GB of weights, gradients and moments, and {activations:,.1f} GB of activations; "
        f"{gigabytes('MEMORY', True):,.1f} GB in all if each layer is computed twice. This is an estimate by the "
        f"formulas of packlib.training.scaling.calculator, for {shape}, {parameters / 1e6:,.0f} million parameters "
        "in 16 bits with FP32 master weights and AdamW, nothing sharded, attention scores not stored, and dropout."
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
        known = {}
        for attribute, names in _NAMES.items():
            value = next((config[name] for name in names if name in config), None)
            if value is None:
                raise ValueError(f"{named(path)} is no model's configuration: it has no {names[0]}.")
            known[attribute] = whole_number(f"{names[0]} in {named(path)}", value, 1)
        forward = next((config[name] for name in _FEED_FORWARD if config.get(name)), 4 * known["width"])
        whole_number(f"{_FEED_FORWARD[0]} in {named(path)}", forward, 1)
        if config.get("hidden_act", config.get("hidden_activation")) in ("silu", "gelu_pytorch_tanh"):
            forward = round(1.5 * forward)  # gated: three matrices instead of two
        predicted = _MASKED if "bert" in str(config.get("model_type")) else 1.0
        what = f"the configuration {named(path)}"
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


def _size(model: str) -> re.Match | None:
    return re.fullmatch(r"(\d+(?:\.\d+)?)([MB])", model.upper())


def _configuration(model: str) -> tuple[Path, dict]:
    path = Path(model).expanduser()
    if path.is_dir():
        path /= "config.json"
    config = read_json(path, "model's configuration")
    return path, config.get("text_config") or config
