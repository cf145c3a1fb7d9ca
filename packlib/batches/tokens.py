"""Tokenize once: every sequence's tokens in flat arrays, memory-mapped from one file."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from packlib.batches.batch import IGNORED
from packlib.checks import one_of
from packlib.files import map_arrays, save_arrays

_ARRAYS = ("input_ids", "token_type_ids", "offsets", "labels")
_BLOCK = 4096  # texts that are tokenized at once


@dataclass(frozen=True, eq=False)
class TokenStore:
    """Sequences one after the other: sequence `i` is `input_ids[offsets[i]:offsets[i + 1]]`.

    Attributes:
        input_ids, token_type_ids: integers, shape (number of tokens,).
        offsets: int64, shape (number of sequences + 1,).
        labels: integers, shape (number of sequences,); -100 for none. In sentence pairs 0 says that the
            second sentence belongs to the first, 1 that it is another's (as transformers' BERT has it).
        sample_ids: integers, shape (number of sequences,): what each sequence is called; by default 0, 1, 2,
            …

    `store[i]` is a mapping of sequence i's fields, so that a store is an ordinary map-style data set too.
    """

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    sample_ids: np.ndarray | None = None

    def __post_init__(self):
        count = len(self.offsets) - 1
        if self.sample_ids is None:
            object.__setattr__(self, "sample_ids", np.arange(count))
        if count < 0 or self.offsets[0] != 0 or self.offsets[-1] != len(self.input_ids):
            raise ValueError(f"The offsets do not cut {len(self.input_ids)} tokens into sequences.")
        if len(self.token_type_ids) != len(self.input_ids):
            raise ValueError(
                f"There are {len(self.token_type_ids)} token types for {len(self.input_ids)} tokens."
            )
        for name in ("labels", "sample_ids"):
            if len(getattr(self, name)) != count:
                raise ValueError(f"There are {len(getattr(self, name))} {name} for {count} sequences.")
        if count and self.lengths.min() < 1:
            raise ValueError(f"Sequence {int(self.lengths.argmin())} has no token.")

    @classmethod
    def from_samples(
        cls, samples: Iterable[Mapping], sample_ids: Sequence[int] | None = None
    ) -> "TokenStore":
        """Join mappings with `input_ids` and, where there are some, `token_type_ids` and `label`."""
        samples, none = list(samples), np.empty(0, np.uint8)
        tokens = [np.asarray(sample["input_ids"]) for sample in samples]
        types = [
            np.asarray(sample.get("token_type_ids", np.zeros(len(sample["input_ids"]))), np.uint8)
            for sample in samples
        ]
        return cls(
            np.concatenate([*tokens, none]),
            np.concatenate([*types, none]),
            offsets=np.cumsum([0, *map(len, tokens)]),
            labels=np.array([sample.get("label", IGNORED) for sample in samples], np.int64),
            sample_ids=None if sample_ids is None else np.asarray(sample_ids),
        )

    @classmethod
    def concatenate(cls, stores: Sequence["TokenStore"]) -> "TokenStore":
        """One store of all sequences of `stores`, in their order."""
        if len(stores) == 1:
            return stores[0]
        names = ("input_ids", "token_type_ids", "labels", "sample_ids")
        joined = {name: np.concatenate([getattr(store, name) for store in stores]) for name in names}
        lengths = np.concatenate([store.lengths for store in stores])
        return cls(**joined, offsets=np.concatenate([[0], np.cumsum(lengths)]))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence; int64, shape (number of sequences,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> dict:
        if not -len(self) <= index < len(self):
            raise IndexError(f"There are {len(self)} sequences, so there is no sequence {index}.")
        index %= len(self)
        span = slice(self.offsets[index], self.offsets[index + 1])
        return {
            "input_ids": self.input_ids[span],
            "token_type_ids": self.token_type_ids[span],
            "label": int(self.labels[index]),
        }

    def take(self, indices: Sequence[int]) -> "TokenStore":
        """The sequences at `indices`, in that order, under their sample ids."""
        indices = np.asarray(indices, np.int64)
        if indices.size and not (0 <= indices.min() and indices.max() < len(self)):
            raise IndexError(
                f"There are {len(self)} sequences; the indices go from {indices.min()} to {indices.max()}."
            )
        lengths = self.lengths[indices]
        ends = np.cumsum(lengths)
        tokens = np.arange(lengths.sum()) + np.repeat(self.offsets[indices] - ends + lengths, lengths)
        return TokenStore(
            self.input_ids[tokens],
            self.token_type_ids[tokens],
            offsets=np.concatenate([[0], ends]),
            labels=self.labels[indices],
            sample_ids=self.sample_ids[indices],
        )

    def __repr__(self) -> str:
        longest = int(self.lengths.max()) if len(self) else 0
        return f"TokenStore({len(self):,} sequences, {len(self.input_ids):,} tokens, longest {longest})"

    def save(self, path: str | os.PathLike) -> None:
        """Write the store to one file, which is whole or not there."""
        save_arrays(path, *(getattr(self, name) for name in _ARRAYS))

    @classmethod
    def load(cls, path: str | os.PathLike, verify: bool = True) -> "TokenStore":
        """Map a file that `save` wrote: tokens are read from disk where they are used.

        Args:
            verify: compare the checksum, which reads the whole file once (about a second a gigabyte).

        Raises:
            FileNotFoundError, ValueError: if there is no such file, or it is no whole token store.
        """
        try:
            return cls(**dict(zip(_ARRAYS, map_arrays(path, len(_ARRAYS), verify), strict=True)))
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} is no whole token store: {error}.") from None


def tokenize(
    tokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    labels: Sequence[int] | None = None,
    max_length: int | None = None,
    overlong: str = "error",
    progress: bool = False,
) -> TokenStore:
    """Tokenize `texts` with a transformers tokenizer, as `[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]`.

    Args:
        pairs: the second sentences; "" for none.
        labels: one for each text; by default -100, none.
        max_length, overlong: a longer sequence is an "error", or "truncate"d, the longer sentence first.
        progress: show a progress bar.

    Raises:
        ValueError: if there is no text, the columns differ in length, or a text is too long (it is named).
    """
    one_of("way to treat overlong sequences", overlong, ("error", "truncate"))
    if not len(texts):
        raise ValueError("There are no texts; at least one is needed.")
    for name, column in (("pairs", pairs), ("labels", labels)):
        if column is not None and len(column) != len(texts):
            raise ValueError(f"There are {len(column)} {name} for {len(texts)} texts.")
    options = {"truncation": overlong == "truncate", "max_length": max_length}
    if overlong == "error":
        options |= {"max_length": None, "verbose": False}  # longer ones are named below
    starts = range(0, len(texts), _BLOCK)
    if progress:
        from tqdm.auto import tqdm

        starts = tqdm(starts, desc="tokenize", unit="block")
    small = np.uint16 if len(tokenizer) <= 1 << 16 else np.int32
    ids, types, lengths = [], [], []
    for start in starts:
        rows = list(texts[start : start + _BLOCK])
        if pairs is not None:
            rows = [(a, b) if b else a for a, b in zip(rows, pairs[start : start + _BLOCK], strict=True)]
        out = tokenizer(rows, return_attention_mask=False, return_token_type_ids=True, **options)
        lengths += map(len, out["input_ids"])
        ids.append(np.array([token for row in out["input_ids"] for token in row], small))
        types.append(np.array([kind for row in out["token_type_ids"] for kind in row], np.uint8))
        at = start + int(np.argmax(lengths[start:]))
        if max_length is not None and lengths[at] > max_length:
            way_out = 'pass overlong="truncate", or a larger max_length'
            raise ValueError(f"Text {at} has {lengths[at]} tokens; the maximum is {max_length}: {way_out}.")
    labels = np.full(len(texts), IGNORED) if labels is None else labels
    return TokenStore(
        np.concatenate(ids), np.concatenate(types), np.cumsum([0, *lengths]), np.asarray(labels, np.int64)
    )
