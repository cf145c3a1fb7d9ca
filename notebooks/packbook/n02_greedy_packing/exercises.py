"""The exercises of notebook 02, in its order."""

from packbook.exercises import Exercise, Exercises
from packbook.n02_greedy_packing.runs import EIGHT, SLOTS
from packlib.lengths import LengthHistogram
from packlib.packing import plan


def tightest_space(spaces, length):
    """Return the space of the pack that takes `length` under LPFHP; 0 if a new pack must be opened."""
    return min((space for space in spaces if space >= length), default=0)


def draw_spaces_and_length(rng):
    """Draw the spaces of up to six packs, and a length."""
    return [rng.randint(1, 9) for _ in range(rng.randint(0, 6))], rng.randint(1, 9)


def move_group(groups, length, copies, slots):
    """Return `groups` after SPFHP placed all copies of a length; `groups[space]` packs have this space left."""
    groups, waiting = dict(groups), copies
    while waiting:
        widest = max((space for space, packs in groups.items() if packs), default=0)
        if widest < length:
            break
        moved = min(waiting, groups[widest])
        groups[widest] -= moved
        groups[widest - length] = groups.get(widest - length, 0) + moved
        waiting -= moved
    groups[slots - length] = groups.get(slots - length, 0) + waiting  # each of these copies opens a pack
    return {space: packs for space, packs in groups.items() if packs}


