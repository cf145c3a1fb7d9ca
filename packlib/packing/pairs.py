"""Rows with two budgets: tokens, and patches of images (or frames, or the target tokens of a translation).

A sample is a pair: what it takes of the first budget, and what it takes of the second. Samples are packed from large to
small in several ways, and the way with the fewest packs is kept:

    sorted fits      Packs are opened one after the other. Each sample goes into the first pack with room for it, or
                     into the pack that it leaves with the least room. They win where one budget alone is scarce.
    all packs open   As many empty packs as the bound asks for are open from the start, or a few more. Each sample goes
                     into the pack whose room points the way of the sample: one with many patches goes where many
                     patches are left. Or it goes where both budgets are then left most alike.

Either budget alone is packing as ever, so `plan` proves how many packs each budget needs; the larger number is the
bound. Every way compares each sample with all open packs, so many samples are first dealt into windows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from packlib.arguments import percent, whole_number
from packlib.lengths.counting import MAX_LENGTH, as_int64
from packlib.packing.methods import plan
from packlib.packing.packs import Packs
from packlib.packing.plans import PackingPlan
from packlib.packing.proofs import Proof, check_proof

_WINDOW = 1024  # packs of a window, at least; a window has fewer than twice as many
_ROUNDS = 5  # of the search for a bound; rounds and not seconds, so that the bound is the same on every machine
_SIFTED = 512  # after so many samples, packs without room for any later sample leave the comparison

Rule = Callable[[np.ndarray, np.ndarray, float, float], np.ndarray | float]


@dataclass(frozen=True, eq=False, repr=False)
class PairPacks(Packs):
    """Packs of samples that keep two budgets: pack `i` holds samples `sample_ids[offsets[i]:offsets[i + 1]]`.

    They are `Packs` of the samples' tokens, and can be used wherever those can. `save` writes them as `Packs`, without
    the second budget.

    >>> from packlib.packing import pack_pairs
    >>> packs = pack_pairs([6, 4, 2, 3], [0, 5, 4, 1], max_length=8, max_patches=5)
    >>> [samples.tolist() for samples in packs], packs.lengths_used.tolist(), packs.patches_used.tolist()
    ([[0, 2], [1], [3]], [8, 4, 3], [4, 5, 1])
    >>> packs.lower_bound, packs.gap, packs.proven_by
    (2, 1, 'tokens alone: the sum of all tokens')

    Attributes:
        patches: what each sample takes of the second budget, in the order of `sample_ids`; int64, shape (number of
            samples,).
        max_patches: the second budget of a pack.
        token_proof: what proves how many packs the tokens alone need, see `packlib.packing.proofs`.
        patch_proof: the same for the patches alone; None if no sample has patches.
        token_bound, patch_bound: the packs that are proven to be needed by the tokens alone, and by the patches alone.

    Raises:
        TypeError, ValueError: with the first attribute that is wrong, in one sentence.
    """

    patches: np.ndarray
    max_patches: int
    token_proof: Proof
    patch_proof: Proof | None
    token_bound: int = field(init=False)
    patch_bound: int = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        patches, top = (
            as_int64(self.patches, "Patch count"),
            whole_number("max_patches", self.max_patches, 1, MAX_LENGTH),
        )
        if len(patches) != len(self.lengths) or patches.min() < 0:
            raise ValueError(f"patches must have {len(self.lengths)} entries, one for each sample, each at least 0.")
        if (used := np.add.reduceat(patches, self.offsets[:-1])).max() > top:
            raise ValueError(f"Pack {used.argmax()} holds {used.max()} patches; max_patches is {top}.")
        by_tokens = _proven(check_proof(self.token_proof), self.lengths, self.max_length)
        by_patches = 0
        if patches.any():
            by_patches = _proven(check_proof(self.patch_proof), patches[patches > 0], top)
        for name, value in dict(
            patches=patches, max_patches=top, token_bound=by_tokens, patch_bound=by_patches
        ).items():
            object.__setattr__(self, name, value)

    @property
    def patches_used(self) -> np.ndarray:
        """Patches in each pack; int64, shape (number of packs,)."""
        return np.add.reduceat(self.patches, self.offsets[:-1])

    @property
    def patch_efficiency(self) -> float:
        """Share of the second budget of all packs that is used; `efficiency` is the same for the tokens."""
        return int(self.patches.sum()) / (len(self) * self.max_patches)

    @property
    def lower_bound(self) -> int:
        """The proven minimum of packs: the larger number of those that each budget needs alone."""
        return max(self.token_bound, self.patch_bound)

    @property
    def gap(self) -> int:
        """Packs above `lower_bound`; 0 means that these are the fewest packs possible."""
        return len(self) - self.lower_bound

    @property
    def scarcer(self) -> Literal["tokens", "patches", "both"]:
        """The budget that alone needs more packs, by the proven bounds; "both" if they need equally many."""
        if self.token_bound == self.patch_bound:
            return "both"
        return "tokens" if self.token_bound > self.patch_bound else "patches"

    @property
    def proven_by(self) -> str:
        """Proof of `lower_bound` in words, such as "patches alone: the sum of all patches"."""
        if self.patch_bound > self.token_bound:
            return "patches alone: " + str(self.patch_proof).replace("tokens", "patches")
        return f"tokens alone: {self.token_proof}"

    def __repr__(self) -> str:
        scarce = "both budgets are equally scarce" if self.scarcer == "both" else f"{self.scarcer} are scarcer"
        return (
            f"PairPacks({len(self.sample_ids):,} samples in {len(self):,} packs of {self.max_length} tokens and "
            f"{self.max_patches} patches, at least {self.lower_bound:,} needed; {percent(self.efficiency)} of the "
            f"tokens and {percent(self.patch_efficiency)} of the patches are used; {scarce})"
        )


def _proven(proof: Proof, sizes: np.ndarray, budget: int) -> int:
    return proof.bound(np.bincount(sizes, minlength=budget + 1), None)


def pack_pairs(tokens: Iterable[int], patches: Iterable[int], max_length: int, max_patches: int) -> PairPacks:
    """Pack samples so that each pack keeps two budgets, one of tokens and one of patches, and prove a minimum of packs.

    >>> from packlib.packing import pack_pairs
    >>> packs = pack_pairs([6, 2, 5, 3], [0, 5, 2, 4], max_length=8, max_patches=6)
    >>> [samples.tolist() for samples in packs], packs.lengths_used.tolist(), packs.patches_used.tolist()
    ([[0, 1], [2, 3]], [8, 8], [5, 6])
    >>> packs.num_packs, packs.lower_bound, packs.gap
    (2, 2, 0)

    The same samples give the same packs on every machine. On one processor core, 100,000
    samples take 0.5 to 14 seconds; more samples are packed in windows, so the time grows in proportion to their number.

    Args:
        tokens: the tokens of each sample, those of its images included; each from 1 to `max_length`.
        patches: what each sample takes of the second budget, such as patches, tiles, crops or images; each from 0 to
            `max_patches`, in the order of `tokens`.
        max_length: slots of a pack, in tokens, at most 16,777,216.
        max_patches: the second budget of a pack, at most 16,777,216.

    Returns:
        The packs, as `PairPacks`: sample ids are positions in `tokens`.

    Raises:
        TypeError, ValueError: naming the argument or the sample that is wrong, such as one that is over a budget.
    """
    top_tokens = whole_number("max_length", max_length, 1, MAX_LENGTH)
    top_patches = whole_number("max_patches", max_patches, 1, MAX_LENGTH)
    of_tokens, of_patches = as_int64(tokens, "Token count"), as_int64(patches, "Patch count")
    _check(of_tokens, of_patches, top_tokens, top_patches)
    with_patches = of_patches[of_patches > 0]
    by_tokens, by_patches = _one_budget_plans(of_tokens, with_patches, top_tokens, top_patches)
    least = max(by_tokens.lower_bound, by_patches.lower_bound if by_patches else 0)
    samples = _Samples(of_tokens.astype(float), of_patches.astype(float), float(top_tokens), float(top_patches))
    pack_of = _by_windows(samples, least)
    ids = np.argsort(pack_of, kind="stable")
    return PairPacks(
        sample_ids=ids,
        offsets=np.append(0, np.cumsum(np.bincount(pack_of))),
        lengths=of_tokens[ids],
        max_length=top_tokens,
        patches=of_patches[ids],
        max_patches=top_patches,
        token_proof=by_tokens.proof,
        patch_proof=by_patches.proof if by_patches else None,
    )


def _check(tokens: np.ndarray, patches: np.ndarray, max_length: int, max_patches: int) -> None:
    if not len(tokens) or len(tokens) != len(patches):
        raise ValueError(
            f"tokens and patches must have one entry for each sample, not {len(tokens)} and {len(patches)} entries."
        )
    for noun, sizes, least, name, budget in (
        ("tokens", tokens, 1, "max_length", max_length),
        ("patches", patches, 0, "max_patches", max_patches),
    ):
        if sizes.min() < least:
            at = int(np.argmax(sizes < least))
            raise ValueError(f"Sample {at} has {sizes[at]} {noun}; it must have at least {least}.")
        if sizes.max() > budget:
            at = int(np.argmax(sizes > budget))
            raise ValueError(
                f"Sample {at} has {sizes[at]} {noun}, and {name} is {budget}: leave the sample out, make it smaller, "
                f"or raise {name}."
            )


def _one_budget_plans(
    tokens: np.ndarray, patches: np.ndarray, max_length: int, max_patches: int
) -> tuple[PackingPlan, PackingPlan | None]:
    """Plan each budget as if it were the only one: greedily, or by a search where that may raise the bound."""
    budgets = [(tokens, max_length), (patches, max_patches)] if len(patches) else [(tokens, max_length)]
    plans = [plan(sizes, budget, "lpfhp") for sizes, budget in budgets]
    for at in sorted(range(len(plans)), key=lambda at: -plans[at].lower_bound):
        if plans[at].num_packs > max(made.lower_bound for made in plans):
            sizes, budget = budgets[at]
            plans[at] = plan(sizes, budget, "optimal", rounds=_ROUNDS, progress=False, on_interrupt="raise")
    return plans[0], plans[1] if len(plans) > 1 else None


@dataclass(frozen=True)
class _Samples:
    """Size of each sample in both budgets: whole numbers, in floats that hold them exactly."""

    tokens: np.ndarray
    patches: np.ndarray
    max_length: float
    max_patches: float

    def some(self, ids: np.ndarray) -> "_Samples":
        return _Samples(self.tokens[ids], self.patches[ids], self.max_length, self.max_patches)

    @property
    def sums(self) -> tuple[float, float]:
        """Return the packs that each budget fills, as fractions."""
        return float(self.tokens.sum()) / self.max_length, float(self.patches.sum()) / self.max_patches

    def sizes(self) -> dict[str, np.ndarray]:
        """Yield one number for the size of each sample, in several ways."""
        of_tokens, of_patches = self.tokens / self.max_length, self.patches / self.max_patches
        by_tokens, by_patches = self.sums
        return {
            "tokens": of_tokens,
            "patches": of_patches,
            "sum": of_tokens + of_patches,
            "larger": np.maximum(of_tokens, of_patches),
            "weighted by scarcity": by_tokens * of_tokens + by_patches * of_patches,
        }


def _by_windows(samples: _Samples, least: int) -> np.ndarray:
    """Find the pack of each sample; each window gets samples of every size, and is packed for itself."""
    number = max(1, least // _WINDOW)
    large_to_small = np.argsort(-samples.sizes()["sum"], kind="stable")
    pack_of, packs = np.empty(len(samples.tokens), np.int64), 0
    for first in range(number):
        window = large_to_small[first::number]
        within = _fewest(samples.some(window), least // number)
        pack_of[window] = packs + within
        packs += int(within.max()) + 1
    return pack_of


def _fewest(samples: _Samples, share: int) -> np.ndarray:
    """Find the pack of each sample of a window, by the way that takes the fewest packs.

    Args:
        share: this window's share of the packs that are proven to be needed; fewer are not looked for.
    """
    least = max(share, int(np.ceil(max(samples.sums) - 1e-9)))
    best = np.arange(len(samples.tokens))
    for pack_of in _ways(samples, least):
        packs = np.unique(pack_of, return_inverse=True)[1]
        if packs.max() < best.max():
            best = packs
        if best.max() < least:
            break
    return best


def _ways(samples: _Samples, least: int) -> Iterator[np.ndarray]:
    """Yield the packs of the samples: by sorted fits, then with as few packs open as all samples have room in."""
    orders = {name: np.argsort(-size, kind="stable") for name, size in samples.sizes().items()}
    fewest = len(samples.tokens)
    for order in orders.values():
        for rule in (_first, _fullest(samples)):
            yield (pack_of := _placed(samples, order, rule, 0))
            fewest = min(fewest, int(pack_of.max()) + 1)
    too_few = least - 1
    while fewest - too_few > 1:  # halve what lies between
        num_open = (too_few + fewest) // 2
        for rule in (_along(samples), _alike(samples)):
            yield (pack_of := _placed(samples, orders["sum"], rule, num_open))
            fewest = min(fewest, int(pack_of.max()) + 1)
            if fewest <= num_open:
                break
        else:
            too_few = num_open


# Rules: a number for each open pack, from its room for tokens and for patches and from what the sample takes of both;
# the sample goes into the pack with the largest number among those with room for it, and of equals into the first.


def _first(room_tokens: np.ndarray, room_patches: np.ndarray, tokens: float, patches: float) -> float:
    return 0.0


def _fullest(samples: _Samples) -> Rule:
    """Choose the least room, of both budgets together."""
    return lambda room_tokens, room_patches, tokens, patches: (
        -(room_tokens / samples.max_length + room_patches / samples.max_patches)
    )


def _along(samples: _Samples) -> Rule:
    """Choose the most room in the direction of the sample: the scalar product of both."""
    by_tokens, by_patches = samples.max_length**-2, samples.max_patches**-2
    return lambda room_tokens, room_patches, tokens, patches: (
        room_tokens * (tokens * by_tokens) + room_patches * (patches * by_patches)
    )


def _alike(samples: _Samples) -> Rule:
    """Choose the room whose two budgets are most alike once the sample is in."""
    return lambda room_tokens, room_patches, tokens, patches: (
        -np.abs((room_tokens - tokens) / samples.max_length - (room_patches - patches) / samples.max_patches)
    )


def _placed(samples: _Samples, order: np.ndarray, rule: Rule, num_open: int) -> np.ndarray:
    """Place each sample: `num_open` packs are open from the start, and one more whenever none has room."""
    tokens, patches = samples.tokens[order], samples.patches[order]
    later_tokens = np.minimum.accumulate(tokens[::-1])[::-1]  # the least that this sample or a later one takes
    later_patches = np.minimum.accumulate(patches[::-1])[::-1]
    room_tokens, room_patches = np.full(num_open, samples.max_length), np.full(num_open, samples.max_patches)
    packs, opened = np.arange(num_open), num_open
    pack_of = np.empty(len(order), np.int64)
    for at, (sample, of_tokens, of_patches) in enumerate(
        zip(order.tolist(), tokens.tolist(), patches.tolist(), strict=True)
    ):
        if at % _SIFTED == 0:
            live = (room_tokens >= later_tokens[at]) & (room_patches >= later_patches[at])
            room_tokens, room_patches, packs = room_tokens[live], room_patches[live], packs[live]
        has_room = (room_tokens >= of_tokens) & (room_patches >= of_patches)
        value = np.where(has_room, rule(room_tokens, room_patches, of_tokens, of_patches), -np.inf)
        chosen = int(value.argmax()) if len(value) else 0
        if not len(value) or not has_room[chosen]:
            chosen = len(packs)
            room_tokens = np.append(room_tokens, samples.max_length)
            room_patches = np.append(room_patches, samples.max_patches)
            packs, opened = np.append(packs, opened), opened + 1
        room_tokens[chosen] -= of_tokens
        room_patches[chosen] -= of_patches
        pack_of[sample] = packs[chosen]
    return pack_of
