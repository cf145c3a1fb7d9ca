"""Packing long rows: a linear program over a few lengths, and real packs after its solution.

With a hundred thousand lengths the knapsack of `packlib.packing.optimal` takes minutes. Here prices are linear between
some hundred lengths, the knots. The linear program restricted to such prices has a row a knot: a sequence between two
knots counts as a part of each, so that sequences and tokens stay the same.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from numba import njit

from packlib.packing.certificate import PRICE_OF_A_PACK
from packlib.packing.knapsack import Multiset
from packlib.packing.master import MasterProblem
from packlib.packing.relaxed_knapsack import LAYERS, Fluid, best_with_another, deepest, fill_layers, splits

_CELLS = 1 << 12  # of the grid on which packs are priced
_KNOTS = 60  # lengths in each series of knots


def choose_knots(counts: np.ndarray, grid: int, series: int = _KNOTS) -> np.ndarray:
    """Where prices may bend: ascending lengths, from the shortest to the longest that occurs.

    Two series, one even in the logarithm of the length and one in that of the room beside it, and a step at each
    length of which one pack more takes one fewer. Long ones lie on the grid.
    """
    used = np.flatnonzero(counts)
    if len(used) <= 2 * series:
        return used
    capacity, low, high = len(counts) - 1, int(used[0]), int(used[-1])
    first = capacity // (LAYERS + 1) + 1
    up = np.geomspace(low, high, series)
    down = capacity - np.geomspace(low, capacity, series)
    parts = capacity // np.arange(2, 9) // grid * grid
    if low > capacity // 100:  # beside longer ones there is room for one fewer of the shortest
        parts = np.concatenate([parts, capacity - low * np.arange(1, capacity // low)])
    knots = np.concatenate([up, down, parts, parts + grid]).astype(np.int64)
    knots = np.where(knots >= first, knots // grid * grid, knots)
    knots = np.append(knots, first - 1)
    knots = np.concatenate([knots[(knots > low) & (knots < high)], [low, high]])
    return np.unique(knots)


def hat_weights(lengths: np.ndarray, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each length the knot at or below it (index), and the part of a sequence that counts as the next knot."""
    below = np.clip(np.searchsorted(knots, lengths, side="right") - 1, 0, max(len(knots) - 2, 0))
    if len(knots) == 1:
        return below, np.zeros(len(lengths))
    return below, (lengths - knots[below]) / (knots[below + 1] - knots[below])


