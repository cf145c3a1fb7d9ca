"""What advice holds, and how it says it: in sentences, as numbers, as JSON."""

import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise

from packlib.advice.applying import code_for
from packlib.advice.layers import about_attention, about_places
from packlib.advice.risks import Risk, find_risks, many, share_of
from packlib.advice.trials import DepthTrial, Trial, recommended
from packlib.advice.waits import about_waiting
from packlib.files import write_text
from packlib.lengths import LengthHistogram, PaddingWaste
from packlib.packing import PackingPlan
from packlib.training.recipe import Recipe
from packlib.training.scaling.buckets import Buckets

WITHIN = 0.005  # of the best: less than what training time varies by from run to run
NOTICED = 0.1  # more packs than this are too many: of such depths, the advice names the deepest only


@dataclass(frozen=True)
class Overhead:
    """The share of the speed that packing costs the model, usual and highest, measured in rows of `max_length`."""

    usual: float
    highest: float
    source: str
    max_length: int

    def applies_to(self, max_length: int) -> bool:
        """Whether rows of this length are near enough to those measured: half to double."""
        return self.max_length <= 2 * max_length <= 4 * self.max_length


@dataclass(frozen=True)
class Compiling:
    """Seconds to compile a graph for one bucket length, from `least` to `most`, and for `packed` rows."""

    least: float
    most: float
    packed: float
    source: str


