"""What advice holds, and how it says it: decisions in sentences, numbers, and JSON."""

import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from packlib.advice.applying import code_for
from packlib.advice.depths import DepthTrial, best_plans
from packlib.advice.memory import Memory, ModelShape
from packlib.advice.micro_batch import EVIDENCE, Update
from packlib.advice.row_lengths import WORTH, RowLength, choose, count_cut, cut
from packlib.advice.today import TODAY, Today
from packlib.advice.waits import about_waiting
from packlib.advice.words import compared, gigabytes, many, share_of, signed
from packlib.files import write_text
from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan
from packlib.training.adjustment import TOLERATED
from packlib.work import Work

SAVED = 0.05  # of the work: for less, no special kernel is worth its trouble
_MUCH = 0.01  # of the tokens: more that are cut ask for longer rows
_FEW = 100  # updates in one pass: below, a pack more or less is felt
_NEAR, _PILED = 16, 10  # so many lengths just below the longest; so many times their mean is no accident


class Fit(NamedTuple):
    """What fits into the memory of a device.

    Attributes:
        rows: of one forward pass, 0 if none fits.
        shards: devices that have to share weights, gradients and moments.
        recompute: whether each layer has to be computed twice.
        room: bytes of the device.
    """

    rows: int
    shards: int
    recompute: bool
    room: float


class Decision(NamedTuple):
    """What to do about one thing, why, and what the next best choice would cost."""

    about: str
    choice: str
    reason: str
    runner_up: str


