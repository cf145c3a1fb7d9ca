"""Which of transformers' models compute the same in packs as with each sequence alone: what was measured."""

import csv
import math
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("families.csv")  # its first line says how it is made
SETTINGS = TABLE.with_name("settings.csv")  # what a family that is exact otherwise can be told to do

STATE = "it carries a state from token to token, which would run on into the next sequence"
_STATEFUL_LAYERS = {"linear_attention", "conv", "hybrid", "hybrid_sliding"}
_ALSO = {("masked", "bert"): ("BertForPreTraining",)}  # the head of PackedBert, which has tests of its own


@cache
def families() -> dict[tuple[str, str], dict[str, str]]:
    """By ("causal" or "masked", transformers' `model_type`): its class, the result, and the reason.

    The result is "exact", "refused" (it was compared and is not exact) or "not tried".
    """
    return {(row["kind"], row["model_type"]): row for row in _rows(TABLE)}


@cache
def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()[1:]))


def check_family(kind: str, model: Any, config: Any = None) -> None:
    """Raise a TypeError with the reason if packs change what `model` computes, a "causal" or "masked" class.

    Args:
        config: its configuration, once there is one.
    """
    if reason := _reason(kind, model, config):
        raise TypeError(f"{model.__name__} cannot be packed: {reason}.")


def _reason(kind: str, model: Any, config: Any) -> str | None:
    family = model.config_class.model_type
    row = families().get((kind, family))
    if row is None and getattr(model.config_class, "is_encoder_decoder", False):
        return "it is an encoder-decoder model, and a pack holds no second text for the decoder"
    if row is None:
        return f"{family!r} is not among the {kind} models that were compared, packed and alone"
    if row["result"] != "exact":
        return row["reason"]
    compared = {row["class"], *_ALSO.get((kind, family), ())}
    if compared.isdisjoint(base.__name__ for base in model.__mro__):
        return f"it has another head than {' or '.join(sorted(compared))}, which was compared, packed and alone"
    if _STATEFUL_LAYERS & set(getattr(config, "layer_types", None) or ()):
        return STATE
    for row in _rows(SETTINGS):
        if row["kind"] == kind and row["model_type"] in ("", family):
            if str(getattr(config, row["setting"], row["exact"])) != row["exact"]:
                return row["reason"]
    return None


def position_room(config: Any) -> float:
    """How many positions the model has."""
    room = getattr(config, "max_position_embeddings", None)
    return room if room and room > 0 else math.inf


def long_rope_limit(config: Any) -> int | None:
    """The length above which a sequence gets the long factors of LongRoPE, and all others of its batch with it.

    None without LongRoPE. Some models have a rope of their own for each kind of layer.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope, *(part for part in rope.values() if isinstance(part, dict))]
    limits = (kind["original_max_position_embeddings"] for kind in kinds if kind.get("rope_type") == "longrope")
    return next(limits, None)
