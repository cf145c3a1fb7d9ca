"""The advice: what was found in numbers, decisions in sentences, the code that applies them, and all of it as JSON."""

import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from packlib.files import write_text
from packlib.lengths import LengthHistogram
from packlib.packing import PackingPlan
from packlib.tools.advice.applying import code_for
from packlib.tools.advice.depths import DepthTrial, best_plans
from packlib.tools.advice.memory import Fit, Memory, ModelShape
from packlib.tools.advice.micro_batch import EVIDENCE, Update
from packlib.tools.advice.row_lengths import WORTH, Overlong, RowLength, choose, count_cut, cut, cuts_less
from packlib.tools.advice.today import Today
from packlib.tools.advice.upstream import Upstream, find_pile
from packlib.tools.advice.words import filled, paragraphs_of, parts_of, share_of
from packlib.training.adjustment import TOLERATED
from packlib.work import Waiting, Work, waiting

SAVED = 0.05  # of the work: for less, no special kernel is worth its trouble
_MOST_PACKS = 1 << 20  # of a plan with more, so many are drawn


class Decision(NamedTuple):
    """What to do about one thing, why, and what the next best choice would cost."""

    about: str
    choice: str
    reason: str
    runner_up: str


@dataclass(frozen=True, eq=False)
class Advice:
    """What to do with sequences of these lengths, and what that rests on.

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
    overlong: Overlong
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
        """How long replicas wait for the slowest where packs are dealt to them at random, once an update.

        None for a single replica, and where an update has more packs than there are.
        """
        made, recipe = self.plan, self.update.after
        if recipe.replicas == 1 or recipe.global_batch > min(made.num_packs, _MOST_PACKS):
            return None
        repeats, each = made.repeats, np.add.reduceat(self.work.of(made.items), made.offsets[:-1])
        if made.num_packs > _MOST_PACKS:
            repeats = np.random.default_rng(0).multinomial(_MOST_PACKS, repeats / made.num_packs)
        return waiting(np.repeat(each, repeats), recipe.replicas, recipe.global_batch // recipe.replicas)

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

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """What to do, in the order of the page, as `decisions.jinja` says it."""
        now, all_tokens, before = self.now, self.whole.num_tokens, self.update.before
        otherwise: Overlong = "truncate" if self.overlong == "split" else "split"
        rows_otherwise = cut(self.whole, self.row_length, otherwise)
        text = filled(
            "decisions.jinja",
            found=self,
            tokens=all_tokens,
            worth=WORTH,
            tolerated=TOLERATED,
            better=choose(self.row_lengths, now.max_length),
            longer=cuts_less(self.row_lengths, now, all_tokens),
            other_row=self._other_row,
            habit=min(self.habits, key=lambda one: one.slots),
            evidence=EVIDENCE[before.optimizer],
            updates_today=-(-self.today.rows // before.global_batch),
            otherwise=otherwise,
            lost_otherwise=0 if otherwise == "split" else count_cut(self.whole, self.row_length, otherwise)[1],
            packs_otherwise=best_plans(rows_otherwise, self.plan.max_sequences_per_pack)[0].num_packs,
        )
        return tuple(Decision(about, *paragraphs_of(part)) for about, part in parts_of(text).items())

    @property
    def _other_row(self) -> RowLength | None:
        """The best of the rows that cut no more tokens than those of now, beside these; None if there is none."""
        others = [row for row in self.row_lengths if row is not self.now and row.tokens_cut <= self.now.tokens_cut]
        return min(others, key=lambda row: (not row.counted, row.slots_a_token), default=None)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What else to know, in sentences, as `notes.jinja` says it; behind the fold of the page."""
        return tuple(paragraphs_of(filled("notes.jinja", found=self)))

    @property
    def loss(self) -> str:
        """How many tokens the loss sees, in a sentence; empty where the data does not say."""
        if self.trained is None:
            return ""
        share, tokens = self.trained / self.whole.num_tokens, self.tokens_an_update
        return (
            f"{share_of(share)} of the tokens ({self.trained:,}) are trained on, as labels or masks say, so that the "
            f"loss of an update sees about {share * tokens:,.0f} of its {tokens:,.0f} tokens."
        )

    @property
    def code(self) -> dict[str, str]:
        """Python that applies the plan, once it is written to `plan.json`, and trains on it, by trainer."""
        fit = self.fit
        return code_for(
            self.histogram,
            self.update.after,
            self.overlong if self.chosen.overlong else None,
            attention="flash_attention_2" if self.skips else "sdpa",
            recompute=bool(fit and fit.recompute),
            shared=bool(fit and fit.shards > 1),
        )

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
        return "\n".join([*lines, *filter(None, [self.loss])])

    def to_json(self) -> str:
        """All that was found as JSON text.

        It cannot be read back: the strategies of the plan are left out, which are in the plan's own JSON.
        """
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False)

    def save(self, path: str | os.PathLike) -> None:
        """Write the JSON to a file, whole or not at all."""
        write_text(path, self.to_json() + "\n")

    def as_dict(self) -> dict[str, Any]:
        """All that was found, as JSON can hold it."""
        h, best = self.whole, self.plan
        return {
            "format": "packlib.Advice 2",
            "data": {
                "name": h.name, "kind": h.kind, "source": h.source, "sequences": h.num_sequences,
                "tokens": h.num_tokens, "max_length": self.max_length, "overlong": self.overlong,
            },
            "loss": None if self.trained is None else {
                "tokens": self.trained, "share": self.trained / h.num_tokens, "tokens_an_update": self.tokens_an_update,
                "said": self.loss,
            },
            "source": (found := self.upstream) and {
                "name": found.source.name, "sequences": found.source.num_sequences, "tokens": found.source.num_tokens,
                "overlong": found.overlong, "left": found.left, "lost": found.lost, "packs": found.packs,
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
            "waiting": self.waiting and {"ranks": self.update.after.replicas, **self.waiting._asdict()},
            "code": self.code,
        }  # fmt: skip
