"""The numbers behind the advice: of rows, plans and batches, and what follows from them."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.lengths.overlong import CUT_RULES, CutRule
from packlib.packing import PackingPlan
from packlib.tools.advice.depths import DepthTrial
from packlib.tools.advice.labels import Labels
from packlib.tools.advice.memory import Fit, Memory, ModelShape
from packlib.tools.advice.micro_batch import PackedUpdate, packed_recipe
from packlib.tools.advice.row_lengths import WORTH, Form, RowLength, choose, count_cut
from packlib.tools.advice.second_need import SecondNeed
from packlib.tools.advice.today import Today
from packlib.tools.advice.upstream import Upstream, find_pile
from packlib.training.recipe import Recipe
from packlib.work import Waiting, Work, waiting

_MOST_PACKS = 1 << 20  # packs whose waits are estimated; of a plan with more, this number is drawn


class Lost(NamedTuple):
    """Losses of one rule for longer sequences, in rows of the advised length.

    Attributes:
        tokens: number of tokens that are in no row.
        labels: number of labels that are trained on in no row; None where nothing says which tokens are trained on.
        emptied: number of sequences that had labels and lost all of them to "truncate"; None for other rules, or if
            labels are unknown.
    """

    tokens: int
    labels: int | None
    emptied: int | None


@dataclass(frozen=True, eq=False)
class Findings:
    """Numbers about sequences of these lengths.

    Attributes:
        whole: the lengths before any cut.
        upstream: what was cut before the lengths were counted; None without the lengths from before.
        labels: which tokens of the uncut sequences are trained on; None where nothing says it.
        max_length: slots of a row today.
        overlong: the rule for sequences that are longer than a row.
        chose_rule: whether the caller chose that rule.
        keeps_length: whether `max_length` is kept, whatever other row lengths save.
        histogram: the lengths cut to the row length that is advised.
        row_lengths: packs, slots and work of each row length that was tried, ascending.
        form: how the model learns where sequences end: by their bounds, or by a dense mask.
        plans: the plan that is advised, and one or two of greedy methods to compare it with.
        depths: the depth limits that were tried; empty unless the model or the caller needs a limit.
        limit: the caller's depth limit; None without one.
        today: the batches of one pass today.
        habits: the batches of one pass by other habits.
        assumes_batch_size: whether the batch size of today is an assumption.
        update: micro batch and accumulation before and after; None if today's are not known.
        recipe: the recipe of today; None if it is not known.
        epochs: passes over the data, where no recipe says it.
        devices: number of devices that share an update today.
        shape: the sizes of the model; None if it is not known.
        fit: the packs that fit into the memory; None if it is not known.
        work: of a pack, in FLOP of the model's layers, or of Llama 3 8B's.
        tokenized: whether the data has chats or texts, of which a tokenizer made tokens.
        thorough: whether plans are made by "optimal" and not by "auto".
        second: the packs that a second budget needs; None without one.
    """

    whole: LengthHistogram
    upstream: Upstream | None
    labels: Labels | None
    max_length: int
    overlong: CutRule
    chose_rule: bool
    keeps_length: bool
    histogram: LengthHistogram
    row_lengths: tuple[RowLength, ...]
    form: Form
    plans: tuple[PackingPlan, ...]
    depths: tuple[DepthTrial, ...]
    limit: int | None
    today: Today
    habits: tuple[Today, ...]
    assumes_batch_size: bool
    update: PackedUpdate | None
    recipe: Recipe | None
    epochs: int
    devices: int
    shape: ModelShape | None
    fit: Fit | None
    work: Work
    tokenized: bool
    thorough: bool
    second: SecondNeed | None = None

    @property
    def plan(self) -> PackingPlan:
        """The plan to pack by."""
        return self.plans[0]

    @property
    def row_length(self) -> int:
        """Slots of a row of the advised length."""
        return self.histogram.max_length

    @property
    def slots(self) -> int:
        """Slots of one pass over the packs."""
        return self.plan.num_packs * self.row_length

    @cached_property
    def padded(self) -> LengthHistogram:
        """The lengths cut to today's row length, which today's batches have."""
        return self.whole.with_max_length(self.max_length, self.overlong)

    @property
    def same_tokens(self) -> bool:
        """True if the packs have the same number of tokens as today's rows; longer rows may cut fewer."""
        return self.histogram.num_tokens == self.padded.num_tokens

    @property
    def slots_of_same(self) -> float:
        """Slots of one pass over the packs, scaled to the number of tokens in today's rows."""
        if self.same_tokens:
            return self.slots
        return self.slots * self.padded.num_tokens / self.histogram.num_tokens

    @property
    def slots_ratio(self) -> float:
        """Slots of one pass today divided by the slots of one pass over the packs, for the same number of tokens."""
        return self.today.slots / self.slots_of_same

    @property
    def gains(self) -> bool:
        """True if packing saves over 2 % of the slots of today, and padding to the longest would not do as well."""
        return self._saves(self.today) and not self.padding_suffices

    @property
    def padding_suffices(self) -> bool:
        """True if batches are padded to the row length today, and padding each to its longest saves nearly as much."""
        if self.today.habit != "maximum" or not self._saves(self.today):
            return False
        return not self._saves(next(batches for batches in self.habits if batches.habit == "random"))

    def _saves(self, batches: Today) -> bool:
        """Return whether packing saves over 2 % of the slots of these batches, for the same number of tokens."""
        return batches.slots - self.slots_of_same > WORTH * batches.slots

    @property
    def now(self) -> RowLength:
        """Packed rows of today's length."""
        return self._row(self.max_length)

    @property
    def chosen(self) -> RowLength:
        """Packed rows of the advised length."""
        return self._row(self.row_length)

    def _row(self, length: int) -> RowLength:
        """Return the packed rows of a length that was tried."""
        return next(row for row in self.row_lengths if row.max_length == length)

    @cached_property
    def lost(self) -> dict[CutRule, Lost]:
        """Losses of each rule for longer sequences, in rows of the advised length."""
        row_length = self.row_length
        losses = dict[CutRule, Lost]()
        for rule in CUT_RULES:
            _, tokens_cut = count_cut(self.whole, row_length, rule)
            tokens = 0 if rule == "split" else tokens_cut  # the tokens that "split" cuts are in further pieces
            labels = emptied = None
            if self.labels is not None:
                labels = self.labels.number - self.labels.kept(row_length, rule)
                emptied = self.labels.emptied(row_length, rule)
            losses[rule] = Lost(tokens, labels, emptied)
        return losses

    @property
    def trained(self) -> int | None:
        """Number of tokens that are trained on in the packs; None where nothing says which are."""
        return None if self.labels is None else self.labels.kept(self.row_length, self.overlong)

    @property
    def packed_recipe(self) -> Recipe | None:
        """The recipe for packed rows; None if today's recipe is not known."""
        return packed_recipe(self.recipe, self.update) if self.recipe and self.update else None

    @property
    def replicas(self) -> int:
        """Number of devices that share an update of packs."""
        if self.update:
            return self.update.after.replicas
        return self.fit.shards if self.fit else self.devices

    @property
    def updates(self) -> int | None:
        """Updates in one pass, the last of which may have fewer packs; None if today's update is not known.

        If several devices share an update, each has the same number of whole batches, and the other packs are left out.
        """
        if self.update is None:
            return None
        batch, packs = self.update.after, self.plan.num_packs
        if batch.replicas > 1:
            batches = packs // (batch.micro_batch * batch.replicas)
        else:
            batches = -(-packs // batch.micro_batch)  # rounded up
        return -(-batches // batch.gradient_accumulation_steps)

    @property
    def left_out(self) -> int:
        """Packs of one pass that are left out, since they do not fill a batch on each of several devices."""
        if self.update is None or self.replicas == 1:
            return 0
        return self.plan.num_packs % (self.update.after.micro_batch * self.replicas)

    @property
    def tokens_an_update(self) -> float | None:
        """Tokens of an average update; None if today's update is not known."""
        if self.update is None:
            return None
        return self.update.after.global_batch * self.histogram.num_tokens / self.plan.num_packs

    @cached_property
    def waiting(self) -> Waiting | None:
        """Time that replicas wait for the slowest where packs are assigned to them at random, once per update.

        None for a single replica, for an unknown update, and where an update has more packs than there are.
        """
        if self.update is None:
            return None
        plan, batch = self.plan, self.update.after
        if batch.replicas == 1 or batch.global_batch > min(plan.num_packs, _MOST_PACKS):
            return None
        work_of_strategy = np.add.reduceat(self.work.of(plan.items), plan.offsets[:-1])  # of one pack of each
        repeats = plan.repeats
        if plan.num_packs > _MOST_PACKS:
            repeats = np.random.default_rng(0).multinomial(_MOST_PACKS, repeats / plan.num_packs)
        work_of_packs = np.repeat(work_of_strategy, repeats)
        return waiting(work_of_packs, batch.replicas, batch.global_batch // batch.replicas)

    def best_row(self, form: Form) -> RowLength:
        """Return the best rows with a form of attention: with the advised form, the advised rows."""
        if self.keeps_length or form == self.form:
            return self.chosen
        return choose(self.row_lengths, self.max_length, form)

    @property
    def skipping_saves(self) -> float:
        """The share of the layers' work that is saved by attention that skips pairs of different sequences.

        It is relative to a dense mask, each in its best rows.
        """
        return 1 - self.best_row("bounds").skipping / self.best_row("dense").dense

    @property
    def memory(self) -> Memory | None:
        """Memory that the advised micro batch takes on a device; None if the model is not known."""
        if self.shape is None:
            return None
        shards, recompute = (self.fit.shards, self.fit.recompute) if self.fit else (1, False)
        rows = self.update.after.micro_batch if self.update else 1
        return self.shape.memory(rows, self.row_length, shards=shards, recompute=recompute)

    @cached_property
    def piled_up(self) -> tuple[int, int]:
        """The length to which sequences look cut before they were counted, and how many have it; else (0, 0)."""
        return find_pile(self.whole)
