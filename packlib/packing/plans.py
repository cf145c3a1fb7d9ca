"""The packing plan: which lengths go together, how often, and how far that is from the best possible."""

import itertools
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from packlib.arguments import depth_limit, in_html, one_line, one_of, percent, shown, text, whole_number
from packlib.files import has_exactly, naming, naming_text, parse_json, read_text, write_text
from packlib.lengths.counting import INT64_MAX, as_int64, exact_dot
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.assigning import place_samples
from packlib.packing.packs import Packs
from packlib.packing.proofs import PricesAndList, Proof, Sums, check_proof, proof_from_dict

_FORMAT = "packlib.PackingPlan 4"
# Names in the JSON of a plan, beside histogram, strategies, repeats and proof:
_WRITTEN = ("method", "max_sequences_per_pack")  # attributes that JSON holds as they are
_STATED = ("num_packs", "lower_bound")  # for people who read the JSON; they follow from all else
_MOST_BYTES = 1 << 30  # of a file
_STRONGEST: Any = None  # default of `proof`, which `__post_init__` replaces by the sums that prove most
_WORDS_IF_LISTED = ", as HiGHS says in floating point of a list of all packs that matter"


@dataclass(frozen=True, eq=False)
class PackingPlan:
    """Which lengths share a pack, how many such packs there are, and a proof of how few there can be.

    A strategy is what a pack holds: strategy `s`, the lengths `items[offsets[s]:offsets[s + 1]]`, fills `repeats[s]`
    packs.

    >>> from packlib.packing import PackingPlan, plan
    >>> made = plan([5, 3, 3, 2, 8], max_length=8)
    >>> f"{made.packing_factor:.3f} sequences a pack, {made.efficiency:.1%} full"
    '1.667 sequences a pack, 87.5% full'
    >>> PackingPlan.from_json(made.to_json()).verify().strategies
    [(8,), (5, 3), (3, 2)]
    >>> print(f"At least {made.lower_bound} packs: {made.proof}")
    At least 3 packs: the sum of all tokens

    Attributes:
        histogram: the lengths that are packed.
        items: int64, the lengths of all strategies one after the other, each strategy from long to short.
        offsets: int64, shape (number of strategies + 1,).
        repeats: int64, shape (number of strategies,), each at least 1.
        method: the name of the method that made the plan.
        max_sequences_per_pack: the depth limit, which is the most sequences that a pack may hold; None for no limit.
        proof: what proves `lower_bound`, see `packlib.packing.proofs`; by default the sums that prove most.
        lower_bound: the proven minimum of packs at this depth. It follows from `proof` and `histogram` in integers,
            except where the plan is `listed`: there the last pack of it rests on HiGHS in floating point.

    A plan is verified when it is made, so a plan that exists is right.
    """

    histogram: LengthHistogram
    items: np.ndarray
    offsets: np.ndarray
    repeats: np.ndarray
    method: str
    max_sequences_per_pack: int | None = None
    proof: Proof = _STRONGEST
    lower_bound: int = field(init=False)

    def __post_init__(self) -> None:
        depth_limit(self.max_sequences_per_pack)
        object.__setattr__(self, "method", one_line(text("method", self.method)))
        nouns = {"items": "Length", "offsets": "Offset", "repeats": "Repeat count"}
        for name, noun in nouns.items():
            value = as_int64(getattr(self, name), noun)
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        if self.proof is None:
            object.__setattr__(self, "proof", Sums.strongest(self.histogram.counts, self.max_sequences_per_pack))
        check_proof(self.proof)
        object.__setattr__(self, "lower_bound", self._proven_bound())
        self._check()

    @classmethod
    def from_strategies(
        cls, histogram: LengthHistogram, strategies: Iterable[tuple[tuple[int, ...], int]], method: str, **fields: Any
    ) -> "PackingPlan":
        """Make a plan of `(lengths, repeats)` pairs: pairs of the same lengths are joined, then sorted, longest first.

        Args:
            histogram: the lengths that are packed.
            strategies: for each the lengths in a pack, in any order, and how many such packs there are.
            method: the name of the method that made the plan.
            fields: `max_sequences_per_pack` and `proof` of the plan.
        """
        merged: dict[tuple[int, ...], int] = {}
        for lengths, repeats in strategies:
            if repeats:
                key = tuple(sorted(lengths, reverse=True))
                merged[key] = merged.get(key, 0) + repeats
        ordered = sorted(merged, reverse=True)
        sizes = np.fromiter(map(len, ordered), np.int64, len(ordered))
        return cls(
            histogram,
            items=np.fromiter(itertools.chain.from_iterable(ordered), np.int64, int(sizes.sum())),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            repeats=np.fromiter(map(merged.__getitem__, ordered), np.int64, len(ordered)),
            method=method,
            **fields,
        )

    @cached_property
    def strategies(self) -> list[tuple[int, ...]]:
        """The lengths that share a pack, longest first, for each strategy."""
        items, offsets = self.items.tolist(), self.offsets.tolist()
        return [tuple(items[a:b]) for a, b in itertools.pairwise(offsets)]

    @cached_property
    def sizes(self) -> np.ndarray:
        """Sequences in a pack of each strategy; int64, shape (number of strategies,)."""
        return np.diff(self.offsets)

    @property
    def num_packs(self) -> int:
        return int(self.repeats.sum())

    @property
    def efficiency(self) -> float:
        """Share of the slots that hold a token."""
        return self.histogram.num_tokens / (self.num_packs * self.histogram.max_length)

    @property
    def packing_factor(self) -> float:
        """Sequences in an average pack."""
        return self.histogram.num_sequences / self.num_packs

    @property
    def deepest(self) -> int:
        """Sequences in the deepest pack."""
        return int(self.sizes.max())

    @property
    def gap(self) -> int:
        """Packs above `lower_bound`; 0 means that the plan has the proven minimum of packs at this depth."""
        return self.num_packs - self.lower_bound

    def assign(self, lengths: Iterable[int], seed: int | None = None) -> Packs:
        """Choose the samples for every pack; each sample lands in exactly one.

        >>> from packlib.packing import plan
        >>> [samples.tolist() for samples in plan([5, 3, 3, 2, 8]).assign([8, 2, 3, 3, 5])]
        [[0], [4, 2], [3, 1]]

        Args:
            lengths: the tokens of every sample, those that the plan's histogram was made from, in any order. Where
                the histogram truncated or dropped overlong samples, so does this.
            seed: shuffles samples of equal length, so that each epoch can combine other samples; None keeps their
                order.

        Returns:
            Packs in the plan's order (their order in training is the loader's business).

        Raises:
            TypeError, ValueError: if the plan was made for other lengths.
        """
        return place_samples(self.histogram, self.items, self.sizes, self.repeats, lengths, seed)

    @property
    def prices(self) -> np.ndarray:
        """Prices that prove `lower_bound`, or one pack less where the plan is `listed`; see `certified_bound`.

        They are multiples of 2^-38 packs; int64, shape (max_length + 1,).
        """
        return self.proof.prices(self.histogram.counts, self.max_sequences_per_pack)

    @property
    def listed(self) -> bool:
        """True if a list of packs proves one pack more than the prices, with the help of HiGHS in floating point."""
        return isinstance(self.proof, PricesAndList)

    def _proven_bound(self) -> int:
        """Compute the packs that `proof` shows to be needed."""
        return self.proof.bound(self.histogram.counts, self.max_sequences_per_pack)

    def verify(self) -> "PackingPlan":
        """Check the plan from its numbers alone and return it.

        Every sequence is used exactly once, no pack is too long or too deep, and the lower bound follows from the
        proof.

        Raises:
            TypeError, ValueError: with the first thing that is wrong.
        """
        check_proof(self.proof)
        self._check()
        if self.lower_bound != self._proven_bound():
            raise ValueError(f"The lower bound {self.lower_bound} is not proven by {self.proof}.")
        return self

    def _check(self) -> None:
        """Check all but that the bound follows from the proof."""
        counts, max_length = self.histogram.counts, self.histogram.max_length
        offsets, repeats = self.offsets, self.repeats
        covers_items = len(offsets) > 1 and offsets[0] == 0 and offsets[-1] == len(self.items)
        if not covers_items or (offsets[1:] <= offsets[:-1]).any():
            raise ValueError("The offsets of the plan do not cut its items into strategies.")
        if len(repeats) != len(offsets) - 1 or (repeats < 1).any():
            raise ValueError("Every strategy of a plan must be repeated at least once.")
        if self.items.min() < 1 or self.items.max() > max_length:
            raise ValueError(f"The plan has a length outside 1 to {max_length}.")
        totals = np.add.reduceat(self.items, offsets[:-1])
        if totals.max() > max_length:
            worst = self.strategies[int(totals.argmax())]
            raise ValueError(f"The pack {worst} holds {totals.max()} tokens; the maximum is {max_length}.")
        limit = self.max_sequences_per_pack
        if limit is not None and self.deepest > limit:
            raise ValueError(f"A pack holds {self.deepest} sequences; the depth limit is {limit}.")
        # `exact_dot` adds up in Python's integers; if all tokens fit in 64 bits, so does each sum below.
        exact_dtype = np.int64 if exact_dot(repeats, totals) <= INT64_MAX else object
        packed = np.zeros(max_length + 1, exact_dtype)  # sequences of each length
        np.add.at(packed, self.items, np.repeat(repeats.astype(exact_dtype), self.sizes))
        if not np.array_equal(packed, counts):
            length = int(np.flatnonzero(packed != counts)[0])
            raise ValueError(
                f"The plan packs {packed[length]} sequences of length {length}; there are {counts[length]}."
            )
        if self.lower_bound > self.num_packs:
            raise ValueError(f"The lower bound {self.lower_bound} is not proven by {self.proof}.")

    def to_json(self) -> str:
        """Write the plan as JSON text, its histogram too."""
        plan = {
            "format": _FORMAT,
            **{name: getattr(self, name) for name in (*_WRITTEN, *_STATED)},
            "histogram": self.histogram.as_dict(),
            "strategies": self.strategies,
            "repeats": self.repeats.tolist(),
            "proof": self.proof.as_dict(),
        }
        return json.dumps(plan)

    @classmethod
    def from_json(cls, text: str) -> "PackingPlan":
        """Read a plan that `to_json` wrote, and verify it; nothing is rounded, guessed or left out.

        Raises:
            ValueError: if it is no valid plan, with the first thing that is wrong.
        """
        with naming_text("packing plan"):
            return cls._from_dict(parse_json(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON, whole or not at all."""
        write_text(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PackingPlan":
        """Read a plan that `save` wrote, and verify it.

        Raises:
            FileNotFoundError, ValueError: if there is no such file, or it holds no valid plan.
        """
        with naming(path, "packing plan") as file:
            return cls._from_dict(parse_json(read_text(file, _MOST_BYTES)))

    @classmethod
    def _from_dict(cls, raw: Any) -> "PackingPlan":
        """Make a plan of a JSON object that `to_json` wrote.

        Raises:
            TypeError, ValueError: with the first thing that is wrong.
        """
        has_exactly(raw, "A plan", {"format", "histogram", "strategies", "repeats", "proof", *_WRITTEN, *_STATED})
        one_of("format", raw["format"], (_FORMAT,))
        histogram = LengthHistogram.from_dict(raw["histogram"])
        proof = proof_from_dict(raw["proof"])
        strategies = raw["strategies"]
        for value in [strategies, *strategies] if isinstance(strategies, list) else [strategies]:
            if not isinstance(value, list):
                raise TypeError(f"strategies must be a list of lists of lengths, but it holds {shown(value)}.")
        plan = cls(
            histogram,
            items=[length for lengths in strategies for length in lengths],  # type: ignore[arg-type]
            offsets=np.cumsum([0, *map(len, strategies)]),
            repeats=raw["repeats"],
            proof=proof,
            **{name: raw[name] for name in _WRITTEN},
        )
        packs, bound = (whole_number(name, raw[name], 1) for name in _STATED)
        if packs != plan.num_packs or bound != plan.lower_bound:
            raise ValueError("It states other packs or another bound than its strategies and proof give.")
        return plan

    def __repr__(self) -> str:
        limit = self.max_sequences_per_pack
        return (
            f"PackingPlan({self.method} of {self.histogram.name}, depth limit {limit or 'none'}: "
            f"{self.num_packs:,} packs, efficiency {percent(self.efficiency, 3)}, packing factor "
            f"{self.packing_factor:.3f}, deepest {self.deepest}, {len(self.repeats)} strategies, at most {self.gap:,} "
            f"packs above the best{_WORDS_IF_LISTED if self.listed else ''})"
        )

    def _repr_html_(self) -> str:
        rows = []
        for s in np.argsort(-self.repeats, kind="stable")[:8].tolist():
            x, bars = 0.0, ""
            for length in self.strategies[s]:
                width = 320 * length / self.histogram.max_length
                bars += f'<rect x="{x:.1f}" width="{max(width - 1, 0.5):.1f}" height="10" fill="#0072B2"/>'
                x += width
            lengths_in_words = " + ".join(map(str, self.strategies[s][:8])) + (" + …" if self.sizes[s] > 8 else "")
            picture = f'<svg role="img" aria-label="{lengths_in_words}" width="320" height="10">{bars}</svg>'
            rows.append(f"<tr><td>{self.repeats[s]:,} ×</td><td>{picture}</td><td>{lengths_in_words}</td></tr>")
        more = f"<div>and {len(self.repeats) - 8} more strategies</div>" if len(self.repeats) > 8 else ""
        text = in_html(repr(self).removeprefix("PackingPlan(").removesuffix(")"))
        return f"<div><div>{text}</div><table>{''.join(rows)}</table>{more}</div>"
