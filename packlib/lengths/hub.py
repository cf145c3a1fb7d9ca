"""Lengths of a Hugging Face data set, counted while it streams by (extra `hub`)."""

from collections.abc import Iterator, Sequence
from typing import Any

from packlib.checks import one_of, shown, whole_number
from packlib.installed import needed_by
from packlib.lengths.histogram import LengthHistogram


def from_hub(
    dataset: Any,
    tokenizer: Any,
    column: str | Sequence[str] = "text",
    config: str | None = None,
    split: str = "train",
    max_length: int | None = None,
    overlong: str = "truncate",
    batch_size: int = 1000,
    progress: bool = True,
    **options: Any,
) -> LengthHistogram:
    """Tokenize a data set in one streaming pass and count the lengths; only one batch is in memory at a time.

        from_hub("nyu-mll/glue", "bert-base-uncased", ("premise", "hypothesis"), "mnli", max_length=128)

    Args:
        dataset: a name or loader of `datasets.load_dataset`, or a data set that is loaded already.
        tokenizer: a name or folder of `AutoTokenizer.from_pretrained`, or a tokenizer.
        column: the column of the text, or two columns that make a pair.
        config, split, options: for `load_dataset`, such as `data_files` for the loaders "json" and "text".
        max_length, overlong: as in `LengthHistogram.from_lengths`; a tokenizer, too, truncates.
        batch_size: rows tokenized at a time.
        progress: show a bar.

    Raises:
        ImportError: if `datasets` is not installed.
        TypeError, ValueError: for an unknown split or column, or a row without text (naming it).
    """
    whole_number("batch_size", batch_size, 1)
    columns = [column] if isinstance(column, str) else list(column)
    if len(columns) not in (1, 2):
        raise ValueError(f"column must be one column or a pair, not {shown(column)}.")
    name = dataset if isinstance(dataset, str) else None
    with needed_by("from_hub"):
        from datasets import load_dataset
    if name:
        dataset = load_dataset(name, config, streaming=True, **options)
    rows = dataset[one_of("split", split, dataset)] if isinstance(dataset, dict) else dataset
    if isinstance(tokenizer, str):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(tokenizer)
    name = name or rows.info.dataset_name or "data set"
    return LengthHistogram.from_chunks(
        _token_counts(rows, tokenizer, columns, batch_size, progress),
        max_length,
        overlong,
        place="row {}".format,
        name=name if config is None else f"{name}/{config}",
        source=f"{name}, split {rows.split or split}, column {' and '.join(columns)}",
    )


def _token_counts(
    rows: Any, tokenizer: Any, columns: list[str], batch_size: int, progress: bool
) -> Iterator[list[int]]:
    """The lengths of one batch of rows after another, in tokens, special ones included."""
    from tqdm.auto import tqdm

    known = (rows.info.splits or {}).get(str(rows.split))  # what the hub says of a data set that streams
    total = len(rows) if hasattr(rows, "__len__") else getattr(known, "num_examples", None)
    done = 0
    with tqdm(total=total, unit=" rows", desc="counting tokens", disable=not progress) as bar:
        for batch in rows.iter(batch_size):
            texts = [batch[one_of("column", column, batch)] for column in columns]
            for row, together in enumerate(zip(*texts, strict=True), start=done):
                for text in together:
                    if not isinstance(text, str):
                        raise TypeError(f"Row {row} holds {shown(text)} instead of text.")
            encoded = tokenizer(*texts, return_attention_mask=False, return_token_type_ids=False, verbose=False)
            yield [len(ids) for ids in encoded["input_ids"]]
            bar.update(len(texts[0]))
            done += len(texts[0])
