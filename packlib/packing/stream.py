"""Pack sequences as they come, without a histogram and in bounded memory; what is closed is not changed any more."""

from collections.abc import Iterable, Iterator

from packlib.arguments import depth_limit, whole_number
from packlib.packing.greedy import OpenPacks


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
        # each group is one pack, with the ids of its samples in the place of their lengths
        self._packs = OpenPacks(self.max_sequences_per_pack or float("inf"))
        self._num_open = 0
        self._next_id = 0

    def add(self, length: int) -> list[tuple[int, ...]]:
        """Place the next sequence; return the packs that this closed, each a tuple of sample ids.

        Sample ids count the sequences from 0, in the order they came.

        Raises:
            TypeError, ValueError: if the length is no whole number from 1 to `max_length`; nothing is changed then.
        """
        length = whole_number(f"The length of sequence {self._next_id}", length, 1, self.max_length)
        space = self._packs.smallest(length)
        if space:
            ids, _ = self._packs.take(space)
        else:
            if self._num_open == self.window:
                fullest = self._packs.take(self._packs.smallest(1))
                self._packs.closed.append(fullest)
            self._num_open += 1
            ids, space = (), self.max_length
        self._packs.put(space - length, (*ids, self._next_id), 1)
        self._next_id += 1
        closed = [ids for ids, _ in self._packs.closed]
        self._packs.closed = []
        self._num_open -= len(closed)
        return closed

    def flush(self) -> list[tuple[int, ...]]:
        """Close and return all open packs."""
        closed = [ids for ids, _ in self._packs.equal_packs()]
        self._packs = OpenPacks(self._packs.limit)
        self._num_open = 0
        return closed

    def pack(self, lengths: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Yield the packs of a whole stream as they close."""
        for length in lengths:
            yield from self.add(length)
        yield from self.flush()
