"""Rows with two budgets: tokens, and patches of images (or frames, or the target tokens of a translation).

A sample is a pair: what it takes of the first budget, and what it takes of the second. Samples are packed from large to
small in several ways, and the way with the fewest packs is kept:

    sorted fits      Packs are opened one after the other. Each sample goes into the first pack with room for it, or
                     into the pack with the least room among those that can take it. These ways win where one budget
                     alone is scarce.
    all packs open   As many empty packs as the bound, or a few more, are open from the start. Each sample goes into
                     the pack whose room has a similar share of patches: a sample with many patches goes where room for
                     many patches is left. Or it goes into the pack whose two budgets it leaves most alike.

With one of the budgets alone, this is packing as in `plan`, which proves how many packs each budget needs; the larger
number is the bound. Every way compares each sample with all open packs, so many samples are first divided into windows.
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
_SAMPLES_BETWEEN_SIFTS = 512  # then packs without room for any later sample leave the comparison

Rule = Callable[[np.ndarray, np.ndarray, float, float], np.ndarray | float]  # see "Rules" below


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
        patches = as_int64(self.patches, "Patch count")
        max_patches = whole_number("max_patches", self.max_patches, 1, MAX_LENGTH)
        _refuse_other_patches(patches, self.offsets, max_patches)
        token_bound = _proven(check_proof(self.token_proof), self.lengths, self.max_length)
        patch_bound = 0
        if patches.any():
            patch_bound = _proven(check_proof(self.patch_proof), patches[patches > 0], max_patches)
        fields = {
            "patches": patches,
            "max_patches": max_patches,
            "token_bound": token_bound,
            "patch_bound": patch_bound,
        }
        for name, value in fields.items():
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
        """The budget whose proven bound is higher; "both" if the two bounds are equal."""
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


def _refuse_other_patches(patches: np.ndarray, offsets: np.ndarray, max_patches: int) -> None:
    """Raise a ValueError unless each sample has a number of patches, and no pack has more than `max_patches`."""
    num_samples = int(offsets[-1])
    if len(patches) != num_samples or patches.min() < 0:
        raise ValueError(f"patches must have {num_samples} entries, one for each sample, each at least 0.")
    patches_used = np.add.reduceat(patches, offsets[:-1])
    if patches_used.max() > max_patches:
        raise ValueError(
            f"Pack {patches_used.argmax()} holds {patches_used.max()} patches; max_patches is {max_patches}."
        )


def _proven(proof: Proof, sizes: np.ndarray, budget: int) -> int:
    """Return the packs that a proof shows to be needed for these sizes, each from 1 to `budget`."""
    return proof.bound(np.bincount(sizes, minlength=budget + 1), None)


def pack_pairs(tokens: Iterable[int], patches: Iterable[int], max_length: int, max_patches: int) -> PairPacks:
    """Pack samples so that each pack keeps two budgets, one of tokens and one of patches, and prove a minimum of packs.

    >>> from packlib.packing import pack_pairs
    >>> packs = pack_pairs([6, 2, 5, 3], [0, 5, 2, 4], max_length=8, max_patches=6)
    >>> [samples.tolist() for samples in packs], packs.lengths_used.tolist(), packs.patches_used.tolist()
    ([[0, 1], [2, 3]], [8, 8], [5, 6])
    >>> packs.num_packs, packs.lower_bound, packs.gap
    (2, 2, 0)

    The same samples give the same packs on every machine. On one processor core, 100,000 samples take 0.5 to 14
    seconds; more samples are packed in windows, so the time grows in proportion to their number.

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
    max_length = whole_number("max_length", max_length, 1, MAX_LENGTH)
    max_patches = whole_number("max_patches", max_patches, 1, MAX_LENGTH)
    tokens_of, patches_of = as_int64(tokens, "Token count"), as_int64(patches, "Patch count")
    _refuse_sizes_outside(tokens_of, patches_of, max_length, max_patches)
    token_plan, patch_plan = _one_budget_plans(tokens_of, patches_of[patches_of > 0], max_length, max_patches)
    bound = max(token_plan.lower_bound, patch_plan.lower_bound if patch_plan else 0)
    samples = _Samples(tokens_of.astype(float), patches_of.astype(float), float(max_length), float(max_patches))
    pack_of = _by_windows(samples, bound)
    ids = np.argsort(pack_of, kind="stable")
    return PairPacks(
        sample_ids=ids,
        offsets=np.append(0, np.cumsum(np.bincount(pack_of))),
        lengths=tokens_of[ids],
        max_length=max_length,
        patches=patches_of[ids],
        max_patches=max_patches,
        token_proof=token_plan.proof,
        patch_proof=patch_plan.proof if patch_plan else None,
    )


