"""Which models of transformers compute the same in packs as with each sequence alone, and in which form: a table."""

import csv
from functools import cache
from pathlib import Path

FORMS = ("padding_free", "dense")
TABLE = Path(__file__).with_name("forms.csv")  # its first line says how it is made
STATE = "it carries a state from token to token, which would run on into the next sequence"


@cache
def table() -> dict[tuple[str, str], dict[str, str]]:
    """By ("causal" or "masked", transformers' `model_type`): the class that was compared, and the forms that are exact.

    For "padding_free", "dense" and "flash", which is padding-free with a flash kernel: "" if exact, or why not. A state
    that layers carry from token to token begins anew with each sequence in the kernels of the packages in "kernels",
    without which transformers refuses packs.
    """
    lines = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    return {(row["kind"], row["model_type"]): row for row in csv.DictReader(lines)}
