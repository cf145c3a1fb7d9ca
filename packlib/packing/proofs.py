"""Proofs of a lower bound on the number of packs: three kinds, each checked from the lengths alone.

`n[l]` sequences have length `l`. A pack holds at most `L` tokens, and at most `d` sequences if there is a depth limit.

**Sums.** Leave out the sequences shorter than some length `s`; the remaining ones need at most as many packs as all.
Of these, a sequence of more than `L - s` tokens shares its pack with no other, for each has at least `s` tokens: such
sequences need a pack each. The rest fills packs of `L` tokens, or of `d` sequences. So there are at least as many
packs as sequences of the first sort, plus the tokens of the rest over `L` (or the number of the rest over `d`),
rounded up. With `s = 1` this is the sum of all tokens, or of all sequences; with `s` over half a pack it counts the
sequences too long to share a pack.

**Prices.** Each length has a price such that no pack that is allowed holds sequences worth more than some `p`. All
sequences together are then worth at most `p` times the packs, whatever the packing (`search/bound.py`). Sums are a kind
of prices, too: `s` and the rest of the last paragraph give every length one.

**Prices and a list.** A packing with just as many packs as the prices prove wastes little in each pack. If all packs
that waste so little are listed, and no choice of them is a packing, one pack more is needed (`search/whole_packs.py`).

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
    """Sums of tokens or of sequences.

    Attributes:
        shared_by: what the packs of the rest are filled with: "tokens", or "sequences" at the depth limit.
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
        """Choose the sums that prove the most packs; arguments as of `bound`."""
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
        alone, rest = self._alone_and_rest(lengths, space)
        if not (alone | rest).any():
            raise ValueError(
                f"shortest {self.shortest} leaves out every sequence; the longest has {lengths[-1]} tokens."
            )
        taken, capacity = self._taken_and_capacity(lengths, space, max_sequences_per_pack)
        filled = exact_dot(counts[lengths[rest]], taken[rest])
        return sum(counts[lengths[alone]].tolist()) - (-filled // capacity)  # minus a floor rounds up

    def prices(self, counts: np.ndarray, max_sequences_per_pack: int | None) -> np.ndarray:
        """Return the prices that prove the same; int64, shape (max_length + 1,), see `Prices`. Arguments as of `bound`.

        A sequence that shares its pack with no other costs a whole pack. Of the rest each costs the part of a pack that
        it fills. Sequences that are left out cost nothing.
        """
        lengths, space = np.arange(len(counts)), _space(counts)
        alone, rest = self._alone_and_rest(lengths, space)
        taken, capacity = self._taken_and_capacity(lengths, space, max_sequences_per_pack)
        unit_price = PRICE_OF_A_PACK // capacity
        return unit_price * np.where(alone, capacity, np.where(rest, taken, 0))

    def _alone_and_rest(self, lengths: np.ndarray, space: int) -> tuple[np.ndarray, np.ndarray]:
        """Part the lengths in two: those that share a pack with no other that counts, and the rest that counts."""
        alone = (lengths >= self.shortest) & (lengths > space - self.shortest)
        return alone, (lengths >= self.shortest) & ~alone

    def _taken_and_capacity(
        self, lengths: np.ndarray, space: int, max_sequences_per_pack: int | None
    ) -> tuple[np.ndarray, int]:
        """Return what a sequence of each length takes of a pack, and what a pack can hold: tokens, or sequences."""
        if self.shared_by == "tokens":
            return lengths, space
        if max_sequences_per_pack is None:
            raise ValueError("A proof by the number of sequences needs a depth limit; the plan has none.")
        # no pack holds more sequences than tokens, and a limit need not fit in 64 bits
        return np.ones_like(lengths), min(max_sequences_per_pack, space)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "shared_by": self.shared_by, "shortest": self.shortest}

    def __str__(self) -> str:
        by_tokens = self.shared_by == "tokens"
        if self.shortest == 1:
            full = "a sequence as long as a pack counts for a whole one"
            return "the sum of all tokens" if by_tokens else f"the number of sequences at the depth limit ({full})"
        alone, others = (
            f"sequences that leave no room for one of {self.shortest:,} tokens",
            "other sequences at least so long",
        )
        return f"{alone}, and {'the tokens of' if by_tokens else 'the number, at the depth limit, of'} {others}"


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices of lengths.

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
        return self.of_length

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "prices": self.of_length.tolist()}

    def __str__(self) -> str:
        return "prices of lengths"


class PricesAndList(Prices):
    """Prices, and a list of packs that proves one pack more than the prices alone."""

    kind: ClassVar[str] = "prices and a list"

    def bound(self, counts: np.ndarray, max_sequences_per_pack: int | None) -> int:
        """Compute the number of packs needed: one more than the prices prove. Arguments as of `Sums.bound`.

        Raises:
            ValueError: if the list is too long, or leaves a choice, or the prices are not allowed.
        """
        proven = super().bound(counts, max_sequences_per_pack)
        if not ruled_out(counts, self.of_length, max_sequences_per_pack, proven):
            raise ValueError("The plan states that a list of packs proves more than its prices; that cannot be shown.")
        return proven + 1

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
    """Return `proof`, or raise a TypeError unless it is a proof of one of the kinds."""
    if isinstance(proof, Sums | Prices):
        return proof
    raise TypeError(f"proof must be Sums, Prices or PricesAndList of packlib.packing.proofs, not {shown(proof)}.")


def _space(counts: np.ndarray) -> int:
    """Return the tokens that a pack can hold: a multiple of the common divisor of the lengths."""
    unit = common_divisor(np.flatnonzero(counts))
    return (len(counts) - 1) // unit * unit
