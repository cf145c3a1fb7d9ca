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

    It is a counter-based generator: each draw is computed without the draws before it, so that all tokens are drawn at
    once. Arrays of states and steps are broadcast.
    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, figure 16.
    """
    z = np.asarray(state, np.uint64) + _GOLDEN * np.atleast_1d(np.asarray(step, np.uint64))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class MlmMasking:
    """BERT's masking: of each sequence's ordinary tokens 15 % are predicted (rounded, at least one).

    Of those, 80 % become [MASK], 10 % a random token, 10 % stay (Devlin et al. 2018, section 3.1). The choice depends
    on (seed, epoch, sample id) alone: in any pack, batch, worker or rank a sample is masked the same way.

    >>> from packlib.batches import MlmMasking, TokenStore, wordnet_tokenizer
    >>> store = TokenStore.from_samples([{"input_ids": [2, 10, 11, 12, 3]}])
    >>> masked = MlmMasking.for_tokenizer(wordnet_tokenizer(), seed=1)(store, epochs=0)
    >>> masked.labels.tolist()
    [-100, -100, 11, -100, -100]

    Attributes:
        seed: a whole number from 0 up.
        mask_id: the token [MASK].
        vocab_size: tokens are below this.
        special_ids: the tokens that are neither predicted nor put in place of others: [PAD], [CLS], [SEP], [MASK], …
        probability: the share of the ordinary tokens to predict.
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
        """The tokens that are not special, ascending."""
        return np.setdiff1d(np.arange(self.vocab_size), self.special_ids)

    @cached_property
    def _is_special(self) -> np.ndarray:
        """Return for each token of the vocabulary whether it is special; shape (vocab_size,)."""
        return np.isin(np.arange(self.vocab_size), self.special_ids)

    def __call__(self, sequences: TokenStore, epochs: int | Iterable[int] = 0) -> TokenStore:
        """Mask sequences.

        Args:
            sequences: without labels.
            epochs: the epoch of all sequences, or one for each.

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
        # a generator for each sequence; its draws 3 p + 1, 3 p + 2 and 3 p + 3 are for the token at place p
        states = splitmix64(splitmix64(self.seed, 1) ^ np.asarray(epochs, np.uint64), 1)
        states = splitmix64(states ^ sequences.sample_ids.astype(np.uint64), 1)
        states = np.broadcast_to(states, len(sequences))

        ids = sequences.input_ids.astype(np.int64)
        tokens, sequence_of, places = self._chosen(sequences, ids, states)
        labels = np.full(len(ids), IGNORED, np.int64)
        labels[tokens] = ids[tokens]

        outcome = splitmix64(states[sequence_of], 3 * places + np.uint64(2)) >> np.uint64(11)  # 53 bits
        becomes_mask = outcome < 0.8 * 2**53
        becomes_random = (outcome >= 0.8 * 2**53) & (outcome < 0.9 * 2**53)
        ids[tokens[becomes_mask]] = self.mask_id
        draws = splitmix64(states[sequence_of[becomes_random]], 3 * places[becomes_random] + np.uint64(3))
        draws >>= np.uint64(32)  # 32 bits: times the number of ordinary tokens, over 2^32, is the place of one of them
        random_ids = self._ordinary_ids[(draws * np.uint64(self._ordinary_ids.size)) >> np.uint64(32)]
        ids[tokens[becomes_random]] = random_ids
        return sequences.with_tokens(ids, labels)

    def _chosen(
        self, sequences: TokenStore, ids: np.ndarray, states: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose the tokens to predict: in each sequence, the ordinary tokens with the smallest draws.

        Args:
            sequences: the sequences.
            ids: their tokens; int64, shape (number of tokens,).
            states: the state of each sequence's generator; uint64, shape (number of sequences,).

        Returns:
            Three arrays with an entry for each token to predict: its number among all tokens, the number of its
            sequence, and its place in this sequence (uint64).
        """
        lengths = sequences.lengths
        tokens = np.flatnonzero(~self._is_special[ids])  # the ordinary ones
        sequence_of = np.repeat(np.arange(len(lengths)), lengths)[tokens]
        places = (tokens - sequences.offsets[sequence_of]).astype(np.uint64)
        draws = splitmix64(states[sequence_of], 3 * places + np.uint64(1))
        num_ordinary = np.bincount(sequence_of, minlength=len(lengths))  # of each sequence
        num_chosen = np.rint(self.probability * num_ordinary).clip(1, None)
        num_chosen = np.minimum(num_chosen, num_ordinary).astype(np.int64)
        by_draw = np.lexsort((draws, sequence_of))  # sequence by sequence, in each the smallest draw first
        first_of_sequence = np.cumsum(num_ordinary) - num_ordinary
        rank_in_sequence = np.arange(len(tokens)) - np.repeat(first_of_sequence, num_ordinary)
        chosen = by_draw[rank_in_sequence < np.repeat(num_chosen, num_ordinary)]
        return tokens[chosen], sequence_of[chosen], places[chosen]
