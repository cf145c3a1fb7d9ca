"""Tokenize once, and store the tokens of all sequences in flat arrays, which are memory-mapped from one file."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np

from packlib.arguments import no_frame, one_of, shown, sized, whole_number
from packlib.bars import progress_bar, wanted
from packlib.batches.batch import IGNORED
from packlib.files import naming
from packlib.lengths.counting import INT64_MAX, as_integers
from packlib.lengths.sources import tokenizer_path
from packlib.packing.arrays import map_arrays, save_arrays
from packlib.packing.ragged import Ragged, ranges

_ARRAYS = ("input_ids", "token_type_ids", "offsets", "sequence_labels")  # that every file has
_OPTIONAL = ("labels", "sample_ids")  # arrays that a file may have
_BY_TOKEN = ("input_ids", "token_type_ids", "labels")  # shape (number of tokens,)
_BY_SEQUENCE = ("sequence_labels", "sample_ids")  # shape (number of sequences,)
_COUNTED: Any = None  # default of `sample_ids`, which `__post_init__` replaces by 0, 1, 2, …
_BLOCK = 4096  # texts that are tokenized at once


@dataclass(frozen=True, eq=False)
class TokenStore(Ragged[dict[str, Any]]):
    """Sequences of tokens end to end: sequence `i` is `input_ids[offsets[i]:offsets[i + 1]]`.

    >>> from packlib.batches import TokenStore
    >>> store = TokenStore.from_samples([{"input_ids": [7, 8, 9]}, {"input_ids": [4, 5]}])
    >>> store.lengths.tolist(), store.take([1]).input_ids.tolist()
    ([3, 2], [4, 5])

    Attributes:
        input_ids, token_type_ids: integers from 0 up, shape (number of tokens,).
        offsets: int64, shape (number of sequences + 1,).
        sequence_labels: integers, shape (number of sequences,); -100 for none. In sentence pairs 0 says that the
            second sentence belongs to the first, 1 that it is another's (as transformers' BERT has it).
        labels: integers, shape (number of tokens,); -100 for none, such as on the prompt of an instruction. As in
            transformers they are not shifted: a causal model shifts them itself. None if the data has no labels.
        sample_ids: the id of each sequence; integers from 0 up, shape (number of sequences,); by default 0, 1, 2, …

    `store[i]` is a mapping of sequence i's fields, so that a store is an ordinary map-style data set too.

    Raises:
        TypeError, ValueError: with the first array that is wrong, in one sentence.
    """

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    offsets: np.ndarray
    sequence_labels: np.ndarray
    labels: np.ndarray | None = None
    sample_ids: np.ndarray = _COUNTED
    _nouns = "sequence", "sequences"

    def __post_init__(self) -> None:
        for name in (*_ARRAYS, *_OPTIONAL):
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                object.__setattr__(self, name, as_integers(value, name.removesuffix("s")))
        object.__setattr__(self, "offsets", self.offsets.astype(np.int64, copy=False))
        num_sequences = len(self.offsets) - 1
        if self.sample_ids is _COUNTED:
            object.__setattr__(self, "sample_ids", np.arange(num_sequences))
        else:
            _refuse_same_ids(self.sample_ids)
        self._refuse_other_sizes(num_sequences)
        self._refuse_other_values()

    def _refuse_other_sizes(self, num_sequences: int) -> None:
        """Raise a ValueError unless the arrays have their shapes, and each sequence has a token."""
        num_tokens = len(self.input_ids)
        if num_sequences < 0 or self.offsets[0] != 0 or self.offsets[-1] != num_tokens:
            raise ValueError(f"The offsets do not cut {num_tokens} tokens into sequences.")
        for names, number, noun in ((_BY_TOKEN, num_tokens, "tokens"), (_BY_SEQUENCE, num_sequences, "sequences")):
            for name in names:
                if (values := getattr(self, name)) is not None and len(values) != number:
                    raise ValueError(f"There are {len(values)} {name} for {number} {noun}.")
        without_tokens = np.flatnonzero(self.offsets[1:] <= self.offsets[:-1])  # differences could overflow
        if without_tokens.size:
            raise ValueError(f"Sequence {without_tokens[0]} has no token.")

    def _refuse_other_values(self) -> None:
        """Raise a ValueError unless tokens and ids are from 0 up, and labels from 0 up or -100."""
        for name in ("input_ids", "token_type_ids", "sample_ids"):
            if len(values := getattr(self, name)):
                whole_number(name, values.min(), 0, INT64_MAX)
                whole_number(name, values.max(), 0, INT64_MAX)
        for name in ("sequence_labels", "labels"):
            if (values := getattr(self, name)) is not None:
                _refuse_labels(name, values)

    def with_tokens(self, input_ids: np.ndarray, labels: np.ndarray) -> "TokenStore":
        """Return the store with other tokens and labels, each of shape (number of tokens,); they are not checked."""
        return self._of(**vars(self) | {"input_ids": input_ids, "labels": labels})

    @classmethod
    def from_samples(
        cls, samples: Iterable[Mapping[str, Any]], sample_ids: Sequence[int] | np.ndarray | None = None
    ) -> "TokenStore":
        """Make a store of samples, which are mappings with columns named as in transformers.

        Args:
            samples: each with `input_ids`. A sample may also have `token_type_ids`; `labels`, one a token; and one
                number for the whole sequence as `label`, `labels`, `next_sentence_label` or `sentence_order_label`. An
                `attention_mask` of ones is ignored.
            sample_ids: the id of each sequence, which errors name; by default 0, 1, 2, …

        Raises:
            TypeError, ValueError: naming a column that no batch can carry, or the first sample that is wrong.
        """
        no_frame("samples", samples)
        if not isinstance(samples, Iterable):
            raise TypeError(f"samples must be a list of mappings, not {shown(samples)}.")
        samples = list(samples)
        ids = range(len(samples)) if sample_ids is None else as_integers(sample_ids, "sample_id").tolist()
        if len(ids) != len(samples):
            raise ValueError(f"There are {len(ids)} sample_ids for {len(samples)} samples.")
        fields_of = [_fields_of(sample, f"sample {sample_id}") for sample_id, sample in zip(ids, samples, strict=True)]
        num_labeled = sum("labels" in fields for fields in fields_of)
        if 0 < num_labeled < len(samples):
            raise ValueError(
                f"{num_labeled} of {len(samples)} samples have labels for their tokens; all must, or none."
            )

        def joined(column: str) -> np.ndarray:
            """Join a column of all samples; shape (number of tokens,)."""
            return np.concatenate([fields[column] for fields in fields_of] or [np.empty(0, np.uint8)])

        return cls(
            joined("input_ids"),
            joined("token_type_ids"),
            offsets=np.cumsum([0, *(len(fields["input_ids"]) for fields in fields_of)]),
            sequence_labels=np.array([fields["sequence_labels"] for fields in fields_of], np.int64),
            labels=joined("labels") if num_labeled else None,
            sample_ids=_COUNTED if sample_ids is None else np.asarray(sample_ids),
        )

    @classmethod
    def concatenate(cls, stores: Sequence["TokenStore"]) -> "TokenStore":
        """Join stores into one: all sequences in their order, each with its sample id.

        Raises:
            ValueError: if two sequences have the same sample id, or some stores have labels and others none.
        """
        if len(stores) == 1:
            return stores[0]
        has_labels = [store.labels is not None for store in stores]
        if any(has_labels) and not all(has_labels):
            raise ValueError(
                f"Store {has_labels.index(False)} has no labels, and store {has_labels.index(True)} has some."
            )
        _refuse_same_ids(np.concatenate([store.sample_ids for store in stores]))
        names = [name for name in (*_BY_TOKEN, *_BY_SEQUENCE) if name != "labels" or any(has_labels)]
        joined = {name: np.concatenate([getattr(store, name) for store in stores]) for name in names}
        lengths = np.concatenate([store.lengths for store in stores])
        return cls._of(**{"labels": None, **joined}, offsets=np.concatenate([[0], np.cumsum(lengths)]))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence; int64, shape (number of sequences,)."""
        return np.diff(self.offsets)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**self._tokens(self._row(index)), "label": int(self.sequence_labels[index])}

    def _tokens(self, places: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Return by name the values of some tokens, in all arrays that have a value for each token."""
        return {name: values[places] for name in _BY_TOKEN if (values := getattr(self, name)) is not None}

    def take(self, indices: Iterable[int]) -> "TokenStore":
        """Return a store of the sequences at `indices`, in this order, each with its sample id."""
        indices = as_integers(indices, "Sequence number").astype(np.int64, copy=False)
        if indices.size and not (0 <= indices.min() and indices.max() < len(self)):
            raise IndexError(
                f"There are {len(self)} sequences; the indices go from {indices.min()} to {indices.max()}."
            )
        lengths = self.lengths[indices]
        fields = self._tokens(ranges(self.offsets[indices], lengths))
        fields |= {name: getattr(self, name)[indices] for name in _BY_SEQUENCE}
        return self._of(**{"labels": None, **fields}, offsets=np.concatenate([[0], np.cumsum(lengths)]))

    def __repr__(self) -> str:
        longest = int(self.lengths.max()) if len(self) else 0
        return f"TokenStore({len(self):,} sequences, {len(self.input_ids):,} tokens, longest {longest})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the store to one file, which is whole or not there."""
        arrays = {name: getattr(self, name) for name in (*_ARRAYS, *_OPTIONAL)}
        save_arrays(path, "TokenStore", {name: array for name, array in arrays.items() if array is not None})

    @classmethod
    def load(cls, path: str | os.PathLike[str], verify: bool = True) -> "TokenStore":
        """Map a file that `save` wrote: each part of the arrays is read from disk when it is used.

        Args:
            path: the file.
            verify: compare the checksum, which reads the whole file once (about a second a gigabyte).

        Raises:
            FileNotFoundError, ValueError: if there is no such file, or it is no whole token store.
        """
        with naming(path, "whole token store") as file:
            return cls(**map_arrays(file, "TokenStore", _ARRAYS, _OPTIONAL, verify=verify))


def _refuse_same_ids(ids: np.ndarray) -> None:
    """Raise a ValueError if sample ids are equal: an id decides which tokens are masked, and names a prediction."""
    if len(np.unique(ids)) < len(ids):
        raise ValueError(
            "sample_ids must be different for each sequence; some are the same. Other ones can be set with "
            "dataclasses.replace(store, sample_ids=…)."
        )


def _refuse_labels(name: str, values: np.ndarray) -> None:
    """Raise a ValueError if a label is below 0 and not -100."""
    is_wrong = (values < 0) & (values != IGNORED)
    if is_wrong.any():
        at = int(is_wrong.argmax())
        raise ValueError(f"{name} must be from 0 up, or -100 for none, not {values[at]} (at position {at}).")


# One number for a whole sequence, by its names in transformers' data sets and models
_SEQUENCE_LABELS = ("label", "next_sentence_label", "sentence_order_label")


def _fields_of(sample: Mapping, name: str) -> dict[str, Any]:
    """Return the columns of one sample, checked.

    Args:
        sample: with the columns that `TokenStore.from_samples` takes.
        name: what an error calls the sample.

    Returns:
        By name: `input_ids` and `token_type_ids` as arrays; `labels`, too, if each token has one; and
        `sequence_labels`, the number for the whole sequence.
    """
    label_columns = _checked_label_columns(sample, name)
    fields = {column: _checked_column(sample, column, name) for column in sample if column not in label_columns}
    if (fields.pop("attention_mask", np.ones(1)) != 1).any():
        raise ValueError(f"attention_mask of {name} hides tokens: give sequences without padding.")
    if "labels" in fields:
        _refuse_labels(f"labels of {name}", fields["labels"])
    fields.setdefault("token_type_ids", np.zeros(len(fields["input_ids"]), np.uint8))
    label = IGNORED
    for column in label_columns:
        label = whole_number(f"{column} of {name}", sample[column], IGNORED, INT64_MAX)
    return {**fields, "sequence_labels": label}


def _checked_label_columns(sample: Any, name: str) -> list[str]:
    """Return the names of the columns that hold a label for the whole sequence, none or one of them.

    Raises:
        TypeError, ValueError: if it is no sample, or has two such columns.
    """
    if not isinstance(sample, Mapping) or "input_ids" not in sample:
        raise TypeError(f"{name} must be a mapping with input_ids, not {shown(sample)}.")
    label_columns = [
        column
        for column in sample
        if column in _SEQUENCE_LABELS or (column == "labels" and np.ndim(sample[column]) == 0)
    ]
    if len(label_columns) > 1:
        raise ValueError(f"{name} has {' and '.join(label_columns)}: a sequence has one label.")
    return label_columns


def _checked_column(sample: Mapping, column: str, name: str) -> np.ndarray:
    """Return a column of a sample that has one whole number for each token."""
    if column not in ("input_ids", "token_type_ids", "labels", "attention_mask"):
        raise ValueError(
            f"{name} has the column {shown(column)}, which no batch can carry: remove it from the data set "
            f"(carried are input_ids, token_type_ids, labels, {', '.join(_SEQUENCE_LABELS)})."
        )
    column_values = sample[column]
    try:
        values = np.asarray(column_values)
    except ValueError:  # lists of different lengths
        values = np.empty((0, 0))
    kinds = "iub" if column == "attention_mask" else "iu"
    if values.ndim != 1 or (len(values) and values.dtype.kind not in kinds):
        raise TypeError(
            f"{column} of {name} must be whole numbers of 64 bits, one a token, not {shown(column_values)}."
        )
    if not len(values):
        raise ValueError(f"{name} has no token.")
    num_tokens = len(sample["input_ids"])
    if len(values) != num_tokens:
        raise ValueError(f"{name} has {len(values)} {column} for {num_tokens} input_ids.")
    return values


def tokenize(
    tokenizer: Any,
    texts: Sequence[str] | np.ndarray,
    pairs: Sequence[str] | np.ndarray | None = None,
    sequence_labels: Sequence[int] | np.ndarray | None = None,
    max_length: int | None = None,
    overlong: Literal["error", "truncate"] = "error",
    progress: bool | None = None,
) -> TokenStore:
    """Tokenize `texts` with a transformers tokenizer, as `[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]`.

    >>> from packlib.batches import tokenize, wordnet_tokenizer
    >>> tokenize(wordnet_tokenizer(), ["a small dog", "an animal"], max_length=8)
    TokenStore(2 sequences, 9 tokens, longest 5)

    Args:
        tokenizer: a tokenizer of transformers.
        texts: the texts, or the first sentences of pairs.
        pairs: the second sentences; "" or None for a text without one.
        sequence_labels: one for each text; by default -100, which is none.
        max_length: most tokens of a sequence, with [CLS] and [SEP].
        overlong: what to do with a longer sequence: "error", or "truncate" it, the longer sentence first. No other word
            of `packlib.lengths.overlong` is taken: every text keeps its row, and its [CLS] and [SEP].
        progress: True for a bar, False for none; by default, a terminal gets one after two seconds.

    Raises:
        TypeError: naming an argument that is no tokenizer, or the entry that is no text.
        ValueError: if there is no text, the columns differ in length, or a text is too long (it is named).
    """
    if not callable(getattr(tokenizer, "get_vocab", None)):
        raise TypeError(f"tokenizer must be a tokenizer of transformers, not {shown(tokenizer)}.")
    one_of("overlong", overlong, ("error", "truncate"))
    if max_length is not None:
        whole_number("max_length", max_length, 1)
    for name, argument in (("texts", texts), ("pairs", pairs)):
        if isinstance(argument, (str, bytes, Mapping)):
            raise TypeError(f"{name} must be a list of texts, not {shown(argument)}.")
    if not sized("texts", texts):
        raise ValueError("There are no texts; at least one is needed.")
    for name, column in (("pairs", pairs), ("sequence_labels", sequence_labels)):
        if column is not None and sized(name, column) != len(texts):
            raise ValueError(f"There are {len(column)} {name} for {len(texts)} texts.")
    # if texts are not truncated, those that are too long are named below, and the tokenizer need not warn of them
    options = {"truncation": True, "max_length": max_length} if overlong == "truncate" else {"verbose": False}
    largest_id = max(tokenizer.get_vocab().values())  # may be larger than the number of tokens
    id_dtype = np.uint16 if largest_id < 1 << 16 else np.int32
    ids_of_blocks = []
    types_of_blocks = []
    lengths = list[int]()
    block_starts = range(0, len(texts), _BLOCK)
    for start in progress_bar(block_starts, progress=wanted(progress), desc="tokenize", unit="block"):
        texts_and_pairs: list = _texts("texts", list(texts[start : start + _BLOCK]), start)
        if pairs is not None:
            seconds = _texts("pairs", [pair or "" for pair in pairs[start : start + _BLOCK]], start)
            texts_and_pairs = [
                (text, second) if second else text for text, second in zip(texts_and_pairs, seconds, strict=True)
            ]
        tokenized = tokenizer(texts_and_pairs, return_attention_mask=False, return_token_type_ids=True, **options)
        lengths += map(len, tokenized["input_ids"])
        ids_of_blocks.append(np.array(list(chain.from_iterable(tokenized["input_ids"])), id_dtype))
        types_of_blocks.append(np.array(list(chain.from_iterable(tokenized["token_type_ids"])), np.uint8))
        longest = start + int(np.argmax(lengths[start:]))
        if max_length is not None and lengths[longest] > max_length:
            way_out = 'pass overlong="truncate", or a larger max_length'
            raise ValueError(f"Text {longest} has {lengths[longest]} tokens; the maximum is {max_length}: {way_out}.")
    return TokenStore(
        input_ids=np.concatenate(ids_of_blocks),
        token_type_ids=np.concatenate(types_of_blocks),
        offsets=np.cumsum([0, *lengths]),
        sequence_labels=np.full(len(texts), IGNORED) if sequence_labels is None else np.asarray(sequence_labels),
    )


def _texts(name: str, texts: list, start: int) -> list[str]:
    """Return these texts, or raise a TypeError that names the entry which is no text.

    Args:
        name: of the argument that they are a part of.
        texts: the entries of this part.
        start: the number of the first of them in the argument.
    """
    for entry, value in enumerate(texts, start):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be texts: entry {entry} is {shown(value)}.")
    return texts


def wordnet_tokenizer() -> Any:
    """Load the workbook's WordPiece tokenizer, a transformers `BertTokenizerFast` with 4,000 tokens.

    >>> from packlib.batches import wordnet_tokenizer
    >>> wordnet_tokenizer()("a small dog")["input_ids"]
    [2, 43, 325, 1729, 3]
    """
    from transformers import BertTokenizerFast

    return BertTokenizerFast.from_pretrained(tokenizer_path())
