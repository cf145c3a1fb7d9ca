"""Proofs of a lower bound on the number of packs: three kinds, each checked from the lengths alone.

`n[l]` sequences have length `l`. A pack holds at most `L` tokens, and at most `d` sequences if there is a depth limit.

**Sums.** Leave out the sequences shorter than some length `s`; the remaining ones need at most as many packs as all
sequences. Of the remaining ones, a sequence of more than `L - s` tokens is alone in its pack, for every other has at
least `s` tokens: such sequences need a pack each. The others share packs of `L` tokens, or of `d` sequences. So the
packs are at least as many as the sequences that are alone, plus the tokens of the others divided by `L` (or the number
of the others divided by `d`), rounded up. With `s = 1` this is the sum of all tokens, or of all sequences; with `s`
over half a pack it counts the sequences of `s` tokens or more, of which no two share a pack.

**Prices.** Each length has a price, such that the prices in a pack that is allowed add up to at most some `p`. The
prices of all sequences then add up to at most `p` times the packs, whatever the packing (`search/bound.py`). Sums can
be written as prices, too: `Sums.prices` gives every length one.

**Prices and a list.** If a packing had only as many packs as the prices prove, the prices in each pack would add up to
almost `p`. If no choice among a list of all such packs is a packing, one pack more is needed (`search/whole_packs.py`).

The first two are arithmetic with integers. So is the third, except for its last step: that no choice is left is what
HiGHS says, in floating point.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from packlib.arguments import one_of, shown, whole_number
from packlib.files import has_exactly
from packlib.lengths.counting import MAX_LENGTH, as_int64, exact_dot
from packlib.packing.search.bound import PRICE_OF_A_PACK, certified_bound
from packlib.packing.search.knapsack import common_divisor
from packlib.packing.search.sums import best_sums
from packlib.packing.search.whole_packs import ruled_out

SharedBy = Literal["tokens", "sequences"]


@dataclass(frozen=True)
class Sums:
    """A proof by sums of tokens or of sequences, see the top of this file.

    Attributes:
        shared_by: what fills the packs of the sequences that are not alone: "tokens", or "sequences" up to the depth
            limit.
        shortest: the length `s` above, in tokens; shorter sequences are left out.
    """

    kind: ClassVar[str] = "sums"
    shared_by: SharedBy
    shortest: int = 1

    def __post_init__(self) -> None:
        one_of("shared_by", self.shared_by, ("tokens", "sequences"))
        object.__setattr__(self, "shortest", whole_number("shortest", self.shortest, 1, MAX_LENGTH))

    @classmethod
    def strongest(cls, counts: np.ndarray, max_sequences_per_pack: int | None) -> "Sums":
        """Return the sums that prove the most packs; arguments as of `bound`."""
        _, shared_by, shortest = best_sums(counts, max_sequences_per_pack)
        return cls(shared_by, shortest)

    def bound(self, counts: np.ndarray, max_sequences_per_pack: int | None) -> int:
        """Compute the number of packs that are proven to be needed.

        Args:
            counts: `counts[l]` sequences have length l; int64, shape (max_length + 1,).
            max_sequences_per_pack: the depth limit, or None.

        Raises:
            ValueError: if every sequence is left out, or packs are shared by sequences without a depth limit.
        """
        lengths, space = np.flatnonzero(counts), _space(counts)
        is_alone, is_sharing = self._alone_and_sharing(lengths, space)
        if not (is_alone | is_sharing).any():
            raise ValueError(
                f"shortest {self.shortest} leaves out every sequence; the longest has {lengths[-1]} tokens."
            )
        taken, capacity = self._taken_and_capacity(lengths, space, max_sequences_per_pack)
        packs_of_alone = sum(counts[lengths[is_alone]].tolist())
        taken_by_sharing = exact_dot(counts[lengths[is_sharing]], taken[is_sharing])
        return packs_of_alone + -(-taken_by_sharing // capacity)  # minus a floor rounds up

    def prices(self, counts: np.ndarray, max_sequences_per_pack: int | None) -> np.ndarray:
        """Return the prices that prove the same; int64, shape (max_length + 1,), see `Prices`. Arguments as of `bound`.

        A sequence that is alone in its pack costs a whole pack. Each other sequence costs the share of a pack that it
        takes. Sequences that are left out cost nothing.
        """
        lengths, space = np.arange(len(counts)), _space(counts)
        is_alone, is_sharing = self._alone_and_sharing(lengths, space)
        taken, capacity = self._taken_and_capacity(lengths, space, max_sequences_per_pack)
        unit_price = PRICE_OF_A_PACK // capacity
        return unit_price * np.where(is_alone, capacity, np.where(is_sharing, taken, 0))

    def _alone_and_sharing(self, lengths: np.ndarray, space: int) -> tuple[np.ndarray, np.ndarray]:
        """Return for each length whether its sequences are alone in their packs, and whether they may share packs.

        Neither is true of a length that is left out.

        Args:
            lengths: shape (n,), as both arrays that are returned.
            space: tokens that a pack can hold.
        """
        is_counted = lengths >= self.shortest
        is_alone = is_counted & (lengths > space - self.shortest)
        return is_alone, is_counted & ~is_alone

    def _taken_and_capacity(
        self, lengths: np.ndarray, space: int, max_sequences_per_pack: int | None
    ) -> tuple[np.ndarray, int]:
        """Return what a sequence of each length takes of a pack, and what a pack can hold, both in `shared_by`.

        The first has the shape of `lengths`; with "sequences" it is 1 for each.
        """
        if self.shared_by == "tokens":
            return lengths, space
        if max_sequences_per_pack is None:
            raise ValueError("A proof by the number of sequences needs a depth limit; the plan has none.")
        # no pack holds more sequences than tokens, and a limit need not fit in 64 bits
        return np.ones_like(lengths), min(max_sequences_per_pack, space)

    def as_dict(self) -> dict[str, Any]:
        """Return the proof as JSON holds it."""
        return {"kind": self.kind, "shared_by": self.shared_by, "shortest": self.shortest}

    def __str__(self) -> str:
        by_tokens = self.shared_by == "tokens"
        if self.shortest == 1:
            full = "a sequence as long as a pack counts for a whole one"
            return "the sum of all tokens" if by_tokens else f"the number of sequences at the depth limit ({full})"
        alone = f"sequences that leave no room for one of {self.shortest:,} tokens"
        sharing = "other sequences at least so long"
        return f"{alone}, and {'the tokens of' if by_tokens else 'the number, at the depth limit, of'} {sharing}"


@dataclass(frozen=True, eq=False)
class Prices:
    """A proof by prices of lengths, see the top of this file.

    Attributes:
        of_length: multiples of 2^-38 packs (`PRICE_OF_A_PACK` is a whole one); int64, shape (max_length + 1,).
    """

    kind: ClassVar[str] = "prices"
    of_length: np.ndarray

    def __post_init__(self) -> None:
        prices = as_int64(self.of_length, "Price")
        prices.flags.writeable = False
        object.__setattr__(self, "of_length", prices)

    def bound(self, counts: np.ndarray, max_sequences_per_pack: int | None) -> int:
        """Compute the number of packs that are proven to be needed; arguments and errors as of `certified_bound`."""
        return certified_bound(counts, self.of_length, max_sequences_per_pack)

    def prices(self, counts: np.ndarray, max_sequences_per_pack: int | None) -> np.ndarray:
        """Return `of_length`; the arguments are those of `Sums.prices`, which needs them."""
        return self.of_length

    def as_dict(self) -> dict[str, Any]:
        """Return the proof as JSON holds it."""
        return {"kind": self.kind, "prices": self.of_length.tolist()}

    def __str__(self) -> str:
        return "prices of lengths"


class PricesAndList(Prices):
    """A proof by prices and a list of packs, see the top of this file: it proves one pack more than the prices alone.

    The list is not stored: `bound` makes it from the prices.
    """

    kind: ClassVar[str] = "prices and a list"

    def bound(self, counts: np.ndarray, max_sequences_per_pack: int | None) -> int:
        """Compute the number of packs needed: one more than the prices prove. Arguments as of `Sums.bound`.

        Raises:
            ValueError: if the list is too long, if a choice of its packs may be a packing, or if the prices are not
                allowed.
        """
        bound_of_prices = super().bound(counts, max_sequences_per_pack)
        if not ruled_out(counts, self.of_length, max_sequences_per_pack, bound_of_prices):
            raise ValueError("The plan states that a list of packs proves more than its prices; that cannot be shown.")
        return bound_of_prices + 1

    def __str__(self) -> str:
        return "prices of lengths and a list of packs, which rests on HiGHS in floating point"


Proof = Sums | Prices | PricesAndList


def proof_from_dict(raw: Any) -> Proof:
    """Read a proof that `as_dict` wrote; nothing is rounded or guessed.

    Raises:
        TypeError, ValueError: with the first thing that is wrong.
    """
    if not isinstance(raw, dict):
        raise TypeError(f"A proof must be a JSON object, not {shown(raw)}.")
    kind = one_of("The kind of a proof", raw.get("kind"), (Sums.kind, Prices.kind, PricesAndList.kind))
    if kind == Sums.kind:
        has_exactly(raw, "A proof by sums", {"kind", "shared_by", "shortest"})
        return Sums(raw["shared_by"], raw["shortest"])
    has_exactly(raw, "A proof by prices", {"kind", "prices"})
    return (Prices if kind == Prices.kind else PricesAndList)(raw["prices"])


def check_proof(proof: Any) -> Proof:
    """Return `proof`; raise a TypeError if it is no proof."""
    if isinstance(proof, Sums | Prices):
        return proof
    raise TypeError(f"proof must be Sums, Prices or PricesAndList of packlib.packing.proofs, not {shown(proof)}.")


def _space(counts: np.ndarray) -> int:
    """Return the tokens that a pack can hold: a multiple of the common divisor of the lengths."""
    unit = common_divisor(np.flatnonzero(counts))
    return (len(counts) - 1) // unit * unit