def on_knots(counts: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """How many sequences count as each knot; float64."""
    used = np.flatnonzero(counts)
    below, part = hat_weights(used, knots)
    n = counts[used].astype(float)
    weights = np.bincount(below, n * (1 - part), len(knots))
    weights[1:] += np.bincount(below, n * part, len(knots))[:-1]
    return weights


@njit(cache=True)
def _best_with_each(f, capacity, grid, depth, weights, values, lengths, prices, slopes):  # pragma: no cover (compiled)
    """For each item (one long knot) the best pack with it: its value, and the number and cells of the other items."""
    n = len(weights)
    found = np.zeros((n, 3), np.int64)
    for i in range(n):
        for k in range(len(f) - 1):
            places = depth - k - 1
            if places < 0:
                break
            j = len(lengths) - 1
            for c in range((capacity // grid) - weights[i] + 1):
                room = capacity - (c + weights[i]) * grid
                while places * lengths[j] > room:
                    j -= 1
                value = values[i] + f[k, c] + places * prices[j] + slopes[j] * (room - places * lengths[j])
                if value > found[i, 0]:
                    found[i, 0], found[i, 1], found[i, 2] = value, k, c
    return found


class LongRows:
    """The linear program on the knots."""

    def __init__(self, counts: np.ndarray, max_sequences_per_pack: int | None) -> None:
        self.counts = counts
        self.capacity = len(counts) - 1
        self.used = np.flatnonzero(counts)
        self.depth = deepest(counts > 0, max_sequences_per_pack)
        self.grid = -(-self.capacity // _CELLS)
        self.first, self.layers = splits(self.capacity, self.depth)[-1 if self.grid == 1 and self.used[0] > self.capacity // 100 else 0]
        self.first = max(self.first, int(self.used[0]))
        knots = choose_knots(counts, self.grid)
        self.knots = knots[on_knots(counts, knots) > 0]
        self.weights = on_knots(counts, self.knots)
        self.plan_of: dict[Multiset, tuple[tuple[int, ...], float]] = {}
        whole = np.zeros_like(counts)
        whole[self.knots] = np.maximum(np.rint(self.weights), 1).astype(np.int64)
        self.whole = whole
        self.master = MasterProblem(whole)
        self.prices = self.knots * (PRICE_OF_A_PACK // self.capacity)
        for knot in self.knots.tolist():
            pack = ((knot, min(self.depth, self.capacity // knot)),)
            is_long = knot >= self.first
            self.plan_of[pack] = ((knot,) * pack[0][1], 0.0) if is_long else ((), float(pack[0][1]))
            self.master.add([pack])

    def backtrack(self, f, weights, values, k, c) -> list[int]:
        """The items (indices) of the pack behind f[k, c]."""
        items = []
        while k and f[k, c]:
            if f[k - 1, c] == f[k, c]:
                k -= 1
                continue
            fits = np.flatnonzero((weights <= c) & (weights * k <= self.capacity // self.grid))
            i = int(fits[np.flatnonzero(f[k - 1, c - weights[fits]] + values[fits] == f[k, c])[0]])
            items.append(i)
            k, c = k - 1, c - int(weights[i])
        return items

    def price(self, prices: np.ndarray):
        """Find packs worth much at these prices of the knots (int64).

        Returns the packs as (length, copies) with parts of copies, and the value of the best.
        """
        is_long = self.knots >= self.first
        short = ~is_long
        fluid = Fluid.of(self.knots[short], prices[short])
        weights, values = self.knots[is_long] // self.grid, prices[is_long]
        knots = self.knots[is_long]
        cells = self.capacity // self.grid
        f = fill_layers(weights, values, cells, self.layers)
        hull = (fluid.lengths, fluid.prices, fluid.slopes)
        # a weight of 0 stands for no item at all
        each = _best_with_each(
            f, self.capacity, self.grid, self.depth, np.append(weights, 0), np.append(values, 0), *hull
        )
        table = np.floor(np.interp(np.arange(self.capacity + 1), self.knots, prices)).astype(np.int64)
        other = best_with_another(f, self.capacity, self.grid, self.depth, *hull[:2], self.first, table)
        packs = []
        for i, (value, k, c) in enumerate(each.tolist()):
            if value:
                items = [int(knots[j]) for j in self.backtrack(f, weights, values, k, c)]
                if i < len(knots):
                    items.append(int(knots[i]))
                packs.append(self.remember(items, fluid))
        for k, (value, length, c) in enumerate(other.tolist()):
            if value:
                items = [int(knots[j]) for j in self.backtrack(f, weights, values, k - 1, c)]
                packs.append(self.remember([*items, length], fluid))
        return packs, max(int(each[:, 0].max()), int(other[:, 0].max()))

    def remember(self, items: list[int], fluid: Fluid) -> Multiset:
        """A pack with these long sequences, and as much of the fluid as fits."""
        places, room = self.depth - len(items), max(self.capacity - sum(items), 0)
        pack: dict[int, float] = {}
        if places > 0 and room:
            j = int(np.searchsorted(fluid.lengths * places, room, side="right")) - 1
            if j == len(fluid.lengths) - 1:
                share = [(j, float(places))]
            else:
                part = (room - places * int(fluid.lengths[j])) / int(fluid.lengths[j + 1] - fluid.lengths[j])
                share = [(j, places - part), (j + 1, part)]
            for j, copies in share:
                if fluid.lengths[j] and copies > 0:
                    pack[int(fluid.lengths[j])] = copies
        shorts = sum(pack.values())
        lengths = np.array(items, np.int64)
        for b, part in zip(*(x.tolist() for x in hat_weights(lengths, self.knots)), strict=True):
            for j, copies in ((b, 1 - part), (b + 1, part)):
                if copies > 0:
                    knot = int(self.knots[j])
                    pack[knot] = pack.get(knot, 0) + copies
        column = tuple(sorted(pack.items(), reverse=True))
        self.plan_of[column] = (tuple(sorted(items, reverse=True)), shorts)
        return column

    def generate(self, seconds: float = math.inf, gap: float = 2e-4, trace=None) -> None:
        started = time.perf_counter()
        n = self.whole[self.knots].astype(float)
        best, center = 0.0, self.prices
        rounds = 0
        while self.master.solve(self.whole, seconds - (time.perf_counter() - started)):
            prices, objective = self.master.prices, self.master.objective
            price_of = dict(zip(self.knots.tolist(), prices.tolist(), strict=True))
            added = 0
            for tenths in (8, 5, 2, 0):
                mixed = (center * tenths + prices * (10 - tenths)) // 10
                packs, value = self.price(mixed)
                rounds += 1
                bound = float(n @ mixed) / value
                if bound > best:
                    best, center = bound, mixed
                added = self.master.add(
                    p for p in packs if sum(price_of[x] * y for x, y in p) > PRICE_OF_A_PACK * (1 + 1e-7)
                )
                if added:
                    break
            if trace:
                trace(rounds, objective, best, added, time.perf_counter() - started)
            if not added or objective <= best * (1 + gap):
                break
            if time.perf_counter() - started > seconds:
                break
        self.prices = center

    def table(self) -> np.ndarray:
        """The prices of all lengths, linear between the knots in whole numbers."""
        table = np.zeros(self.capacity + 1, np.int64)
        price = int(self.prices[0])
        table[: self.knots[0] + 1] = 0
        table[self.knots[0] :] = price
        for a, b, x in zip(self.knots.tolist(), self.knots[1:].tolist(), self.prices[1:].tolist(), strict=False):
            slope = max(0, (x - price) // (b - a))
            table[a : b + 1] = price + slope * np.arange(b - a + 1)
            price += slope * (b - a)
            table[b:] = price
        return table

    def configurations(self) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
        """The last solution in whole packs: the long sequences of a pack, how many short ones, how many packs."""
        merged: dict[tuple[int, ...], list[float]] = {}
        for pack, x in zip(self.master.strategies, self.master.usage.tolist(), strict=True):
            if x > 1e-9:
                items, shorts = self.plan_of[pack]
                both = merged.setdefault(items, [0.0, 0.0])
                both[0] += x
                both[1] += x * shorts
        order = sorted(merged, reverse=True)
        usage, shorts = np.array([merged[items] for items in order]).T
        total = usage.sum()
        ends = np.cumsum(usage) * (math.ceil(total - 1e-6) / total)
        repeats = np.diff(np.floor(ends + 0.5), prepend=0.0).astype(np.int64)
        return order, shorts / usage, repeats


def place_long(order, shorts, repeats, lengths: np.ndarray, capacity: int, depth: int):
    """Give the longest sequences to the places planned for them; a pack without short ones keeps its last place open.

    Args:
        lengths: all sequences, from long to short.

    Returns:
        The pack of each sequence (-1: not placed), the room and the places left in each pack, and the sequences that
        are still planned for it.
    """
    starts = np.cumsum(repeats) - repeats
    packs = int(repeats.sum())
    chunks: dict[int, list[tuple[int, int]]] = {}
    wanted = np.rint(shorts).astype(np.int64)
    for s, items in enumerate(order):
        seen: dict[int, int] = {}
        for i, length in enumerate(items):
            copy = seen[length] = seen.get(length, -1) + 1
            if i == len(items) - 1 and wanted[s] == 0:
                wanted[s] = 1
                copy = -1
            chunks.setdefault(length, []).append((copy, s))
    pack_of = np.full(len(lengths), -1, np.int64)
    room, places = np.full(packs, capacity), np.full(packs, depth)
    more = np.zeros(packs, np.int64)  # room beyond the plan
    done = 0
    for target in sorted(chunks, reverse=True):
        slots = sum(int(repeats[s]) for _, s in chunks[target])
        open_slots = sum(int(repeats[s]) for copy, s in chunks[target] if copy >= 0)
        given = np.arange(done, min(done + slots, len(lengths)))
        done += len(given)
        if not open_slots:
            continue
        given = given[np.diff(np.arange(len(given) + 1) * open_slots // slots) > 0]
        by_copy: dict[int, list[int]] = {}
        for copy, s in chunks[target]:
            if copy >= 0:
                by_copy.setdefault(copy, []).append(s)
        size_of = {copy: sum(int(repeats[s]) for s in configs) for copy, configs in by_copy.items()}
        which = np.repeat(np.arange(len(by_copy)), [size_of[copy] for copy in sorted(by_copy)])
        if len(by_copy) > 1:  # each copy takes its share of long and short
            rank = np.concatenate([(np.arange(size_of[copy]) + 0.5) / size_of[copy] for copy in sorted(by_copy)])
            which = which[np.argsort(rank, kind="stable")]
        which = which[: len(given)]
        for i, copy in enumerate(sorted(by_copy)):
            ids = np.concatenate([np.arange(starts[s], starts[s] + repeats[s]) for s in by_copy[copy]])
            ids = ids[np.argsort(-more[ids], kind="stable")]
            mine = given[which == i]
            ids = ids[: len(mine)]
            fits = lengths[mine] <= room[ids]
            ids, mine = ids[fits], mine[fits]
            pack_of[mine] = ids
            room[ids] -= lengths[mine]
            places[ids] -= 1
            more[ids] += target - lengths[mine]
    return pack_of, room, places, np.minimum(np.repeat(wanted, repeats), places)


@njit(cache=True)
def deal(lengths, pack_of, room, places, wanted):  # pragma: no cover (compiled)
    """Give each sequence, from long to short, to a pack that it closes, or to the one with most room for each
    sequence that is still wanted."""
    packs = len(room)
    heap = np.empty(packs, np.int64)  # a heap of packs by ratio, the largest on top
    ratio = np.zeros(packs)
    size = 0
    top, least = lengths[0], lengths[-1]
    head = np.full(top + 1, -1, np.int64)  # packs waiting for a sequence of that length, linked
    after = np.full(packs, -1, np.int64)
    closing = np.empty(packs, np.int64)  # a stack of packs that want one more, the least room on top
    closings = 0
    for p in range(packs):
        if places[p] > 0 and room[p] >= least:
            wanted[p] = max(wanted[p], 1)
            r = min(room[p], top)
            after[p] = head[r]
            head[r] = p
    last = top + 1
    for i in range(len(lengths)):
        if pack_of[i] >= 0:
            continue
        length = lengths[i]
        for r in range(last - 1, length - 1, -1):  # these packs have room for it
            p = head[r]
            head[r] = -1
            while p >= 0:
                q = after[p]
                if wanted[p] == 1 and room[p] > r and places[p] > 1:
                    wanted[p] = 2
                if wanted[p] == 1:
                    closing[closings] = p
                    closings += 1
                else:
                    ratio[p] = room[p] / wanted[p]
                    at = size
                    size += 1
                    while at > 0 and ratio[heap[(at - 1) // 2]] < ratio[p]:
                        heap[at] = heap[(at - 1) // 2]
                        at = (at - 1) // 2
                    heap[at] = p
                p = q
        last = length
        while closings or size:
            if closings:
                closings -= 1
                p = closing[closings]
                if room[p] >= length + least and places[p] > 1:
                    wanted[p] = 2
                    ratio[p] = room[p] / wanted[p]
                    at = size
                    size += 1
                    while at > 0 and ratio[heap[(at - 1) // 2]] < ratio[p]:
                        heap[at] = heap[(at - 1) // 2]
                        at = (at - 1) // 2
                    heap[at] = p
                    continue
                pack_of[i] = p
                room[p] -= length
                places[p] -= 1
                if places[p] > 0 and room[p] >= least:
                    after[p] = head[room[p]]  # shorter than this one
                    head[room[p]] = p
                    if room[p] >= length:
                        head[room[p]] = after[p]
                        closing[closings] = p
                        closings += 1
                break
            p = heap[0]
            taken = room[p] >= length
            if taken:
                pack_of[i] = p
                room[p] -= length
                places[p] -= 1
                wanted[p] = min(max(wanted[p] - 1, 1), places[p])
            if taken and wanted[p] > 1 and room[p] >= length:
                q = p
                ratio[p] = room[p] / wanted[p]
            else:
                size -= 1
                q = heap[size]
                if places[p] > 0 and room[p] >= least:
                    if room[p] < length:
                        after[p] = head[room[p]]
                        head[room[p]] = p
                    else:
                        closing[closings] = p
                        closings += 1
            at = 0  # q sinks from the top
            while size > 0:
                child = 2 * at + 1
                if child >= size:
                    break
                if child + 1 < size and ratio[heap[child + 1]] > ratio[heap[child]]:
                    child += 1
                if ratio[heap[child]] <= ratio[q]:
                    break
                heap[at] = heap[child]
                at = child
            if size > 0:
                heap[at] = q
            if taken:
                break


@njit(cache=True)
def _shorten(length, least, most, q, contents, starts, sizes, room, order, ends, heads):  # pragma: no cover (compiled)
    """Where there is a sequence shorter than `length`, by `least` if possible or else more, up to `most`, in a pack
    other than q that has room for the difference: the pack, and the position in `contents`; or -1."""
    for d in range(least, min(most, length - 1) + 1):
        a = length - d
        while heads[a] < ends[a] and room[order[heads[a]]] == 0:
            heads[a] += 1
        for entry in range(heads[a], min(heads[a] + 8, ends[a])):
            p = order[entry]
            if p != q and room[p] >= d:
                for at in range(starts[p], starts[p] + sizes[p]):
                    if contents[at] == a:
                        return p, at
    return -1, -1


@njit(cache=True)
def _fit(length, q, contents, starts, sizes, room, order, ends, heads, widest):  # pragma: no cover (compiled)
    """Move room from other packs until a sequence fits into pack q; returns its length, maybe of a shorter one that
    it was swapped for, and whether it fits."""
    for _ in range(8):
        need = length - room[q]
        if need <= 0:
            return length, True
        p, at, b = -1, -1, -1
        least, most = need, widest
        while p < 0 and most > 0:
            p, at = _shorten(length, least, most, q, contents, starts, sizes, room, order, ends, heads)
            if p >= 0:
                break
            tried = -1
            for b in range(starts[q], starts[q] + sizes[q]):
                if contents[b] != tried:
                    tried = contents[b]
                    p, at = _shorten(tried, least, most, q, contents, starts, sizes, room, order, ends, heads)
                    if p >= 0:
                        break
            if p < 0:
                b = -1
                least, most = least // 2, min(least, widest + 1) - 1  # a part of it
                least = max(least, 1)
        if p < 0:
            return length, False
        if b < 0:
            room[p] -= length - contents[at]
            length, contents[at] = contents[at], length
        else:
            d = contents[b] - contents[at]
            contents[b], contents[at] = contents[at], contents[b]
            room[p] -= d
            room[q] += d
    return length, room[q] >= length


@njit(cache=True)
def gather_room(waiting, contents, starts, sizes, room, places, order, begins, ends, tries):  # pragma: no cover
    """Make room for what found no place: room is moved from pack to pack until a sequence fits.

    `waiting` (lengths, from long to short) changes: what does not fit may be swapped for something shorter.
    Returns which still wait.
    """
    heads = begins.copy()
    widest = 0
    for p in range(len(room)):
        widest = max(widest, min(room[p], waiting[0]))
    bucket = np.full(widest + 1, -1, np.int64)
    after = np.full(len(room), -1, np.int64)
    for p in range(len(room)):
        if places[p] > 0 and room[p] > 0:
            r = min(room[p], widest)
            after[p] = bucket[r]
            bucket[r] = p
    r = widest
    fits = np.zeros(len(waiting), np.bool_)
    for w in range(len(waiting)):
        while tries > 0:
            while r > 0 and bucket[r] < 0:
                r -= 1
            if r == 0:
                break
            q = bucket[r]
            bucket[r] = after[q]
            if min(room[q], widest) < r:
                if room[q] > 0:
                    after[q] = bucket[room[q]]
                    bucket[room[q]] = q
                continue
            waiting[w], fits[w] = _fit(
                waiting[w], q, contents, starts, sizes, room, order, ends, heads, widest
            )
            if fits[w]:
                contents[starts[q] + sizes[q]] = waiting[w]
                sizes[q] += 1
                room[q] -= waiting[w]
                places[q] -= 1
                if places[q] > 0 and 0 < room[q]:
                    n = min(room[q], r)
                    after[q] = bucket[n]
                    bucket[n] = q
                break
            tries -= 1
    return ~fits


def gather(lengths: np.ndarray, pack_of: np.ndarray, room: np.ndarray, places: np.ndarray):
    """Contents of the packs after gathering room: lengths, starts, sizes, and the sequences that are left."""
    placed = np.flatnonzero(pack_of >= 0)
    sizes = np.bincount(pack_of[placed], minlength=len(room))
    spare = np.minimum(places, 4)
    starts = np.cumsum(sizes + spare) - sizes - spare
    by_pack = placed[np.argsort(pack_of[placed], kind="stable")]
    contents = np.zeros(int((sizes + spare).sum()), np.int64)
    at = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(placed))
    contents[at] = lengths[by_pack]
    order = placed[np.lexsort((-room[pack_of[placed]], lengths[placed]))]
    counts = np.bincount(lengths[placed], minlength=int(lengths[0]) + 1)
    ends = np.cumsum(counts)
    waiting = lengths[pack_of < 0]
    if len(waiting):
        tries = 1000 + len(waiting)
        waiting = waiting[
            gather_room(waiting, contents, starts, sizes, room, spare, pack_of[order], ends - counts, ends, tries)
        ]
    return contents, starts, sizes, waiting