@dataclass(frozen=True, eq=False)
class Advice:
    """What to do with sequences of these lengths.

    Attributes:
        histogram: the lengths, cut to the maximum length.
        whole: the lengths as they were before.
        batch_size: sequences in a padded batch.
        waste: what each batching habit costs now; a habit that takes too long to compute is missing.
        max_sequences_per_pack: the depth that was asked for, or None.
        depths: what each depth allows; the last is `max_sequences_per_pack`.
        trials: every method at the recommended depth, or why it gives no answer.
        plan: the best plan found at that depth.
        overheads: what packing costs the model.
        compiling: what compiling a graph costs, or None where that is not recorded.
        bucket_waste: the least share of padding with 1, 2, … bucket lengths.
        buckets: the lengths to pad to, if you do not pack.
        recipe, packed_recipe: before packing, and adjusted.
        reasons: of the adjustment.
        is_example: whether the recipe is only an example.
    """

    histogram: LengthHistogram
    whole: LengthHistogram
    batch_size: int
    waste: tuple[PaddingWaste, ...]
    max_sequences_per_pack: int | None
    depths: tuple[DepthTrial, ...]
    trials: tuple[Trial, ...]
    plan: PackingPlan
    overheads: tuple[Overhead, ...]
    compiling: Compiling | None
    bucket_waste: tuple[float, ...]
    buckets: Buckets
    recipe: Recipe
    packed_recipe: Recipe
    reasons: tuple[str, ...]
    is_example: bool

    @property
    def tokens_lost(self) -> int:
        """Tokens lost by cutting or leaving out sequences that are too long."""
        return self.whole.num_tokens - self.histogram.num_tokens

    @property
    def depth(self) -> int:
        """The smallest depth that is shown to be within `WITHIN` of the best."""
        return recommended(self.depths, WITHIN)

    @property
    def more_packs(self) -> dict[int, float]:
        """The trade-off: the share of packs that each depth tried costs above the last one's."""
        last = self.depths[-1].packs
        return {trial.depth: trial.packs / last - 1 for trial in self.depths if trial.depth}

    @property
    def gap(self) -> int:
        """Packs of the plan above the best bound known at its depth."""
        return next(trial.gap or 0 for trial in self.trials if trial.method == self.plan.method)

    @property
    def habits(self) -> tuple[str, ...]:
        """The batching habits that the plan is compared with."""
        return tuple(waste.habit for waste in self.waste)

    def speedup(self, habit: str = "maximum") -> tuple[float, float]:
        """The expected speed-up over a habit, from low to high: fewer slots, less the overhead.

        Both are the upper end where no overhead was measured in rows of about this length.
        """
        slots = next(waste.slots for waste in self.waste if waste.habit == habit)
        fewer = slots / (self.plan.num_packs * self.histogram.max_length)
        known = [overhead for overhead in self.overheads if overhead.applies_to(self.histogram.max_length)]
        most = max((overhead.highest for overhead in known), default=0.0)
        least = min((overhead.usual for overhead in known), default=0.0)
        return fewer * (1 - most), fewer * (1 - least)

    @property
    def about_speed(self) -> str:
        """The expected speed-up over padding to the maximum, in words."""
        return said_range(*self.speedup())

    @property
    def verdict(self) -> str:
        """Whether to pack, in the words that open the advice."""
        if self.speedup()[0] <= 1:
            return "Do not pack: there is nothing to gain. The best found is"
        if "random" in self.habits and self.speedup("random")[0] <= 1:
            return "Pack only if you pad to the maximum now; batches padded to their longest do as well. Take"
        return "Pack with"

    @cached_property
    def risks(self) -> tuple[Risk, ...]:
        """What to mind, the gravest first."""
        rows = self.batch_size if self.is_example else self.packed_recipe.global_batch
        stated = None if self.is_example else self.recipe.max_length
        return find_risks(self.histogram, self.plan, self.gap, self.tokens_lost, rows, stated, self.whole)

    @property
    def about_cut(self) -> str:
        """What happens to sequences that are too long."""
        lost = [risk.sentence for risk in self.risks if risk.name in ("over-long", "left out", "cut before")]
        return " ".join(lost) or f"No sequence is longer than {self.histogram.max_length:,} tokens."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the expected speed-up rests on."""
        top = self.histogram.max_length
        return (
            "A step takes as long as it has slots, whatever they hold: the device is busy, and loading keeps up.",
            *(
                f"{one.source}, in rows of {one.max_length:,}: packing cost {100 * one.usual:.1f} % of the speed, at "
                f"most {100 * one.highest:.1f} %{'' if one.applies_to(top) else '; not applied here'}."
                for one in self.overheads
            ),
            *([] if self.compiling is None else [f"{self.compiling.source}: the seconds of compiling."]),
            "Attention is part of that overhead. Where a habit's rows are shorter than a pack, attention over the "
            "longer row costs more, unless its kernel skips what lies between sequences.",
            "The model sees the same: the mask and the losses are per sequence, and the recipe is adjusted.",
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The advice in words."""
        h, best = self.histogram, self.plan
        names = {"maximum": "padding to the maximum", "random": f"random batches of {self.batch_size}"}
        faster = [
            f"{said_range(low, high)} times that of {names[habit]}"
            for habit in names
            if habit in self.habits
            for low, high in [self.speedup(habit)]
        ]
        proof = "proven the fewest" if not self.gap else f"at most {self.gap:,} above the fewest"
        return (
            f"{h.name}{'' if h.kind == 'measured' else f' ({h.kind})'}: {many(h.num_sequences, 'sequence')} of "
            f"{h.mean_length:.1f} tokens on average, in rows of {h.max_length:,}. Padded to the maximum, "
            f"{share_of(h.padding_fraction)} of the slots hold nothing.",
            self.about_cut,
            f"{self.verdict} {best.method} at depth {self.depth}: {many(best.num_packs, 'pack')}, "
            f"{best.packing_factor:.2f} sequences in each, {share_of(best.efficiency)} full, {proof} at this depth.",
            f"The expected speed, an estimate from slots and overhead, is {', and '.join(faster)}.{self._unmeasured()}",
            self.about_attention,
            self._about_depth(),
            self.about_places,
            f"If you pad instead, to {many(len(self.buckets.lengths), 'length')} "
            f"({', '.join(map(str, self.buckets.lengths))}), {share_of(self.buckets.padding_fraction)} of the slots "
            f"stay padding. {self.about_compiling}",
            f"{'With the example recipe: ' if self.is_example else ''}{' '.join(self.reasons[:-1])}",
            self.about_steps,
            *filter(None, [self.about_waiting]),
        )

    def _unmeasured(self) -> str:
        top = self.histogram.max_length
        if any(overhead.applies_to(top) for overhead in self.overheads):
            return ""
        return f" What packing costs the model was not measured in rows of about {top:,}, so it is left out."

    @property
    def about_attention(self) -> str:
        """Which attention to take."""
        return about_attention(self.plan)

    @property
    def about_steps(self) -> str:
        """Updates and passes over the data, on average."""
        packed, n = self.packed_recipe, self.histogram.num_sequences
        passes = packed.total_sequences / n
        return (
            f"One pass over the data is {self.plan.num_packs / packed.global_batch:,.1f} updates of "
            f"{many(packed.global_batch, 'pack')}; the recipe's {packed.total_sequences:,} sequences are "
            f"{passes:,.2f} passes and {many(packed.total_steps, 'update')}, {packed.warmup_steps:,} of them warm-up."
        )

    @cached_property
    def about_waiting(self) -> str:
        """How long replicas wait for the slowest; empty for one replica."""
        return about_waiting(self.plan, self.packed_recipe)

    @property
    def about_places(self) -> str:
        """What static shapes cost."""
        return about_places(self.plan)

    @property
    def about_compiling(self) -> str:
        """What the bucket lengths cost a compiler, and packs."""
        graphs, one = len(self.buckets.lengths), self.compiling
        if one is None:
            return f"A compiler makes {many(graphs, 'graph')} for them, and one for packs, which all have one length."
        return (
            f"Compiling a graph for each would take {graphs * one.least:.0f} to {graphs * one.most:.0f} s, and "
            f"{one.packed:.0f} s for packs, which all have one length. This is an estimate: a BERT of one layer took "
            f"{one.least:.1f} to {one.most:.1f} s a graph on a CPU, and more layers take longer."
        )

    @property
    def code(self) -> dict[str, str]:
        """Python that applies the plan, once it is written to `plan.json`, and trains on it, by trainer."""
        return code_for(self.histogram, self.packed_recipe)

    def _about_depth(self) -> str:
        best = self.depths[-1]
        limit = self.max_sequences_per_pack
        at = "without a limit" if limit is None else f"at your limit of {limit}"
        text = f"Depth {self.depth} is the smallest found to come within {100 * WITHIN:g} % of the "
        text += f"{many(best.packs, 'pack')} {at}"
        paid = self.more_packs
        first = max((depth for depth, more in paid.items() if more > NOTICED), default=1)
        less = {depth for (_, before), (depth, more) in pairwise(paid.items()) if more < before}
        told = [
            f"depth {d}: +{share_of(more)}"
            for d, more in paid.items()
            if d in (first, self.depth) or (first < d and d in less and (more or d < self.depth))
        ]
        text += f". Packs more than that: {', '.join(told)}"
        return f"{text}.{self._about_giving_up()}"

    def _about_giving_up(self) -> str:
        gave_up = [str(trial.depth or "none") for trial in self.depths if trial.gave_up]
        if not gave_up:
            return ""
        most = max(trial.packs / trial.bound - 1 for trial in self.depths if trial.gave_up)
        where = f"depth {', '.join(gave_up)}" if len(gave_up) < 4 else f"{len(gave_up)} of {len(self.depths)} depths"
        return f" The search gave up at {where}: its packs may be {share_of(most)} above the fewest."

    @property
    def numbers(self) -> dict[str, int | float]:
        """What a sweep compares."""
        low, high = self.speedup()
        return {
            "expected speed-up": (low + high) / 2,
            "efficiency, %": 100 * self.plan.efficiency,
            "packing factor": self.plan.packing_factor,
            "padding now, %": 100 * self.histogram.padding_fraction,
            "packs": self.plan.num_packs,
            "gap": self.gap,
            "recommended depth": self.depth,
        }

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """Return all findings as JSON text; write it to `path` too if one is given.

        They cannot be read back: the strategies of the plan are left out, which `plan.to_json` writes.
        """
        h, best = self.histogram, self.plan
        written = json.dumps(
            {
                "format": "packlib.Advice 1",
                "data": {
                    "name": h.name, "kind": h.kind, "source": h.source, "max_length": h.max_length,
                    "sequences": h.num_sequences, "tokens": h.num_tokens, "padding": h.padding_fraction,
                    "truncated": h.truncated, "dropped": h.dropped, "tokens_lost": self.tokens_lost,
                },
                "advice": self.sentences,
                "risks": [asdict(risk) for risk in self.risks],
                "plan": {
                    "method": best.method, "depth": self.depth, "packs": best.num_packs, "gap": self.gap,
                    "packing_factor": best.packing_factor, "efficiency": best.efficiency,
                },
                "habits": [
                    {"habit": waste.habit, "padding": waste.padding_fraction, "speedup": self.speedup(waste.habit)}
                    for waste in self.waste
                ],
                "assumptions": self.assumptions,
                "code": self.code,
                "overheads": [asdict(one) for one in self.overheads],
                "depths": [asdict(trial) for trial in self.depths],
                "more_packs": self.more_packs,
                "methods": [asdict(trial) for trial in self.trials],
                "buckets": {"lengths": self.buckets.lengths, "padding": self.buckets.padding_fraction},
                "recipe": {
                    "example": self.is_example, "before": asdict(self.recipe), "after": asdict(self.packed_recipe),
                    "reasons": self.reasons,
                },
            },
            indent=2,
            ensure_ascii=False,
        )  # fmt: skip
        if path is not None:
            write_text(path, written)
        return written


def said_range(low: float, high: float) -> str:
    """An estimate from low to high in words: "2.06 to 2.16", "about 3.02", and "at most 2" without a lower end."""
    if low == high:
        return f"at most {high:.2f}"
    return f"about {low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
