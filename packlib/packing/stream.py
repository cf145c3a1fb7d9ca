"""Packing a stream: no histogram, no second look, bounded memory."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from packlib.checks import depth_limit, whole_number


class StreamPacker:
    """Best fit into a window of open packs (Csirik and Johnson, Bounded Space On-Line Bin Packing, 2001).

    A sequence goes into the fullest open pack that takes it. If none does, a new pack is opened; if the window is
    full, the fullest pack is closed first. Of equally full packs, the one that was filled last is taken.

    >>> from packlib.packing import StreamPacker
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
        self.max_sequences_per_pack = depth_limit(max_sequences_per_pack)
        self._packs: dict[int, list[list[int]]] = {}  # the sample ids of open packs, by space, newest last
        self._spaces, self._open, self._next_id = list[int](), 0, 0  # the keys, ascending; how many packs are open

    def add(self, length: int) -> list[tuple[int, ...]]:
        """Place the next sequence; return the packs that this closed, each a tuple of sample ids.

        Sample ids count the sequences from 0, in the order they came.

        Raises:
            TypeError, ValueError: if the length is no whole number from 1 to `max_length`; nothing is changed then.
        """
        length = whole_number(f"The length of sequence {self._next_id}", length, 1, self.max_length)
        closed: list[tuple[int, ...]] = []
        at = bisect_left(self._spaces, length)
        if at < len(self._spaces):
            space, ids = self._take(at)
        else:
            if self._open == self.window:
                closed.append(tuple(self._take(0)[1]))
            space, ids = self.max_length, []
        ids.append(self._next_id)
        self._next_id += 1
        space -= length
        if space == 0 or len(ids) == self.max_sequences_per_pack:
            closed.append(tuple(ids))
        else:
            if space not in self._packs:
                self._packs[space] = []
                insort(self._spaces, space)
            self._packs[space].append(ids)
            self._open += 1
        return closed

    def flush(self) -> list[tuple[int, ...]]:
        """Close and return all open packs."""
        closed = [tuple(ids) for stack in self._packs.values() for ids in stack]
        self._packs, self._spaces, self._open = {}, [], 0
        return closed

    def pack(self, lengths: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Yield the packs of a whole stream as they close."""
        for length in lengths:
            yield from self.add(length)
        yield from self.flush()

    def _take(self, at: int) -> tuple[int, list[int]]:
        """The space at this index, and the newest pack with so much, which is not open any more."""
        space = self._spaces[at]
        stack = self._packs[space]
        ids = stack.pop()
        if not stack:
            del self._packs[space], self._spaces[at]
        self._open -= 1
        return space, ids
