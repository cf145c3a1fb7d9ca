"""Which models of transformers compute the same in packs as with each sequence alone, and in which form: a table."""

import csv
from functools import cache
from pathlib import Path

FORMS = ("padding_free", "dense")
TABLE = Path(__file__).with_name("forms.csv")  # its first line says how it is made
STATE = "it carries a state from token to token, which would run on into the next sequence"


@cache
def table() -> dict[tuple[str, str], dict[str, str]]:
    """Return the table's rows, by ("causal" or "masked", transformers' `model_type`); each maps a column to its text.

    "class" is the class that was compared. "padding_free", "dense" and "flash" (padding-free with a flash kernel) are
    empty if the form is exact, and otherwise say why it is not. "kernels" names the packages that a model needs if its
    layers carry a state from token to token: their kernels begin it anew with each sequence, and without them
    transformers refuses packs.
    """
    lines = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    return {(row["kind"], row["model_type"]): row for row in csv.DictReader(lines)}
