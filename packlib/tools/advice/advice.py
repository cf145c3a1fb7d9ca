"""The advice: the findings, decisions in sentences, the code that applies them, and all of it as JSON."""

import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from packlib.files import write_text
from packlib.tools.advice import sentences
from packlib.tools.advice.applying import code_for
from packlib.tools.advice.findings import Findings
from packlib.tools.advice.sentences import Decision


@dataclass(frozen=True, eq=False, repr=False)
class Advice(Findings):
    """Decisions for sequences of these lengths; its numbers are those of `Findings`."""

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """Decisions, in the order of the page."""
        return sentences.decide(self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Further findings, in sentences; behind the fold of the page."""
        return sentences.notes(self)

    @property
    def loss(self) -> str:
        """A sentence about the number of tokens that are trained on; empty where the data does not say."""
        return sentences.loss(self)

    @property
    def code(self) -> dict[str, str]:
        """Python that applies the plan, once it is written to `plan.json`, and trains on it, by trainer."""
        fit = self.fit
        return code_for(
            self.histogram,
            self.packed_recipe,
            self.overlong if self.chosen.overlong else None,
            attention="flash_attention_2" if self.form == "bounds" else "sdpa",
            recompute=bool(fit and fit.recompute),
            shared=bool(fit and fit.shards > 1),
            batch=None if self.update is None else self.update.after,
            epochs=self.epochs,
            packing_factor=self.plan.packing_factor,
            replicas=self.replicas,
            tokenized=self.tokenized,
            second_budget=self.second and (self.second.column, self.second.budget),
        )

    @property
    def numbers(self) -> dict[str, int | float]:
        """Numbers that a sweep over parameters compares, by name."""
        return {
            "slots today ÷ packed": self.slots_ratio,
            "row length": self.row_length,
            "packs": self.plan.num_packs,
            "gap": self.plan.gap,
            "efficiency, %": 100 * self.plan.efficiency,
            "packing factor": self.plan.packing_factor,
            "tokens cut, %": 100 * self.chosen.tokens_cut / self.whole.num_tokens,
        }

    def __repr__(self) -> str:
        """Write the decisions as a terminal shows them."""
        lines = [f"{d.about}: {d.choice}.\n  {d.reason}\n  Next best: {d.runner_up}" for d in self.decisions]
        return "\n".join([*lines, *filter(None, [self.loss])])

    def to_json(self) -> str:
        """Return all findings as JSON text.

        It cannot be read back: the strategies of the plan are left out, which are in the plan's own JSON.
        """
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON to a file, whole or not at all."""
        write_text(path, self.to_json() + "\n")

    def as_dict(self) -> dict[str, Any]:
        """Return all findings as values that JSON can hold."""
        whole, plan, update = self.whole, self.plan, self.update
        recipes = {"before": self.recipe, "after": self.packed_recipe}
        return {
            "format": "packlib.Advice 4",
            "data": {
                "name": whole.name, "kind": whole.kind, "source": whole.source, "sequences": whole.num_sequences,
                "tokens": whole.num_tokens, "max_length": self.max_length, "overlong": self.overlong,
            },
            "loss": None if self.labels is None else {
                "labels": self.labels.number, "tokens": self.trained,
                "share": (self.trained or 0) / self.histogram.num_tokens, "tokens_an_update": self.tokens_an_update,
                "said": self.loss,
            },
            "lost": {rule: lost._asdict() for rule, lost in self.lost.items()},
            "source": (upstream := self.upstream) and {
                "name": upstream.source.name, "sequences": upstream.source.num_sequences,
                "tokens": upstream.source.num_tokens,
                "overlong": upstream.overlong, "left": upstream.left, "lost": upstream.lost, "packs": upstream.packs,
            },
            "decisions": [decision._asdict() for decision in self.decisions],
            "second_budget": self.second and self.second._asdict(),
            "notes": self.notes,
            "gains": self.gains,
            "form": self.form,
            "row_lengths": [asdict(row) for row in self.row_lengths],
            "plan": {
                "max_length": self.row_length, "method": plan.method, "depth": plan.max_sequences_per_pack,
                "packs": plan.num_packs, "slots": self.slots, "lower_bound": plan.lower_bound,
                "packing_factor": plan.packing_factor, "efficiency": plan.efficiency, "deepest": plan.deepest,
            },
            "methods": [{"method": made_plan.method, "packs": made_plan.num_packs} for made_plan in self.plans],
            "depths": [trial._asdict() for trial in self.depths],
            "today": asdict(self.today),
            "habits": [asdict(batches) for batches in self.habits],
            "update": update and {
                "before": asdict(update.before), "after": asdict(update.after), "off": update.off, "most": update.most,
                "all_packs": update.all_packs, "updates": self.updates, "left_out": self.left_out,
            },
            "recipe": self.recipe and {name: recipe and asdict(recipe) for name, recipe in recipes.items()},
            "epochs": None if self.recipe else self.epochs,
            "model": self.shape and {**asdict(self.shape), "parameters": self.shape.parameters},
            "memory": self.memory and {**self.memory._asdict(), **(self.fit._asdict() if self.fit else {})},
            "waiting": self.waiting and {"ranks": self.replicas, **self.waiting._asdict()},
            "code": self.code,
        }  # fmt: skip
