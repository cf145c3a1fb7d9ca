"""Masked-language-model labels that depend on nothing but the seed, the epoch and the sample."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from packlib.arguments import instance, number, whole_number
from packlib.batches.batch import IGNORED
from packlib.batches.tokens import TokenStore
from packlib.lengths.counting import as_integers

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, made odd


def splitmix64(state: np.ndarray | int, step: np.ndarray | int) -> np.ndarray:
    """Return the `step`-th draw (from 1) of SplitMix64 started at `state`; uint64, uniform over all 64-bit numbers.

    A counter-based generator: any draw comes directly, in any order, so that all tokens are drawn at once.
    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, figure 16.
    """
    z = np.asarray(state, np.uint64) + _GOLDEN * np.atleast_1d(np.asarray(step, np.uint64))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class MlmMasking:
    """BERT's masking: of each sequence's ordinary tokens 15 % are predicted (rounded, at least one).

    Of those, 80 % become [MASK], 10 % a random token, 10 % stay (Devlin et al. 2018, section 3.1). The draw
    depends on (seed, epoch, sample id) alone: in any pack, batch, worker or rank a sample is masked the same
    way.

    >>> from packlib.batches import MlmMasking, TokenStore, wordnet_tokenizer
    >>> store = TokenStore.from_samples([{"input_ids": [2, 10, 11, 12, 3]}])
    >>> masked = MlmMasking.for_tokenizer(wordnet_tokenizer(), seed=1)(store, epochs=0)
    >>> masked.labels.tolist()
    [-100, -100, 11, -100, -100]

    Attributes:
        seed: a whole number from 0 up.
        mask_id: the token [MASK].
        vocab_size: tokens are below this.
        special_ids: the tokens that are never predicted nor drawn: [PAD], [CLS], [SEP], [MASK], …
        probability: the share to predict.
    """

    seed: int
    mask_id: int
    vocab_size: int
    special_ids: tuple[int, ...]
    probability: float = 0.15

    def __post_init__(self) -> None:
        whole_number("seed", self.seed, 0, 2**64 - 1)
        whole_number("mask_id", self.mask_id, 0, whole_number("vocab_size", self.vocab_size, 1) - 1)
        number("probability", self.probability, above=0, at_most=1)
        special_ids = as_integers(self.special_ids, "special_id").tolist()
        for special_id in special_ids:
            whole_number("special_ids", special_id, 0)
        object.__setattr__(self, "special_ids", tuple(special_ids))
        if self._ordinary_ids.size == 0:
            raise ValueError(f"All {self.vocab_size} tokens are special; none is left to draw.")

    @classmethod
    def for_tokenizer(cls, tokenizer: Any, seed: int = 0, probability: float = 0.15) -> "MlmMasking":
        """Make the masking for a transformers tokenizer."""
        special = tuple(sorted(tokenizer.all_special_ids))
        return cls(seed, tokenizer.mask_token_id, len(tokenizer), special, probability)

    @cached_property
    def _ordinary_ids(self) -> np.ndarray:
        return np.setdiff1d(np.arange(self.vocab_size), self.special_ids)

    @cached_property
    def _is_special(self) -> np.ndarray:
        return np.isin(np.arange(self.vocab_size), self.special_ids)

    def __call__(self, sequences: TokenStore, epochs: int | Iterable[int] = 0) -> TokenStore:
        """Mask `sequences`; `epochs` is one number, or one for each sequence.

        Returns:
            The masked sequences, with `labels`: int64, the token to predict or -100.

        Raises:
            TypeError, ValueError: if an epoch is no whole number from 0 up, or the sequences have labels already.
        """
        if instance("sequences", sequences, TokenStore).labels is not None:
            raise ValueError("The sequences have labels already, which masking would replace: masking must be None.")
        if isinstance(epochs, Iterable):
            epochs = as_integers(epochs, "Epoch")
            if len(epochs) != len(sequences):
                raise ValueError(f"There are {len(epochs)} epochs for {len(sequences)} sequences.")
            whole_number("epochs", epochs.min(initial=0), 0)
        else:
            epochs = whole_number("epochs", epochs, 0, 2**64 - 1)
        state = splitmix64(splitmix64(self.seed, 1) ^ np.asarray(epochs, np.uint64), 1)
        state = splitmix64(state ^ sequences.sample_ids.astype(np.uint64), 1)
        state = np.broadcast_to(state, len(sequences))

        ids = sequences.input_ids.astype(np.int64)
        token, sequence, place = self._chosen(sequences, ids, state)
        labels = np.full(len(ids), IGNORED, np.int64)
        labels[token] = ids[token]

        outcome = splitmix64(state[sequence], 3 * place + np.uint64(2)) >> np.uint64(11)  # 53 bits
        ids[token[outcome < 0.8 * 2**53]] = self.mask_id
        is_random = (outcome >= 0.8 * 2**53) & (outcome < 0.9 * 2**53)
        draw = splitmix64(state[sequence[is_random]], 3 * place[is_random] + np.uint64(3)) >> np.uint64(32)
        ids[token[is_random]] = self._ordinary_ids[(draw * np.uint64(self._ordinary_ids.size)) >> np.uint64(32)]
        return sequences.with_tokens(ids, labels)

    def _chosen(
        self, sequences: TokenStore, ids: np.ndarray, state: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose the tokens to predict: in each sequence, the ordinary tokens with the least draws.

        Returns:
            The tokens among all, the sequence of each, and its place in that sequence (uint64).
        """
        lengths = sequences.lengths
        token = np.flatnonzero(~self._is_special[ids])
        sequence = np.repeat(np.arange(len(lengths)), lengths)[token]
        place = (token - sequences.offsets[sequence]).astype(np.uint64)
        draws = splitmix64(state[sequence], 3 * place + np.uint64(1))
        candidates = np.bincount(sequence, minlength=len(lengths))
        num_chosen = np.rint(self.probability * candidates).clip(1, None)
        num_chosen = np.minimum(num_chosen, candidates).astype(np.int64)
        by_draw = np.lexsort((draws, sequence))
        first_of_sequence = np.cumsum(candidates) - candidates
        rank = np.arange(len(token)) - np.repeat(first_of_sequence, candidates)
        chosen = by_draw[rank < np.repeat(num_chosen, candidates)]
        return token[chosen], sequence[chosen], place[chosen]