@dataclass(frozen=True, eq=False)
class Advice:
    """What to do with sequences of these lengths.

    Attributes:
        whole: the lengths as they are.
        max_length, overlong: slots of a row as it is now, and what becomes of longer sequences.
        histogram: the lengths cut to the row length that is advised.
        row_lengths: what other rows would take.
        kept: whether `max_length` had to be kept.
        plans: the best plan, and those after it.
        depths, limit: what depths allow, where the model or `limit` asks for them.
        today, habits: what one pass takes now, and what it would take by other habits.
        update: micro batch and accumulation before and after; `is_example` if no recipe was given.
        stated_length: the row length of the recipe, if it has one.
        model, shape, fit: the model, its sizes, and what fits into the memory, if they were given.
        work: of a pack, in FLOP of the model's layers, or of Llama 3 8B's.
    """

    whole: LengthHistogram
    max_length: int
    overlong: str
    histogram: LengthHistogram
    row_lengths: tuple[RowLength, ...]
    kept: bool
    plans: tuple[PackingPlan, ...]
    depths: tuple[DepthTrial, ...]
    limit: int | None
    today: Today
    habits: tuple[Today, ...]
    update: Update
    is_example: bool
    stated_length: int | None
    model: str | None
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

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """What to do, in the order of the page."""
        return (
            self._about_rows(),
            self._about_method(),
            self._about_saving(),
            self._about_update(),
            self._about_pass(),
            self._about_cut(),
        )

    def _about_rows(self) -> Decision:
        now, best = self.now, self.chosen
        others = [row for row in self.row_lengths if row is not best]
        if best is not now:
            return Decision(
                "Row length",
                f"{best.max_length:,} tokens instead of {now.max_length:,}",
                f"Rows of {best.max_length:,} are {share_of(1, best.slots_a_token)} full and those of "
                f"{now.max_length:,} are {share_of(1, now.slots_a_token)}, so the same tokens take "
                f"{share_of(1 - best.slots_a_token / now.slots_a_token)} fewer slots.",
                f"{now.max_length:,} as now, with {compared(now.slots_a_token, best.slots_a_token, 'slots')} for a "
                "token.",
            )
        kept = f"{now.max_length:,} tokens, as now"
        if (better := choose(self.row_lengths, now.max_length)) is not now:
            slots = compared(better.slots_a_token, now.slots_a_token, "slots")
            return Decision(
                "Row length", kept, "It was to be kept.", f"{better.max_length:,}, with {slots} for a token."
            )
        lengths = f"from {self.row_lengths[0].max_length:,} to {self.row_lengths[-1].max_length:,}"
        reason = (
            f"Of {many(len(others), 'other length')} {lengths}, none saves more than {share_of(WORTH)} of the slots "
            "without cutting more tokens."
        )
        if longer := self._cuts_less():
            return Decision("Row length", kept, reason, longer)
        allowed = [row for row in others if row.tokens_cut <= now.tokens_cut]
        if not allowed:
            return Decision("Row length", kept, reason, "Every other length cuts more tokens.")
        least = min(allowed, key=lambda row: row.slots_a_token)
        slots = compared(least.slots_a_token, now.slots_a_token, "slots")
        return Decision("Row length", kept, reason, f"{least.max_length:,}, with {slots} for a token.")

    def _cuts_less(self) -> str:
        """The first longer row that cuts at most half as many tokens, where many are cut."""
        now, all_tokens = self.now, self.whole.num_tokens
        if now.tokens_cut <= _MUCH * all_tokens:
            return ""
        row = next((row for row in self.row_lengths if row.tokens_cut <= now.tokens_cut / 2), self.row_lengths[-1])
        if row.tokens_cut >= now.tokens_cut:
            return ""
        return (
            f"{row.max_length:,} cuts {share_of(row.tokens_cut, all_tokens)} of the tokens instead of "
            f"{share_of(now.tokens_cut, all_tokens)}, with {compared(row.slots_a_token, now.slots_a_token, 'slots')} "
            f"for a token, whose work is {signed(row.skipping / now.skipping - 1)}."
        )

    def _about_method(self) -> Decision:
        best, other = self.plan, self.plans[1]
        depth = best.max_sequences_per_pack
        full = f"{many(best.num_packs, 'pack')}, {share_of(best.efficiency)} full: "
        proof = "no packing has fewer" if not best.gap else (
            f"no packing has fewer than {best.lower_bound:,}, {share_of(best.gap, best.num_packs)} below"
        )  # fmt: skip
        return Decision(
            "Method",
            best.method if depth is None else f"{best.method} with at most {many(depth, 'sequence')} in a pack",
            f"{full}{proof}{'' if depth is None else ' at this depth'}.{self._about_depth()}",
            f"{other.method}: {compared(other.num_packs, best.num_packs, 'packs')}, {other.num_packs:,}.",
        )

    def _about_depth(self) -> str:
        if self.limit or not self.depths:
            return ""
        return (
            " The model has something once for each sequence, and this is the smallest depth tried within half a "
            f"percent of the {many(self.depths[-1].packs, 'pack')} of a deeper one."
        )

    def _about_saving(self) -> Decision:
        today, packed = self.today, self.slots
        saved = today.slots - packed
        other = min(self.habits, key=lambda one: one.slots)
        name = TODAY[other.habit][1]
        if saved <= 0:
            choice = "Nothing to gain: do not pack"
        else:
            choice = f"{self.times_fewer:.2f} times fewer slots than today"
        return Decision(
            "Against today",
            choice,
            f"{today.in_words.capitalize()}, take {_about(today.slots)} slots in {many(today.batches, 'batch')} of "
            f"{today.batch_size:,}, and the packs take {_about(packed)}: {_about(abs(saved))} "
            f"({share_of(abs(saved), today.slots)}) {'fewer' if saved > 0 else 'more'}.",
            f"{name.capitalize()}: {compared(other.slots, packed, 'slots')} than packs"
            f"{', but a batch holds sequences of one length' if other.habit == 'sorted' else ''}.",
        )

    def _about_update(self) -> Decision:
        update, after, before = self.update, self.update.after, self.update.before
        devices = f" × {many(after.replicas, 'device')}" if after.replicas > 1 else ""
        wanted = before.sequences_per_update
        reason = (
            f"They hold {after.sequences_per_update:,.1f} sequences, {signed(update.off)} against {wanted:,.0f} today"
            f"{' (an example)' if self.is_example else ''}"
        )
        if update.exact:
            reason += ", so rate and betas stay; "
        else:
            reason += f", and none comes within {share_of(TOLERATED)}: {self._about_betas()} "
        reason += self._about_room() + "."
        other = "There is no other."
        if pair := update.runner_up:
            other = f"{pair[0]:,} × {pair[1]:,}: {signed(update.off_with(*pair))} of the sequences"
            other += f", {_passes(pair[1])} an update instead of {after.gradient_accumulation_steps:,}."
        return Decision(
            "Micro batch × accumulation",
            f"{after.micro_batch:,} × {after.gradient_accumulation_steps:,} packs{devices}",
            reason[0].upper() + reason[1:],
            other,
        )

    def _about_betas(self) -> str:
        before, after = self.update.before, self.update.after
        if before.betas == after.betas:
            return f"{EVIDENCE[before.optimizer]} Besides,"
        old, new = (" and ".join(f"{beta:.5g}" for beta in recipe.betas) for recipe in (before, after))
        return f"the betas {old} become {new}. {EVIDENCE[before.optimizer]} Besides,"

    def _about_room(self) -> str:
        fit, most, memory, rows = self.fit, self.update.most, self.memory, self.update.after.micro_batch
        if fit is None or memory is None:
            today = f"the {self.today.slots_a_batch:,.0f} slots of an average batch today"
            if self.today.slots_a_batch < self.row_length:
                return f"one pack alone is more than {today}"
            return f"{many(most, 'pack')} at most {'takes' if most == 1 else 'take'} no more than {today}"
        need = f"{gigabytes(memory.total)} of {gigabytes(fit.room)}"
        if not fit.rows:
            return f"not even one pack fits: it needs about {need}, so several devices have to share a row"
        how = ["each layer computed twice"] * fit.recompute
        if fit.shards > 1:
            how.append(f"weights, gradients and moments shared by the {fit.shards:,} devices (FSDP)")
        told = f"about {need}" + f" with {' and '.join(how)}" * bool(how)
        fits = f"at most {many(fit.rows, 'pack')} {'fits' if fit.rows == 1 else 'fit'}"
        return f"{many(rows, 'pack')} {'takes' if rows == 1 else 'take'} {told}, and {fits}"

    def _about_pass(self) -> Decision:
        rows, packs = self.update.after.global_batch, self.plan.num_packs
        last = packs - (self.updates - 1) * rows
        before = -(-self.today.rows // self.update.before.global_batch)
        reason = f"{many(packs, 'pack')} in updates of {rows:,}; today it is {many(before, 'update')}."
        if last == rows:
            return Decision("One pass over the data", many(self.updates, "update"), reason, "Every update is full.")
        return Decision(
            "One pass over the data", many(self.updates, "update"), reason,
            f"{many(self.updates - 1, 'update')}, if the last {many(last, 'pack')} {'is' if last == 1 else 'are'} "
            "left out.",
        )  # fmt: skip

    def _about_cut(self) -> Decision:
        top, all_tokens, now = self.row_length, self.whole.num_tokens, self.chosen
        longest, piled = self.piled_up
        suspect = "" if not piled else (
            f" But {many(piled, 'sequence')} ({share_of(piled, self.whole.num_sequences)}) have exactly {longest:,} "
            "tokens, far more than have just below: they may have been cut before they were counted."
        )  # fmt: skip
        if not now.overlong:
            return Decision(
                "What is cut", "Nothing",
                f"The longest sequence has {longest:,} tokens.{suspect}", "There is nothing to choose.",
            )  # fmt: skip
        are = "is" if now.overlong == 1 else "are"
        done = {"truncate": "cut off", "drop": "left out", "split": "moved to further pieces"}[self.overlong]
        other = "split" if self.overlong != "split" else "truncate"
        return Decision(
            "What is cut",
            f"{share_of(now.tokens_cut, all_tokens)} of the tokens {'lost' if self.overlong != 'split' else 'moved'}",
            f"{many(now.overlong, 'sequence')} ({share_of(now.overlong, self.whole.num_sequences)}) {are} longer than "
            f"{top:,}, and {now.tokens_cut:,} tokens are {done}.{suspect}",
            self._cut_otherwise(other),
        )

    def _cut_otherwise(self, other: str) -> str:
        depth = self.plan.max_sequences_per_pack
        packs = best_plans(cut(self.whole, self.row_length, other), depth)[0].num_packs
        lost = 0 if other == "split" else count_cut(self.whole, self.row_length, other)[1]
        loses = "nothing is lost" if not lost else f"{share_of(lost, self.whole.num_tokens)} of the tokens are lost"
        change = compared(packs, self.plan.num_packs, "packs")
        return f"{other.capitalize()} them instead: {loses}, with {change}, {packs:,}."

    @property
    def piled_up(self) -> tuple[int, int]:
        """The longest length, and how many sequences have it if they look cut before they were counted; else 0."""
        counts = self.whole.counts
        longest = int(counts.nonzero()[0][-1])
        count = int(counts[longest]) - self.whole.truncated  # which are known to be cut
        near = counts[max(1, longest - _NEAR) : longest].sum() / _NEAR
        different = np.count_nonzero(counts[:longest]) >= _NEAR  # data of a few lengths pile up everywhere
        much = max(_PILED * max(near, 1), 0.001 * self.whole.num_sequences)
        return longest, count if different and much < count < self.whole.num_sequences else 0

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What else to know, in sentences; behind the fold of the page."""
        return tuple(filter(None, (
            self._attention(), self._memory(), self._positions(), self._waiting(), self._other_rows(), self._few(),
            self._depths_needed(),
            "" if self.whole.kind == "measured" else f"The lengths are a {self.whole.kind}: count your own before you "
            "rely on the last digit.",
        )))  # fmt: skip

    def _attention(self) -> str:
        saved, of = self.skipping_saves, self.shape.name if self.shape else "Llama 3 8B"
        take = "attention that skips what lies between sequences (flash_attention_2, on a GPU)"
        if not self.skips:
            take = "scaled_dot_product_attention with a dense mask"
        return f"Take {take}: skipping saves {share_of(saved)} of the work of the layers (counted in FLOP, for {of})."

    @property
    def skips(self) -> bool:
        """Whether attention that skips what lies between sequences is worth its trouble."""
        return self.skipping_saves >= SAVED

    def _memory(self) -> str:
        memory, rows = self.memory, self.update.after.micro_batch
        if memory is None or self.shape is None:
            return ""
        return (
            f"{self.shape.name} has {self.shape.parameters / 1e9:.3g} billion weights. With {many(rows, 'pack')} of "
            f"{self.row_length:,} tokens it takes {gigabytes(memory.states)} for weights, gradients and AdamW's "
            f"moments, and {gigabytes(memory.activations)} for activations. This is an estimate for bf16=True and a "
            "kernel that stores no attention scores."
        )

    def _positions(self) -> str:
        longest, positions = int(self.histogram.counts.nonzero()[0][-1]), self.shape.positions if self.shape else None
        if not positions or longest <= positions:
            return ""
        return (
            f"The longest sequence has {longest:,} tokens, and the model only {positions:,} positions: cut the rest."
        )

    def _waiting(self) -> str:
        return about_waiting(self.plan, self.update.after, self.model)

    def _other_rows(self) -> str:
        stated = self.stated_length
        if stated in (None, self.row_length):
            return ""
        return f"The recipe has rows of {stated:,} tokens, and the advice is for {self.row_length:,}."

    def _few(self) -> str:
        if self.updates >= _FEW:
            return ""
        return f"One pass is only {many(self.updates, 'update')}, so a pack more or less is felt."

    def _depths_needed(self) -> str:
        deepest = self.plan.deepest
        if self.depths or deepest <= 1:
            return ""
        return (
            f"A pack holds up to {many(deepest, 'sequence')}. No limit is needed unless the model has something once "
            "for each sequence, such as a pooler."
        )

    @property
    def code(self) -> dict[str, str]:
        """Python that applies the plan, once it is written to `plan.json`, and trains on it, by trainer."""
        fit = self.fit
        return code_for(
            self.histogram, self.update.after, self.overlong if self.chosen.overlong else None,
            attention="flash_attention_2" if self.skips else "sdpa", recompute=bool(fit and fit.recompute),
        )  # fmt: skip

    @property
    def numbers(self) -> dict[str, int | float]:
        """What a sweep compares."""
        return {
            "times fewer slots": self.times_fewer,
            "row length": self.row_length,
            "packs": self.plan.num_packs,
            "gap": self.plan.gap,
            "efficiency, %": 100 * self.plan.efficiency,
            "packing factor": self.plan.packing_factor,
            "tokens cut, %": 100 * self.chosen.tokens_cut / self.whole.num_tokens,
        }

    def __repr__(self) -> str:
        """The decisions, as a terminal shows them."""
        lines = [f"{d.about}: {d.choice}.\n  {d.reason}\n  Or: {d.runner_up}" for d in self.decisions]
        return "\n".join(lines)

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """Return all that was found as JSON text; write it to `path` too if one is given.

        It cannot be read back: the strategies of the plan are left out, which `plan.to_json` writes.
        """
        written = json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n"
        if path is not None:
            write_text(path, written)
        return written

    def as_dict(self) -> dict[str, Any]:
        """All that was found, as JSON can hold it."""
        h, best = self.whole, self.plan
        return {
            "format": "packlib.Advice 2",
            "data": {
                "name": h.name, "kind": h.kind, "source": h.source, "sequences": h.num_sequences,
                "tokens": h.num_tokens, "max_length": self.max_length, "overlong": self.overlong,
            },
            "decisions": [one._asdict() for one in self.decisions],
            "notes": self.notes,
            "row_lengths": [asdict(row) for row in self.row_lengths],
            "plan": {
                "max_length": self.row_length, "method": best.method, "depth": best.max_sequences_per_pack,
                "packs": best.num_packs, "slots": self.slots, "lower_bound": best.lower_bound,
                "packing_factor": best.packing_factor, "efficiency": best.efficiency, "deepest": best.deepest,
            },
            "methods": [{"method": one.method, "packs": one.num_packs} for one in self.plans],
            "depths": [one._asdict() for one in self.depths],
            "today": asdict(self.today),
            "habits": [asdict(one) for one in self.habits],
            "update": {
                "example": self.is_example, "before": asdict(self.update.before), "after": asdict(self.update.after),
                "off": self.update.off, "most": self.update.most, "updates": self.updates,
            },
            "model": self.shape and {**asdict(self.shape), "parameters": self.shape.parameters},
            "memory": self.memory and {**self.memory._asdict(), **(self.fit._asdict() if self.fit else {})},
            "code": self.code,
        }  # fmt: skip


def _about(number: float) -> str:
    """A large number in words: "18.5 million"."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:,.3g} {name}"
    return f"{number:,.0f}"


def _passes(count: int) -> str:
    return "1 forward pass" if count == 1 else f"{count:,} forward passes"