def _refuse_sizes_outside(tokens: np.ndarray, patches: np.ndarray, max_length: int, max_patches: int) -> None:
    """Raise a ValueError unless each sample has 1 to `max_length` tokens and 0 to `max_patches` patches."""
    if not len(tokens) or len(tokens) != len(patches):
        raise ValueError(
            f"tokens and patches must have one entry for each sample, not {len(tokens)} and {len(patches)} entries."
        )
    for noun, sizes, minimum, name, budget in (
        ("tokens", tokens, 1, "max_length", max_length),
        ("patches", patches, 0, "max_patches", max_patches),
    ):
        if sizes.min() < minimum:
            at = int(np.argmax(sizes < minimum))
            raise ValueError(f"Sample {at} has {sizes[at]} {noun}; it must have at least {minimum}.")
        if sizes.max() > budget:
            at = int(np.argmax(sizes > budget))
            raise ValueError(
                f"Sample {at} has {sizes[at]} {noun}, and {name} is {budget}: leave the sample out, make it smaller, "
                f"or raise {name}."
            )


def _one_budget_plans(
    tokens: np.ndarray, patches: np.ndarray, max_length: int, max_patches: int
) -> tuple[PackingPlan, PackingPlan | None]:
    """Plan each budget as if it were the only one: greedily, or by a search where that may raise the bound.

    Args:
        tokens: of each sample.
        patches: of each sample that has patches.
        max_length, max_patches: the budgets.

    Returns:
        The plan of the tokens, and that of the patches; None if no sample has patches.
    """
    budgets = [(tokens, max_length), (patches, max_patches)] if len(patches) else [(tokens, max_length)]
    plans = [plan(sizes, budget, "lpfhp") for sizes, budget in budgets]
    high_to_low = sorted(range(len(plans)), key=lambda at: -plans[at].lower_bound)
    for at in high_to_low:
        # A search proves no more than the packs of its budget's plan: if the other bound is as high, it is of no use.
        if plans[at].num_packs > max(each_plan.lower_bound for each_plan in plans):
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

    def subset(self, ids: np.ndarray) -> "_Samples":
        """Return the samples with these numbers."""
        return _Samples(self.tokens[ids], self.patches[ids], self.max_length, self.max_patches)

    @property
    def sums(self) -> tuple[float, float]:
        """Return all tokens, and all patches, each measured in packs: 2.5 is two and a half budgets of a pack."""
        return float(self.tokens.sum()) / self.max_length, float(self.patches.sum()) / self.max_patches

    def sizes(self) -> dict[str, np.ndarray]:
        """Return the size of each sample as one number, in several ways; each shape (number of samples,)."""
        token_share = self.tokens / self.max_length
        patch_share = self.patches / self.max_patches
        token_sum, patch_sum = self.sums
        return {
            "tokens": token_share,
            "patches": patch_share,
            "sum": token_share + patch_share,
            "larger": np.maximum(token_share, patch_share),
            "weighted by scarcity": token_sum * token_share + patch_sum * patch_share,
        }


