"""Which of transformers' models compute the same in packs as with each sequence alone: what was measured."""

import csv
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("families.csv")  # its first line says how it is made


@cache
def families() -> dict[tuple[str, str], dict[str, str]]:
    """By ("causal" or "masked", transformers' `model_type`): class, result ("exact", "refused", "not tried"), reason."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    return {(row["kind"], row["model_type"]): row for row in csv.DictReader(lines)}


def refusal(kind: str, model: type) -> str | None:
    """Why the class `model` of transformers is not for packs, in words that follow "because"; None if it is."""
    if getattr(model, "_is_stateful", False):
        return "it carries a state from token to token, which would run on into the next sequence"
    row = families().get((kind, model.config_class.model_type))
    if row is None:
        return "it is not among the models that were compared, packed and alone (packlib/model/families.csv)"
    return None if row["result"] == "exact" else row["reason"]


def check_family(kind: str, model: type) -> None:
    """Raise a TypeError with the reason if the class `model` is not for packs."""
    if reason := refusal(kind, model):
        raise TypeError(f"{model.__name__} cannot be packed: {reason}.")
