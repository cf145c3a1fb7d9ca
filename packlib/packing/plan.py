"""The packing plan: which lengths go together, how often, and how far that is from the best possible."""

import itertools
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from packlib.checks import depth_limit
from packlib.files import atomic_path
from packlib.lengths.histogram import LengthHistogram
from packlib.markup import in_html
from packlib.packing.certificate import certified_bound


@dataclass(frozen=True, eq=False)
class PackingPlan:
    """Strategy `s`, the lengths `items[offsets[s]:offsets[s + 1]]`, fills `repeats[s]` packs.

    Attributes:
        histogram: the lengths that are packed.
        items: int64, the lengths of all strategies one after the other, each strategy from long to short.
        offsets: int64, shape (number of strategies + 1,).
        repeats: int64, shape (number of strategies,), each at least 1.
        method: the name of the method that made the plan.
        max_sequences_per_pack: the depth limit, or None.
        duals: int64, shape (max_length + 1,), the prices that prove `lower_bound`, or None
            (see `packlib.packing.certificate`).
        lower_bound: no packing at this depth has fewer packs. Computed from `duals` if there are any, else
            from the area: tokens / max_length, rounded up.

    A plan is verified when it is made, so a plan that exists is right.
    """

    histogram: LengthHistogram
    items: np.ndarray
    offsets: np.ndarray
    repeats: np.ndarray
    method: str
    max_sequences_per_pack: int | None = None
    duals: np.ndarray | None = None
    lower_bound: int = field(init=False)

    def __post_init__(self):
        depth_limit(self.max_sequences_per_pack)
        for name in ("items", "offsets", "repeats", "duals"):
            value = getattr(self, name)
            if value is not None:
                value = np.array(value, np.int64)
                value.flags.writeable = False
                object.__setattr__(self, name, value)
        object.__setattr__(self, "lower_bound", self._proven_bound())
        self.verify()

    @classmethod
    def from_strategies(
        cls,
        histogram: LengthHistogram,
        strategies: Iterable[tuple[tuple[int, ...], int]],
        method: str,
        **fields,
    ) -> "PackingPlan":
        """Make a plan of `(lengths, repeats)` pairs: equal multisets are joined, then sorted, longest first."""
        merged: dict[tuple[int, ...], int] = {}
        for lengths, repeats in strategies:
            if repeats:
                key = tuple(sorted(lengths, reverse=True))
                merged[key] = merged.get(key, 0) + repeats
        ordered = sorted(merged.items(), reverse=True)
        sizes = np.fromiter((len(lengths) for lengths, _ in ordered), np.int64, len(ordered))
        return cls(
            histogram,
            items=np.fromiter(
                (length for lengths, _ in ordered for length in lengths), np.int64, int(sizes.sum())
            ),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            repeats=np.fromiter((repeats for _, repeats in ordered), np.int64, len(ordered)),
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
    def depth(self) -> int:
        """Sequences in the deepest pack."""
        return int(self.sizes.max())

    @property
    def padding_tokens(self) -> int:
        """Slots that hold no token."""
        return self.num_packs * self.histogram.max_length - self.histogram.num_tokens

    @property
    def gap(self) -> int:
        """Packs above the proven lower bound; 0 means that no packing at this depth is better."""
        return self.num_packs - self.lower_bound

    def _proven_bound(self) -> int:
        area = -(-self.histogram.num_tokens // self.histogram.max_length)
        if self.duals is None:
            return area
        return max(area, certified_bound(self.histogram.counts, self.duals, self.max_sequences_per_pack))

    def verify(self) -> "PackingPlan":
        """Check the plan from its numbers alone and return it.

        Every sequence is used exactly once, no pack is too long or too deep, and the lower bound follows from
        the duals.

        Raises:
            ValueError: with the first thing that is wrong.
        """
        counts, top = self.histogram.counts, self.histogram.max_length
        offsets, repeats = self.offsets, self.repeats
        if offsets[0] != 0 or offsets[-1] != len(self.items) or (np.diff(offsets) < 1).any():
            raise ValueError("The offsets of the plan do not cut its items into strategies.")
        if len(repeats) != len(offsets) - 1 or (repeats < 1).any():
            raise ValueError("Every strategy of a plan must be repeated at least once.")
        if self.items.min() < 1 or self.items.max() > top:
            raise ValueError(f"The plan has a length outside 1 to {top}.")
        totals = np.add.reduceat(self.items, offsets[:-1])
        if totals.max() > top:
            worst = self.strategies[int(totals.argmax())]
            raise ValueError(f"The pack {worst} holds {totals.max()} tokens; the maximum is {top}.")
        limit = self.max_sequences_per_pack
        if limit is not None and self.depth > limit:
            raise ValueError(f"A pack holds {self.depth} sequences; the depth limit is {limit}.")
        used = np.zeros(top + 1, np.int64)
        np.add.at(used, self.items, np.repeat(repeats, self.sizes))
        if not np.array_equal(used, counts):
            length = int(np.flatnonzero(used != counts)[0])
            raise ValueError(
                f"The plan packs {used[length]} sequences of length {length}; there are {counts[length]}."
            )
        if self.lower_bound != self._proven_bound() or self.lower_bound > self.num_packs:
            raise ValueError(f"The lower bound {self.lower_bound} is not proven by the plan's duals.")
        return self

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """Return the plan as JSON text; write it to `path` too if one is given."""
        h = self.histogram
        used = np.flatnonzero(h.counts)
        text = json.dumps(
            {
                "format": "packlib.PackingPlan 1",
                "method": self.method,
                "max_sequences_per_pack": self.max_sequences_per_pack,
                "num_packs": self.num_packs,
                "lower_bound": self.lower_bound,
                "histogram": {
                    "name": h.name, "kind": h.kind, "source": h.source, "max_length": h.max_length,
                    "truncated": h.truncated, "dropped": h.dropped,
                    "lengths": used.tolist(), "counts": h.counts[used].tolist(),
                },
                "strategies": self.strategies,
                "repeats": self.repeats.tolist(),
                "duals": None if self.duals is None else self.duals.tolist(),
            }
        )  # fmt: skip
        if path is not None:
            with atomic_path(path) as beside:
                beside.write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, text_or_path: str | os.PathLike) -> "PackingPlan":
        """Read a plan that `to_json` wrote, from its text or its file, and verify it.

        Raises:
            FileNotFoundError, ValueError: if there is no such file, or it holds no valid plan.
        """
        is_text = isinstance(text_or_path, str) and text_or_path.lstrip().startswith("{")
        where = "The text" if is_text else str(text_or_path)
        text = text_or_path if is_text else Path(text_or_path).read_text(encoding="utf-8")
        try:
            raw = json.loads(text)
            past = raw["histogram"]
            counts = np.zeros(past["max_length"] + 1, np.int64)
            counts[past.pop("lengths")] = past.pop("counts")
            histogram = LengthHistogram(counts, **past)
            sizes = [len(lengths) for lengths in raw["strategies"]]
            fields = {
                "items": np.array([length for lengths in raw["strategies"] for length in lengths]),
                "offsets": np.cumsum([0, *sizes]),
                **{name: raw[name] for name in ("repeats", "method", "max_sequences_per_pack", "duals")},
            }
        except (
            KeyError,
            TypeError,
            IndexError,
            AttributeError,
            OverflowError,
            json.JSONDecodeError,
        ) as error:
            raise ValueError(f"{where} holds no packing plan: {type(error).__name__}: {error}.") from None
        plan = cls(histogram, **fields)
        if plan.num_packs != raw.get("num_packs") or plan.lower_bound != raw.get("lower_bound"):
            raise ValueError(
                f"{where} states other packs or another bound than its strategies and duals give."
            )
        return plan

    def __repr__(self) -> str:
        limit = self.max_sequences_per_pack
        return (
            f"PackingPlan({self.method} of {self.histogram.name}, depth limit {limit or 'none'}: "
            f"{self.num_packs:,} packs, efficiency {self.efficiency:.3%}, packing factor {self.packing_factor:.3f}, "
            f"deepest {self.depth}, {len(self.repeats)} strategies, at most {self.gap:,} packs above the best)"
        )

    def _repr_html_(self) -> str:
        rows = []
        for s in np.argsort(-self.repeats, kind="stable")[:8].tolist():
            x, bars = 0.0, ""
            for length in self.strategies[s]:
                width = 320 * length / self.histogram.max_length
                bars += f'<rect x="{x:.1f}" width="{max(width - 1, 0.5):.1f}" height="10" fill="#0072B2"/>'
                x += width
            what = " + ".join(map(str, self.strategies[s][:8])) + (" + …" if self.sizes[s] > 8 else "")
            picture = f'<svg role="img" aria-label="{what}" width="320" height="10">{bars}</svg>'
            rows.append(f"<tr><td>{self.repeats[s]:,} ×</td><td>{picture}</td><td>{what}</td></tr>")
        more = f"<div>and {len(self.repeats) - 8} more strategies</div>" if len(self.repeats) > 8 else ""
        text = in_html(repr(self).removeprefix("PackingPlan(").removesuffix(")"))
        return f"<div><div>{text}</div><table>{''.join(rows)}</table>{more}</div>"