def _by_windows(samples: _Samples, bound: int) -> np.ndarray:
    """Find the pack of each sample; each window gets samples of every size, and is packed for itself.

    Args:
        samples: what is packed.
        bound: the packs that are proven to be needed.

    Returns:
        The number of each sample's pack; int64, shape (number of samples,).
    """
    num_windows = max(1, bound // _WINDOW)
    large_to_small = np.argsort(-samples.sizes()["sum"], kind="stable")
    pack_of = np.empty(len(samples.tokens), np.int64)
    num_packs = 0
    for first in range(num_windows):
        window = large_to_small[first::num_windows]
        pack_in_window = _fewest_packs(samples.subset(window), bound // num_windows)
        pack_of[window] = num_packs + pack_in_window
        num_packs += int(pack_in_window.max()) + 1
    return pack_of


def _fewest_packs(samples: _Samples, share: int) -> np.ndarray:
    """Find the pack of each sample of a window, by the way that takes the fewest packs.

    Args:
        samples: those of the window.
        share: the window's share of the packs that are proven to be needed; fewer are not looked for.
    """
    bound = max(share, int(np.ceil(max(samples.sums) - 1e-9)))
    best = np.arange(len(samples.tokens))  # each sample in a pack of its own
    for pack_of in _ways(samples, bound):
        without_empty = np.unique(pack_of, return_inverse=True)[1]
        if without_empty.max() < best.max():
            best = without_empty
        if best.max() + 1 <= bound:
            break
    return best


def _ways(samples: _Samples, bound: int) -> Iterator[np.ndarray]:
    """Yield the pack of each sample, once for each way: by sorted fits, then with all packs open from the start.

    How many packs are open is halved between the most that are too few and the fewest that are enough.
    """
    orders = {name: np.argsort(-size, kind="stable") for name, size in samples.sizes().items()}
    enough = len(samples.tokens)
    for order in orders.values():
        for rule in (_first, _least_room(samples)):
            yield (pack_of := _placed(samples, order, rule, num_open=0))
            enough = min(enough, int(pack_of.max()) + 1)
    too_few = bound - 1
    while enough - too_few > 1:
        num_open = (too_few + enough) // 2
        for rule in (_same_direction(samples), _most_alike(samples)):
            yield (pack_of := _placed(samples, orders["sum"], rule, num_open))
            enough = min(enough, int(pack_of.max()) + 1)
            if enough <= num_open:
                break
        else:
            too_few = num_open


# Rules. Each gives the open packs a value, from their room for tokens and for patches (arrays, an entry for each open
# pack), and from the tokens and patches of a sample. The sample goes into the pack with the highest value among those
# with room for it, and of equal ones into the first.


def _first(room_tokens: np.ndarray, room_patches: np.ndarray, tokens: float, patches: float) -> float:
    """Choose the first pack with room: all have the same value."""
    return 0.0


def _least_room(samples: _Samples) -> Rule:
    """Choose the least room, of both budgets together."""
    return lambda room_tokens, room_patches, tokens, patches: (
        -(room_tokens / samples.max_length + room_patches / samples.max_patches)
    )


def _same_direction(samples: _Samples) -> Rule:
    """Choose the most room in the direction of the sample: the scalar product of both, as shares of the budgets."""
    token_scale, patch_scale = samples.max_length**-2, samples.max_patches**-2
    return lambda room_tokens, room_patches, tokens, patches: (
        room_tokens * (tokens * token_scale) + room_patches * (patches * patch_scale)
    )


def _most_alike(samples: _Samples) -> Rule:
    """Choose the room whose two budgets are most alike once the sample is in."""
    return lambda room_tokens, room_patches, tokens, patches: (
        -np.abs((room_tokens - tokens) / samples.max_length - (room_patches - patches) / samples.max_patches)
    )


def _placed(samples: _Samples, order: np.ndarray, rule: Rule, num_open: int) -> np.ndarray:
    """Place each sample: `num_open` packs are open from the start, and one more whenever none has room.

    Args:
        samples: what is placed.
        order: the numbers of the samples in the order in which they are placed; shape (number of samples,).
        rule: chooses among the open packs.
        num_open: how many packs are open from the start.

    Returns:
        The number of each sample's pack; int64, shape (number of samples,). Packs that stay empty have a number, too.
    """
    tokens, patches = samples.tokens[order], samples.patches[order]
    # the least that the sample at a place in the order, or one after it, takes of each budget
    least_tokens = np.minimum.accumulate(tokens[::-1])[::-1]
    least_patches = np.minimum.accumulate(patches[::-1])[::-1]
    # for each open pack its number, and its room
    open_packs = np.arange(num_open)
    room_tokens = np.full(num_open, samples.max_length)
    room_patches = np.full(num_open, samples.max_patches)
    num_packs = num_open
    pack_of = np.empty(len(order), np.int64)
    sizes = zip(order.tolist(), tokens.tolist(), patches.tolist(), strict=True)
    for at, (sample, sample_tokens, sample_patches) in enumerate(sizes):
        if at % _SAMPLES_BETWEEN_SIFTS == 0:
            useful = (room_tokens >= least_tokens[at]) & (room_patches >= least_patches[at])
            open_packs, room_tokens, room_patches = open_packs[useful], room_tokens[useful], room_patches[useful]
        has_room = (room_tokens >= sample_tokens) & (room_patches >= sample_patches)
        values = np.where(has_room, rule(room_tokens, room_patches, sample_tokens, sample_patches), -np.inf)
        place = int(values.argmax()) if len(open_packs) else None
        if place is None or not has_room[place]:
            place = len(open_packs)
            open_packs = np.append(open_packs, num_packs)
            room_tokens = np.append(room_tokens, samples.max_length)
            room_patches = np.append(room_patches, samples.max_patches)
            num_packs += 1
        room_tokens[place] -= sample_tokens
        room_patches[place] -= sample_patches
        pack_of[sample] = open_packs[place]
    return pack_of
