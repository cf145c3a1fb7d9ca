"""What an audit found: updates of a trainer, problems, and the table of all."""

import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from packlib.arguments import in_html, percent
from packlib.files import write_text
from packlib.tools.auditing.source_comparison import SourceComparison
from packlib.work import Waiting

# fields of the comparison that sentences say, and not the table
_IN_SENTENCES = ("as_if", "cut", "labels", "by_token", "first_other")


@dataclass(frozen=True)
class PlannedUpdates:
    """Updates that a trainer makes of the packs, a pack being a row of its batches.

    Attributes:
        packs_per_update: batch size x accumulation x ranks.
        updates_per_epoch: updates in which each pack is used once.
        packs_repeated: packs that transformers' Trainer uses twice in an epoch so that all ranks have full batches.
        sequences_per_update: on average.
        updates_by_sequences: what the updates of an epoch would be if each sequence had a row.
        steps, epochs: the updates that are meant, and how many epochs they are.

    What rests on sequences is None where the packs do not tell them apart.
    """

    packs_per_update: int
    updates_per_epoch: int
    packs_repeated: int
    sequences_per_update: float | None
    updates_by_sequences: int | None
    steps: int | None
    epochs: float | None

    @classmethod
    def of(cls, packs: int, sequences: int | None, rows: int, loaded: int, steps: int | None) -> "PlannedUpdates":
        """Count the updates that a trainer makes of packs.

        Args:
            sequences: in all packs; None if that is not known.
            rows: packs of an update.
            loaded: packs that all ranks together load at once; 0 for one rank.
            steps: updates that are meant, or None.
        """
        updates, by_sequences = -(-packs // rows), None if sequences is None else -(-sequences // rows)
        return cls(
            packs_per_update=rows,
            updates_per_epoch=updates,
            packs_repeated=-packs % loaded if loaded else 0,
            sequences_per_update=None if sequences is None else sequences / packs * rows,
            updates_by_sequences=by_sequences,
            steps=steps,
            epochs=None if steps is None else steps / updates,
        )

    @property
    def problems(self) -> list[str]:
        """Say if the steps are whole epochs of unpacked rows, so that packs would train longer; a sentence or none."""
        if self.steps is None or self.epochs is None or self.updates_by_sequences is None:
            return []
        unpacked_epochs = self.steps / self.updates_by_sequences
        whole = max(1, round(unpacked_epochs))
        if abs(unpacked_epochs - whole) > 0.01 * whole or self.epochs <= 1.05 * whole:
            return []
        return [
            f"{self.steps:,} steps are {self.epochs:.1f} epochs of these packs, and {whole} of rows with one sequence "
            f"each. For {whole} epoch{'s' * (whole > 1)} of the packs take {whole * self.updates_per_epoch:,} steps."
        ]


@dataclass(frozen=True, repr=False)
class PackingAudit:
    """Result of `audit`.

    Attributes:
        name: the file.
        borders: the column or the format that tells where sequences begin; for "input_ids", nothing does.
        packs, tokens: rows, and the slots that sequences fill in them.
        sequences: in all packs; None where the packs do not tell them apart.
        deepest: sequences of the pack that has most; None like these.
        max_length: slots of a pack; by default those of the widest row, padding included.
        given: whether `max_length` was given.
        lower_bound: the proven minimum of packs for these lengths.
        lpfhp_packs: packs that packlib's fast method makes of them; None where the lengths are not known.
        source: what became of the source lengths, if they were given.
        updates: steps and epochs, if a batch size was given.
        waiting, balanced: how long ranks wait for the slowest where packs are dealt at random, and the share of the
            time where `balance` deals them; None for one rank, or where the packs do not tell.
        problems: what should be mended, in sentences; the exit code is 1 if there are any.
        unknown: what is inconclusive; the exit code is 3 if there is no problem, and something of this.
        notes: what else to know, and what was not looked at.
    """

    name: str
    borders: str
    packs: int
    sequences: int | None
    tokens: int
    deepest: int | None
    max_length: int
    given: bool
    lower_bound: int
    lpfhp_packs: int | None
    source: SourceComparison | None
    updates: PlannedUpdates | None
    waiting: Waiting | None
    balanced: float | None
    problems: tuple[str, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def padding_slots(self) -> int | None:
        """Slots of all packs that no sequence fills; None where packs hold more than they may."""
        slots = self.packs * self.max_length
        return None if slots < self.tokens else slots - self.tokens

    @property
    def gap(self) -> int | None:
        """Packs above the proven least; None where packs hold more than they may."""
        return None if self.packs < self.lower_bound else self.packs - self.lower_bound

    @cached_property
    def _record(self) -> dict[str, Any]:
        """Return all fields and what is computed from them, as JSON holds them."""
        derived = {"padding_slots": self.padding_slots, "gap": self.gap}
        return asdict(self) | derived | {"waiting": self.waiting and self.waiting._asdict()}

    @cached_property
    def _table(self) -> list[tuple[str, str]]:
        """Return the rows of the table: name and value, in words."""
        values = self._record
        names = "borders packs max_length sequences deepest tokens padding_slots lower_bound gap lpfhp_packs".split()
        rows = {name: values[name] for name in names}
        of_source = values["source"] or {}
        rows |= {f"source: {name}": value for name, value in of_source.items() if name not in _IN_SENTENCES}
        rows |= values["updates"] or {}
        padding = self.padding_slots
        remarks = {
            "max_length": "" if self.given else " (that of the widest row)",
            "padding_slots": "" if padding is None else f" ({percent(padding / (self.packs * self.max_length), 2)})",
            "gap": "" if self.gap is None else f" ({percent(self.gap / self.lower_bound, 2)})",
        }
        return [(name.replace("_", " "), _said(value) + remarks.get(name, "")) for name, value in rows.items()]

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self._table)
        return "\n".join([self.name, *(f"  {name:{width}}  {value}" for name, value in self._table), *self._sentences])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{in_html(name)}</td><td>{in_html(value)}</td></tr>" for name, value in self._table)
        listed = "".join(f"<li>{in_html(text)}</li>" for text in self._sentences)
        return f"<div>{in_html(self.name)}<table>{rows}</table><ul>{listed}</ul></div>"

    @property
    def _sentences(self) -> list[str]:
        """Return the problems, or that there is none, and what is inconclusive, and notes."""
        none = "No problem was found in what could be compared." if self.unknown else "No problem was found."
        problems = [f"Problem: {text}" for text in self.problems] or [none]
        problems += [f"Inconclusive: {text}" for text in self.unknown]
        return [*problems, *(f"Note: {text}" for text in self.notes)]

    def to_json(self) -> str:
        """Return the audit as JSON text."""
        return json.dumps(self._record, indent=2, ensure_ascii=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON to a file, whole or not at all."""
        write_text(path, self.to_json() + "\n")


def _said(value: Any) -> str:
    """Return a value as the table has it: numbers with commas, fractions with two places, "-" for None."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
