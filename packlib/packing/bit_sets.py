"""Sets of whole numbers as the bits of one of Python's integers: bit n is 1 if n is in the set.

Such integers have any number of bits, and Python works on 30 of them at a time. One AND, OR or shift therefore treats
all numbers of a set at once: shifted by 5, a set holds each of its numbers plus 5. `exact_filling.py` looks for
sequences that fill a space in this way, and `tree_filling.py` adds up trees.
"""

from collections.abc import Iterable, Sequence


def set_of(numbers: Iterable[int], below: int) -> int:
    """Return the set of these numbers, each from 0 to `below` less 1.

    >>> from packlib.packing.bit_sets import set_of
    >>> bin(set_of([0, 2, 3], below=8))
    '0b1101'
    """
    as_bytes = bytearray(below // 8 + 1)  # one bit after the other in an integer would copy it each time
    for number in numbers:
        as_bytes[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(as_bytes, "little")


def up_to(most: int, numbers: int) -> int:
    """Return the set of those of `numbers` that are `most` or less."""
    return numbers & ((2 << most) - 1)


def highest(numbers: int) -> int:
    """Return the highest number of a set; -1 if the set is empty."""
    return numbers.bit_length() - 1


def sums_up_to(space: int, sizes: Sequence[int], start: int = 1) -> list[int]:
    """Return the sets of sums up to `space`: of no size, of the first or none, of any among the first two, and so on.

    The list ends early once a sum fills the space.

    Args:
        space: the largest sum.
        sizes: each may be added once.
        start: the set of numbers that the sizes are added to; by default {0}, which is the integer 1.

    >>> from packlib.packing.bit_sets import sums_up_to
    >>> [bin(sums) for sums in sums_up_to(5, [2, 3])]
    ['0b1', '0b101', '0b101101']
    """
    sums = [up_to(space, start)]
    for size in sizes:
        if sums[-1] >> space:
            break
        sums.append(up_to(space, sums[-1] | sums[-1] << size))
    return sums


def chosen_for(total: int, sizes: Sequence[int], sums: Sequence[int]) -> tuple[list[int], int]:
    """Return which of `sizes` add up to `total`, by their places, and the number of `start` that they are added to.

    >>> from packlib.packing.bit_sets import chosen_for, sums_up_to
    >>> chosen_for(5, [2, 3], sums_up_to(5, [2, 3]))
    ([1, 0], 0)

    Args:
        total: a number of the last set in `sums`.
        sizes, sums: the argument and the result of `sums_up_to`.
    """
    chosen = []
    for place in range(len(sums) - 2, -1, -1):
        is_reached_without = sums[place] >> total & 1  # sums[place] has the sums of the sizes before this place
        if not is_reached_without:
            chosen.append(place)
            total -= sizes[place]
    return chosen, total
