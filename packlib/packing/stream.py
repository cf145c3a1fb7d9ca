"""Packing a stream: no histogram, no second look, bounded memory."""

from collections.abc import Iterable, Iterator

from packlib.checks import depth_limit, whole_number
from packlib.packing.greedy import OpenPacks


class StreamPacker:
    """Best fit into a window of open packs (Csirik and Johnson, Bounded Space On-Line Bin Packing, 2001).

    A sequence goes into the fullest open pack that takes it. If none does, a new pack is opened; if the window is
    full, the fullest pack is closed first.

    >>> packer = StreamPacker(max_length=8, window=1)
    >>> [packer.add(length) for length in (5, 3, 6, 4)]
    [[], [(0, 1)], [], [(2,)]]
    >>> packer.flush()
    [(3,)]

    Args:
        max_length: slots of a pack, in tokens.
        window: how many packs may be open at once; memory is at most `window` packs of sample ids.
        max_sequences_per_pack: the depth limit, or None.
    """

    def __init__(self, max_length: int, window: int = 100, max_sequences_per_pack: int | None = None) -> None:
        self.max_length = whole_number("max_length", max_length, 1)
        self.window = whole_number("window", window, 1)
        self._packs = OpenPacks(depth_limit(max_sequences_per_pack) or float("inf"))
        self._open = 0
        self._next_id = 0

    def add(self, length: int) -> list[tuple[int, ...]]:
        """Place the next sequence; return the packs that this closed, each a tuple of sample ids.

        Sample ids count the sequences from 0, in the order they came.

        Raises:
            TypeError, ValueError: if the length is no whole number from 1 to `max_length`; nothing is changed then.
        """
        length = whole_number(f"The length of sequence {self._next_id}", length, 1, self.max_length)
        packs = self._packs
        space = packs.spaces.smallest(length)
        if space:
            ids = packs.take(space)[0]
            self._open -= 1
        else:
            space, ids = self.max_length, ()
            if self._open == self.window:
                packs.closed.append(packs.take(packs.spaces.smallest(1)))
                self._open -= 1
        closed_before = len(packs.closed)
        packs.put(space - length, (*ids, self._next_id), 1)
        self._open += len(packs.closed) == closed_before
        self._next_id += 1
        return self._hand_over()

    def flush(self) -> list[tuple[int, ...]]:
        """Close and return all open packs."""
        packs, self._open = self._packs.equal_packs(), 0
        self._packs = OpenPacks(self._packs.limit)
        return [ids for ids, _ in packs]

    def pack(self, lengths: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Yield the packs of a whole stream as they close."""
        for length in lengths:
            yield from self.add(length)
        yield from self.flush()

    def _hand_over(self) -> list[tuple[int, ...]]:
        if not self._packs.closed:
            return []
        closed, self._packs.closed = [ids for ids, _ in self._packs.closed], []
        return closed
