"""Save packs by filling a few of them again, over and over: a local search.

A plan that is a few packs above its bound wastes little in most packs, but that adds up to a few packs in all. Take a
few packs apart and fill them again, one after the other, each as full as its sequences can fill it. Keep the new packs
if the sum of the squares of their free slots is at least that of the old packs: 6 and 0 free slots count for more than
3 and 3. So free slots gather in fewer and fewer packs, until one of these has nothing left to hold.

Filling a pack as full as can be is a subset sum. The sums that sequences can make are a set of bits (`bit_sets.py`);
under a depth limit there is a set for each number of sequences. See Fleszar and Hindi, New heuristics for
one-dimensional bin-packing (Computers & Operations Research 29, 2002), and, for squares as what such a search should
raise, Falkenauer, A hybrid grouping genetic algorithm for bin packing (Journal of Heuristics 2, 1996).
"""

import random
from collections.abc import Sequence

from packlib.packing.bit_sets import chosen_for, highest, sums_up_to, up_to
from packlib.packing.greedy import EqualPacks
from packlib.packing.search.best import Best

_STEPS_A_ROUND = 50_000  # of refilling: some 100 ms
_DEADLINE_STEPS = 600  # what a step of refilling counts for the deadline, whose steps are shorter
_STEPS_A_SEQUENCE = 50  # of the deadline: listing all packs, at first and whenever one was saved
_SEQUENCES = 2_000_000  # of more, each round would change too little
WRITING = 3e-6  # seconds a sequence: writing the plan down and verifying it, which must fit before the deadline
_FEWEST, _MOST = 3, 6  # packs that are taken apart at a time; two save less in as many steps
_ROOMY = 0.9  # of these, those that are chosen by their free slots; the others are any
_LONGEST_FIRST = 0.7  # of the packs, those that begin with the longest sequence; the others begin with any
_IN_ORDER = 0.5  # of the packs, those for which longer sequences are preferred; for the others any are
# The chance that a pack with free slots is taken apart: 4 times their share of the pack, and a twentieth.
_BY_FREE_SLOTS, _AT_LEAST = 4, 20
_LISTED = 500  # attempts until packs with free slots are listed again, at least
_SCARCE = 0.9  # of all places, the share that is taken where a free place counts like its share of the slots
_STEPS_AN_ATTEMPT = 20  # beside those of filling
_SLOTS_A_STEP = 1 << 14  # of a set of bits; the steps of longer ones count for more


def refill(best: Best, patience: int) -> None:
    """Refill the best plan and offer the results, until the bound is met or the deadline is over.

    A plan of more than `_SEQUENCES` sequences is left as it is.

    Args:
        patience: rounds in a row that save no pack, after which it ends, too.
    """
    sequences = best.histogram.num_sequences
    if best.done() or sequences > _SEQUENCES:
        return
    refilling = Refilling(best.strategies, best.histogram.max_length, best.limit)
    best.deadline.spend(_STEPS_A_SEQUENCE * sequences)
    rounds_without_gain = 0
    while rounds_without_gain < patience and not best.done() and best.deadline.seconds_left() > sequences * WRITING:
        if not best.deadline.next_round():
            break
        steps_before = refilling.steps
        while refilling.steps < steps_before + _STEPS_A_ROUND and len(refilling.packs) > best.lower_bound:
            refilling.attempt()
        best.deadline.spend((refilling.steps - steps_before) * _DEADLINE_STEPS)
        fewer = len(refilling.packs) < best.num_packs
        if fewer:
            best.offer([(pack, 1) for pack in refilling.packs])
            best.deadline.spend(_STEPS_A_SEQUENCE * len(refilling.packs))
        rounds_without_gain = 0 if fewer else rounds_without_gain + 1
        best.report("refilling", len(best.strategies))


