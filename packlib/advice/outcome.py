"""What advice rests on, in numbers: row lengths that were tried, plans, and what training takes today."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from packlib.advice.depths import DepthTrial
from packlib.advice.memory import Memory, ModelShape
from packlib.advice.micro_batch import Update
from packlib.advice.row_lengths import RowLength
from packlib.advice.today import Today
from packlib.advice.upstream import Upstream, find_pile
from packlib.advice.waits import expected_waiting
from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan
from packlib.work import Waiting, Work

SAVED = 0.05  # of the work: for less, no special kernel is worth its trouble


class Fit(NamedTuple):
    """What fits into the memory of a device.

    Attributes:
        rows: of one forward pass, 0 if none fits.
        shards: devices that have to share weights, gradients and moments.
        recompute: whether each layer has to be computed twice.
        room: bytes of the device.
        longest: tokens of the longest row that would fit, however many devices share the weights, where none of the
            row length does; else 0.
    """

    rows: int
    shards: int
    recompute: bool
    room: float
    longest: int = 0


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was found for sequences of these lengths.

    Attributes:
        whole: the lengths as they are.
        upstream: what was cut before the lengths were counted, if those from before were given.
        trained: tokens of these that are trained on, as labels and masks say; None where nothing says it.
        max_length, overlong: slots of a row as it is now, and what becomes of longer sequences.
        histogram: the lengths cut to the row length that is advised.
        row_lengths: what other rows would take.
        plans: the best plan, and those after it.
        depths, limit: what depths allow, where the model or `limit` asks for them.
        today, habits: what one pass takes now, and what it would take by other habits.
        update: micro batch and accumulation before and after; `is_example` if no recipe was given.
        shape, fit: the sizes of the model, and what fits into the memory, if they were given.
        work: of a pack, in FLOP of the model's layers, or of Llama 3 8B's.
    """

    whole: LengthHistogram
    upstream: Upstream | None
    trained: int | None
    max_length: int
    overlong: str
    histogram: LengthHistogram
    row_lengths: tuple[RowLength, ...]
    plans: tuple[PackingPlan, ...]
    depths: tuple[DepthTrial, ...]
    limit: int | None
    today: Today
    habits: tuple[Today, ...]
    update: Update
    is_example: bool
    shape: ModelShape | None
    fit: Fit | None
    work: Work

    @property
    def plan(self) -> PackingPlan:
        """The plan to pack by."""
        return self.plans[0]

    @property
    def row_length(self) -> int:
        """The slots of a row that is advised."""
        return self.histogram.max_length

    @property
    def slots(self) -> int:
        """Slots of one pass, packed."""
        return self.plan.num_packs * self.row_length

    @property
    def times_fewer(self) -> float:
        """Slots of one pass now over those packed."""
        return self.today.slots / self.slots

    @property
    def now(self) -> RowLength:
        """What rows of today's length take, packed."""
        return self._row(self.max_length)

    @property
    def chosen(self) -> RowLength:
        """What rows of the advised length take."""
        return self._row(self.row_length)

    def _row(self, length: int) -> RowLength:
        return next(row for row in self.row_lengths if row.max_length == length)

    @property
    def updates(self) -> int:
        """Updates in one pass, the last of which may have fewer packs."""
        return -(-self.plan.num_packs // self.update.after.global_batch)

    @property
    def tokens_an_update(self) -> float:
        """Tokens of an average update."""
        return self.update.after.global_batch * self.histogram.num_tokens / self.plan.num_packs

    @cached_property
    def waiting(self) -> Waiting | None:
        """How long replicas wait for the slowest, or None if there is one alone, or if it cannot be told."""
        return expected_waiting(self.plan, self.update.after, self.work)

    @property
    def skipping_saves(self) -> float:
        """The share of the layers' work that attention saves which skips what lies between sequences."""
        return 1 - self.chosen.skipping / self.chosen.dense

    @property
    def memory(self) -> Memory | None:
        """What the micro batch that is advised takes on a device, or None without a model."""
        if self.shape is None:
            return None
        shards, recompute = (self.fit.shards, self.fit.recompute) if self.fit else (1, False)
        rows = self.update.after.micro_batch
        return self.shape.memory(rows, self.row_length, shards=shards, recompute=recompute)

    @property
    def skips(self) -> bool:
        """Whether attention that skips what lies between sequences is worth its trouble."""
        return self.skipping_saves >= SAVED

    @cached_property
    def piled_up(self) -> tuple[int, int]:
        """Where sequences look cut before they were counted, and how many do, as `find_pile` finds them."""
        return find_pile(self.whole)