def draw_groups(rng):
    """Draw groups of packs by space, a length, its copies, and the slots of a pack."""
    slots = rng.choice((10, 16, 32))
    length = rng.randint(1, slots // 2)
    spaces = rng.sample(range(slots - length), rng.randint(0, 4))  # each old pack holds a longer sequence
    return {space: rng.randint(1, 4) for space in spaces}, length, rng.randint(1, 9), slots


def one_by_one(choose, groups, length, copies, slots, again=False):
    """Place copies of a length one at a time, and return the groups; `choose` picks among the spaces that are enough.

    Args:
        again: whether a new pack may take further copies.
    """
    groups, opened = dict(groups), 0
    for _ in range(copies):
        large_enough = [space for space, packs in groups.items() if packs and space >= length]
        if large_enough:
            space = choose(large_enough)
            groups[space] -= 1
            groups[space - length] = groups.get(space - length, 0) + 1
        elif again:
            groups[slots - length] = groups.get(slots - length, 0) + 1
        else:
            opened += 1
    groups[slots - length] = groups.get(slots - length, 0) + opened
    return {space: packs for space, packs in groups.items() if packs}


def one_copy_for_each_pack(groups, length, copies, slots):
    """Return the groups if an old pack takes at most one copy, the emptiest packs first."""
    new_groups, waiting = {}, copies
    for space, packs in sorted(groups.items(), reverse=True):
        taking = min(waiting, packs) if space >= length else 0
        for new_space, number in ((space, packs - taking), (space - length, taking)):
            if number:
                new_groups[new_space] = new_groups.get(new_space, 0) + number
        waiting -= taking
    if waiting:
        new_groups[slots - length] = new_groups.get(slots - length, 0) + waiting
    return new_groups


def copies_left_out(groups, length, copies, slots):
    """Return the groups without the copies that find no space."""
    moved = move_group(groups, length, copies, slots)
    opened = sum(moved.values()) - sum(groups.values())
    moved[slots - length] = moved.get(slots - length, 0) - opened
    return {space: packs for space, packs in moved.items() if packs}


def without_dropping_empty_groups(groups, length, copies, slots):
    """Return the groups, and with 0 packs those that are empty now."""
    return dict.fromkeys(groups, 0) | move_group(groups, length, copies, slots)


def lpfhp_packs(lengths, max_length, depth):
    """Count the packs that LPFHP fills when a pack holds at most `depth` sequences."""
    packs = []
    for length in sorted(lengths, reverse=True):
        open_packs = [pack for pack in packs if sum(pack) + length <= max_length and len(pack) < depth]
        if open_packs:
            max(open_packs, key=sum).append(length)
        else:
            packs.append([length])
    return len(packs)


def draw_lengths_and_depth(rng):
    """Draw up to twelve lengths, their maximum length and a depth limit."""
    max_length = rng.choice((4, 10, 12, 14))
    lengths = [rng.randint(1, max_length) for _ in range(rng.randint(1, 12))]
    return lengths, max_length, rng.randint(1, 5)


def packs_with(choose, order, lengths, max_length, depth):
    """Count another rule's packs: `order` sorts the sequences, and `choose` picks among the packs with room."""
    packs = []
    for length in order(lengths):
        open_packs = [pack for pack in packs if sum(pack) + length <= max_length and len(pack) < depth]
        if open_packs:
            choose(open_packs).append(length)
        else:
            packs.append([length])
    return len(packs)


def long_to_short(lengths):
    return sorted(lengths, reverse=True)


def fullest(packs):
    return max(packs, key=sum)


def not_fooled(lengths):
    """Return why `lengths` do not make LPFHP take a pack too many, or None if they do."""
    lengths = list(lengths)
    if not 1 <= len(lengths) <= 8 or not set(lengths) <= set(range(1, SLOTS + 1)):
        return f"give one to eight whole lengths from 1 to {SLOTS}."
    histogram = LengthHistogram.from_lengths(lengths, SLOTS)
    greedy, best = plan(histogram, method="lpfhp").num_packs, plan(histogram, method="optimal").num_packs
    return None if greedy > best else f"packs by LPFHP: {greedy}; packs of the best packing: {best}."


check = Exercises(
    [
        Exercise(
            "tightest_space",
            tightest_space,
            level=1,
            minutes=5,
            draw=draw_spaces_and_length,
            hint="first keep the spaces that are large enough, then take the smallest of them.",
            slips={
                "a space of exactly the length is enough, and the best of all: it leaves nothing.": (
                    lambda spaces, length: min((space for space in spaces if space > length), default=0)
                ),
                "that is the first space that is enough; LPFHP takes the smallest of them.": (
                    lambda spaces, length: next((space for space in spaces if space >= length), 0)
                ),
                "that is the rule of the most space; LPFHP takes the least that is enough.": (
                    lambda spaces, length: max((space for space in spaces if space >= length), default=0)
                ),
            },
        ),
        Exercise(
            "move_group",
            move_group,
            level=2,
            minutes=15,
            draw=draw_groups,
            cases=[({}, 3, 4, 10), ({4: 1, 6: 1}, 3, 5, 10), ({112: 500}, 90, 700, 512)],
            hint=(
                "the emptiest old packs take one copy each, as many as there are packs or copies. They are then less "
                "empty: look for the emptiest again. New packs are added in the end, so that none takes a second copy."
            ),
            slips={
                "that lets new packs take further copies; under SPFHP a new pack takes one copy of this length.": (
                    lambda groups, length, copies, slots: one_by_one(max, groups, length, copies, slots, again=True)
                ),
                "that is the rule of the least space; under SPFHP the emptiest old packs take the copies.": (
                    lambda *given: one_by_one(min, *given)
                ),
                "an old pack may take a second copy, whenever it is among the emptiest again.": one_copy_for_each_pack,
                "each copy that finds no space opens a new pack; those are missing.": copies_left_out,
                "leave out the groups of no packs.": without_dropping_empty_groups,
            },
        ),
        Exercise(
            "lpfhp_packs",
            lpfhp_packs,
            level=2,
            minutes=10,
            draw=draw_lengths_and_depth,
            # so small a case tells the fullest pack from the first one with room
            cases=[([9, 7, 6, 5, 4, 3, 2, 2], 10, 8), ([14, 10, 6, 5, 3, 2, 2], 14, 9)],
            hint="from long to short, into the pack with the least space that has room and is below the depth limit.",
            slips={
                "a pack may hold at most `depth` sequences, also where it has space for more.": (
                    lambda lengths, max_length, depth: lpfhp_packs(lengths, max_length, len(lengths))
                ),
                "that takes the first pack with room; LPFHP takes the fullest one.": (
                    lambda *given: packs_with(lambda packs: packs[0], long_to_short, *given)
                ),
                "that takes the sequences in the order given; LPFHP takes them from long to short.": (
                    lambda *given: packs_with(fullest, list, *given)
                ),
                "that takes the emptiest pack with room; LPFHP takes the fullest one.": (
                    lambda *given: packs_with(lambda packs: min(packs, key=sum), long_to_short, *given)
                ),
            },
        ),
        Exercise(
            "fools_lpfhp",
            [4, 4, 3, 3, 3, 3],
            level=3,
            minutes=15,
            fault=not_fooled,
            hint="two packs that are exactly full are a good start: which of their lengths would LPFHP join instead?",
            slips={
                "the eight sequences of this notebook fool the rule of the most space, but not LPFHP.": list(EIGHT),
                "that is right twice over; six of these lengths are enough.": [4, 4, 3, 3, 3, 3] * 2,
            },
        ),
    ]
)