class Refilling:
    """Packs, some of which are taken apart and filled again at a time.

    Attributes:
        packs: the lengths in each pack.
        steps: additions of sets of bits so far, and what attempts take beside them in such steps, some two microseconds
            each. They are the same on every machine, so a search that ends after so many of them finds the same plan
            everywhere.
    """

    def __init__(self, strategies: Sequence[EqualPacks], max_length: int, max_sequences_per_pack: int | None) -> None:
        self.packs = [pack for pack, repeats in strategies for _ in range(repeats)]
        self.steps = 0
        self._max_length, self._limit = max_length, max_sequences_per_pack
        self._slots_a_place = 0  # what a free place counts for, in free slots
        if max_sequences_per_pack:
            places_taken = sum(map(len, self.packs)) / (len(self.packs) * max_sequences_per_pack)
            self._slots_a_place = max_length // max_sequences_per_pack if places_taken > _SCARCE else 0
        self._free = [self._free_of(pack) for pack in self.packs]  # free slots of each pack
        self._roomy = list[int]()  # the packs with free slots when they were listed last
        self._until_listed = 0  # attempts until they are listed again
        self._random = random.Random(0)

    def attempt(self) -> bool:
        """Take a few packs apart and fill them again; return whether that saved a pack."""
        numbers = self._choose_packs()
        self.steps += _STEPS_AN_ATTEMPT
        squares_before = sum(self._free[number] ** 2 for number in numbers)
        if not squares_before:
            return False  # all of them are full
        filled_packs = self._fill_packs(numbers)
        if filled_packs is None:
            return False
        saved = len(numbers) - len(filled_packs)
        squares_after = sum(self._free_of(pack) ** 2 for pack in filled_packs) + saved * self._free_of(()) ** 2
        if squares_after < squares_before:
            return False
        self._replace(numbers, filled_packs)
        return saved > 0

    def _fill_packs(self, numbers: list[int]) -> list[tuple[int, ...]] | None:
        """Fill new packs with the sequences of these packs; return None if it takes more packs than before."""
        pool = sorted([length for number in numbers for length in self.packs[number]], reverse=True)
        filled_packs = list[tuple[int, ...]]()
        while pool and len(filled_packs) < len(numbers):
            pack, pool = self._fill(pool)
            filled_packs.append(pack)
        return None if pool else filled_packs

    def _replace(self, numbers: list[int], filled_packs: list[tuple[int, ...]]) -> None:
        """Put the packs that were filled in place of those that were taken apart."""
        for number, pack in zip(numbers, filled_packs, strict=False):
            self.packs[number], self._free[number] = pack, self._free_of(pack)
        # the last pack takes the place of a saved one
        for number in sorted(numbers[len(filled_packs) :], reverse=True):
            self.packs[number], self._free[number] = self.packs[-1], self._free[-1]
            self.packs.pop()
            self._free.pop()

    def _free_of(self, pack: tuple[int, ...]) -> int:
        """Count the slots that a pack leaves free; where places are scarce, its free places count, too."""
        free_places = self._limit - len(pack) if self._limit else 0
        return self._max_length - sum(pack) + self._slots_a_place * free_places

    def _choose_packs(self) -> list[int]:
        """Choose packs to take apart, by their indices: some because they have free slots, the others by chance."""
        random, num_packs = self._random.random, len(self.packs)
        if self._until_listed <= 0:
            self._roomy = [number for number, free in enumerate(self._free) if free]
            self._until_listed = max(_LISTED, num_packs // 100)
        self._until_listed -= 1
        num_wanted = min(_FEWEST + int(random() * (_MOST - _FEWEST + 1)), num_packs)
        chosen = dict[int, None]()  # a set that keeps the order, so that the search is the same everywhere
        while len(chosen) < num_wanted:
            number = int(random() * num_packs)
            if random() < _ROOMY and self._roomy:
                number = self._roomy[int(random() * len(self._roomy))]
                # since the list was made, packs were saved, so that there are fewer numbers
                if number >= num_packs or not self._is_taken(self._free[number], random()):
                    continue
            chosen[number] = None
        return list(chosen)

    def _is_taken(self, free: int, chance: float) -> bool:
        """Return whether a pack is taken apart that has so many free slots: always with a quarter, seldom with a few.

        Args:
            chance: drawn from 0 to 1.
        """
        return chance * self._max_length <= _BY_FREE_SLOTS * free + self._max_length // _AT_LEAST

    def _fill(self, pool: list[int]) -> tuple[tuple[int, ...], list[int]]:
        """Fill a pack as full as can be from the lengths in `pool`, sorted from long to short.

        Returns:
            The pack, and the lengths that are left, from long to short; `pool` itself changes.
        """
        chance = self._random.random
        first = pool.pop(0 if chance() < _LONGEST_FIRST else int(chance() * len(pool)))
        space = self._max_length - first
        places = self._limit - 1 if self._limit else len(pool)
        # if the shortest, one more than there are places, do not fit together, then the space ends before the places
        shortest = pool[-1 - places :]
        enough_places = len(shortest) <= places or sum(shortest) > space
        candidates = pool
        if chance() >= _IN_ORDER:
            candidates = sorted(pool, key=lambda _: chance())
        if enough_places:
            chosen = self._fullest(candidates, space)
        else:
            chosen = self._fullest_of_few(candidates, space, places)
        beside = [candidates[index] for index in chosen]
        for length in beside:
            pool.remove(length)
        return (first, *beside), pool

    def _fullest(self, lengths: list[int], space: int) -> list[int]:
        """Choose which of these sequences fill the space best; return their indices."""
        sums = sums_up_to(space, lengths)
        self.steps += len(sums) * (1 + space // _SLOTS_A_STEP)
        return chosen_for(highest(sums[-1]), lengths, sums)[0]

    def _fullest_of_few(self, lengths: list[int], space: int, places: int) -> list[int]:
        """Choose which of these sequences fill the space best, at most `places` of them; return their indices.

        Where free places count as free slots, a choice of fewer sequences must fill more slots.
        """
        # by the number of sequences, from 0 to `places`: the set of their sums; and a list of these after each length
        sums = [1] + [0] * places
        sums_after = [sums]
        for length in lengths:
            with_length = [up_to(space, of_one_fewer << length) for of_one_fewer in sums[:-1]]
            sums = [sums[0], *(without | with_it for without, with_it in zip(sums[1:], with_length, strict=True))]
            sums_after.append(sums)
            if sums[-1] >> space:
                break  # so many sequences as there are places fill the space
        self.steps += len(sums_after) * places * (1 + space // _SLOTS_A_STEP)

        def fullness(number: int) -> int:
            """Return the slots that so many sequences can fill, less what the free places count for."""
            return highest(sums[number]) - self._slots_a_place * (places - number) if sums[number] else -1

        number = max(range(places + 1), key=fullness)
        total = highest(sums[number])
        chosen = list[int]()
        for index in range(len(sums_after) - 2, -1, -1):
            is_needed = not sums_after[index][number] >> total & 1  # the lengths before this one do not make the sum
            if is_needed:
                chosen.append(index)
                total -= lengths[index]
                number -= 1
        return chosen
