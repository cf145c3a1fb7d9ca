"""The exercises of notebook 02, in its order."""

from packbook.exercises import Exercise, Exercises
from packbook.n02_greedy_packing.runs import EIGHT, SLOTS
from packlib.lengths import LengthHistogram
from packlib.packing import plan


def tightest_space(spaces, length):
    """The space of the pack that takes `length` under LPFHP; 0 if a new pack must be opened."""
    return min((space for space in spaces if space >= length), default=0)


def draw_spaces_and_length(rng):
    return [rng.randint(1, 9) for _ in range(rng.randint(0, 6))], rng.randint(1, 9)


def place_copies(spaces, length, copies, slots):
    """The spaces after SPFHP placed all `copies` of a length, as a sorted list."""
    spaces, opened = list(spaces), []
    for _ in range(copies):
        widest = max(spaces, default=0)
        if widest >= length:
            spaces[spaces.index(widest)] -= length
        else:
            opened.append(slots - length)  # and no further copy goes there
    return sorted(spaces + opened)


def draw_spaces_and_copies(rng):
    slots = rng.choice((10, 16, 32))
    spaces = [rng.randint(0, slots - 1) for _ in range(rng.randint(0, 5))]
    return spaces, rng.randint(1, slots // 2), rng.randint(1, 6), slots


def copies_into_new_packs_too(spaces, length, copies, slots):
    spaces = list(spaces)
    for _ in range(copies):
        able = [space for space in spaces if space >= length]
        if not able:
            spaces.append(slots)
            able = [slots]
        spaces[spaces.index(max(able))] -= length
    return sorted(spaces)


def copies_to_the_tightest_space(spaces, length, copies, slots):
    spaces, opened = list(spaces), []
    for _ in range(copies):
        tightest = tightest_space(spaces, length)
        if tightest:
            spaces[spaces.index(tightest)] -= length
        else:
            opened.append(slots - length)
    return sorted(spaces + opened)


def one_copy_for_each_pack(spaces, length, copies, slots):
    spaces, left = sorted(spaces, reverse=True), copies
    for i, space in enumerate(spaces):
        if left and space >= length:
            spaces[i] -= length
            left -= 1
    return sorted(spaces + [slots - length] * left)


def lpfhp_packs(lengths, max_length, depth):
    """How many packs LPFHP fills when a pack holds at most `depth` sequences."""
    packs = []
    for length in sorted(lengths, reverse=True):
        able = [pack for pack in packs if sum(pack) + length <= max_length and len(pack) < depth]
        if able:
            max(able, key=sum).append(length)
        else:
            packs.append([length])
    return len(packs)


def draw_lengths_and_depth(rng):
    max_length = rng.choice((4, 10, 12, 14))
    lengths = [rng.randint(1, max_length) for _ in range(rng.randint(1, 12))]
    return lengths, max_length, rng.randint(1, 5)


def packs_with(choose, order, lengths, max_length, depth):
    """How many packs another rule fills: `choose` picks among the packs with room, `order` the next sequence."""
    packs = []
    for length in order(lengths):
        able = [pack for pack in packs if sum(pack) + length <= max_length and len(pack) < depth]
        if able:
            choose(able).append(length)
        else:
            packs.append([length])
    return len(packs)


def long_to_short(lengths):
    return sorted(lengths, reverse=True)


def fullest(packs):
    return max(packs, key=sum)


def not_fooled(lengths):
    """Why `lengths` do not make LPFHP take a pack too many, or None if they do."""
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
            "place_copies",
            place_copies,
            level=2,
            minutes=15,
            draw=draw_spaces_and_copies,
            cases=[([], 3, 4, 10), ([4, 6], 3, 5, 10)],
            hint=(
                "an old pack takes copies as long as it is the emptiest that has room. A new pack takes one copy of "
                "this length, so keep the new packs in a list of their own until all copies are placed."
            ),
            slips={
                "that lets new packs take further copies; under SPFHP a new pack takes one copy of this length.": (
                    copies_into_new_packs_too
                ),
                "that is the rule of the least space; under SPFHP the emptiest old pack takes each copy.": (
                    copies_to_the_tightest_space
                ),
                "an old pack may take a second copy, whenever it is the emptiest again.": one_copy_for_each_pack,
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
