"""Load lengths by the name of a data set or from a file: `load("wikipedia")`, `load("my_lengths.csv")`."""

import csv
import os
from pathlib import Path

from packlib.arguments import one_of, path_of
from packlib.files import at_home
from packlib.installed import checkout_path
from packlib.lengths.histogram import LengthHistogram
from packlib.lengths.overlong import OVERLONG, Overlong
from packlib.lengths.own_files import holds_counts, read_lengths
from packlib.lengths.synthetic import ABOUT, FAMILIES

with Path(__file__).with_name("data_sets.csv").open(encoding="utf-8") as _file:
    _STORED = {row.pop("name"): row for row in csv.DictReader(_file)}  # kind, max_length and about, by name


def data_path(*parts: str) -> Path:
    """Return the path of a file or folder in the workbook's `data/`.

    Raises:
        FileNotFoundError: if it is not there, as when packlib was installed without its checkout.
    """
    return checkout_path("data", *parts)


def tokenizer_path() -> Path:
    """Return the folder of the workbook's WordPiece tokenizer, for `BertTokenizerFast.from_pretrained`.

    It makes 4,000 tokens of lower-case text; [PAD] [UNK] [CLS] [SEP] [MASK] are 0 to 4. It was trained on WordNet's
    glosses.
    """
    return data_path("wordnet", "tokenizer")


def available() -> dict[str, str]:
    """List the names that `load` knows, each with one line about it."""
    return {
        **{name: "{about} ({kind}, up to {max_length})".format(**row) for name, row in _STORED.items()},
        **{name: f"{about} (synthetic)" for name, about in ABOUT.items()},
    }


def file_of(name_or_path: str | os.PathLike[str]) -> Path | None:
    """Return the file that `load` reads, whether it exists or not; None for a data set that is a formula."""
    name = str(name_or_path)
    if name in _STORED:
        return data_path("lengths", f"{name}.csv")
    return None if name in FAMILIES else at_home(name_or_path)


def load(
    name_or_path: str | os.PathLike[str],
    max_length: int | None = None,
    column: str | None = None,
    overlong: Overlong = "error",
) -> LengthHistogram:
    """Load the histogram of a data set that `available()` names, or of a file of lengths.

    >>> from packlib import load
    >>> load("squad").num_sequences, load("wikipedia", max_length=128, overlong="truncate").truncated
    (88641, 10265669)

    Args:
        name_or_path: a name; or a text file with one length a line, a CSV of lengths or of `length,count`, JSON
            lines, a `.npy` array, or a Parquet file, read in chunks; or JSON that `LengthHistogram.save` wrote.
        max_length: the length of a pack; by default the data set's own, or the longest length of the file.
            (Sequences of a data set that are longer than its own length, such as 5,780 of `docstrings`, come truncated
            to it, as `truncated` of the histogram says, unless `overlong` drops or splits them.)
        column: which column of a CSV with a header, of JSON lines, or of a Parquet file; lists are counted by their
            items.
        overlong: what to do with sequences longer than `max_length`: "error", "truncate", "drop" or "split"; see
            `packlib.lengths.overlong`. A data set that is a formula is made for `max_length` and has none.

    Raises:
        ValueError: for an unknown name (naming the near ones), or a file with a broken line (naming it).
        FileNotFoundError: if there is no such file.
    """
    return load_argument("name_or_path", name_or_path, max_length, column, overlong)


def load_argument(
    argument: str,
    name_or_path: str | os.PathLike[str],
    max_length: int | None = None,
    column: str | None = None,
    overlong: Overlong = "error",
) -> LengthHistogram:
    """Load a histogram as `load` does; an error calls the second argument by the name `argument`."""
    name = str(path_of(argument, name_or_path))
    one_of("overlong", overlong, OVERLONG)
    if name in available():
        if column is not None:
            raise ValueError(f"column is for files; {name} is a data set of its own.")
        return _data_set(name, max_length, overlong)
    path = at_home(name_or_path)
    if isinstance(name_or_path, str) and not path.exists() and not path.suffix and path.name == name:
        one_of(f"{argument}, if not a file,", name, available())
    if path.suffix == ".json":
        histogram = LengthHistogram.load(path)
        return histogram if max_length is None else histogram.with_max_length(max_length, overlong)
    if holds_counts(path, column):
        return LengthHistogram.from_csv(path, max_length, overlong)
    chunks, place = read_lengths(path, column)
    return LengthHistogram.from_chunks(chunks, max_length, overlong, place, name=path.stem, source=path.name)


def _data_set(name: str, max_length: int | None, overlong: Overlong) -> LengthHistogram:
    """Load the data set of a name in `available()`; other arguments as of `load`."""
    if name in _STORED:
        row = _STORED[name]
        path = data_path("lengths", f"{name}.csv")
        histogram = LengthHistogram.from_csv(path, name=name, kind=row["kind"], source=row["about"])
        if max_length is None:
            return histogram.with_max_length(int(row["max_length"]), "truncate" if overlong == "error" else overlong)
        return histogram.with_max_length(max_length, overlong)
    if overlong not in ("error", "truncate"):
        raise ValueError(f"{name} is a formula that ends at its maximum length: overlong={overlong!r} does not apply.")
    return FAMILIES[name]() if max_length is None else FAMILIES[name](max_length=max_length)
