"""What an audit found: counts beside the source, updates of a trainer, and the table of all."""

import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from packlib.auditing.audit_waits import Waits
from packlib.files import write_text
from packlib.markup import in_html

_NOTHING = "nothing was lost, cut or repeated"


@dataclass(frozen=True)
class AgainstSource:
    """The packed sequences beside those of the source: by their content if both have tokens, else by their lengths.

    Attributes:
        sequences, tokens: of the source.
        tokens_lost, tokens_added: tokens that the packs have fewer or more than the source.
        sequences_lost: sequences of the source with no token in any pack, at least.
        sequences_not_whole: sequences of the source that no pack holds in one piece: cut, split, changed or lost. By
            lengths, at least so many.
        pieces_or_repeats: packed sequences that are no sequence of the source: pieces, changed ones, or those that come
            again. By lengths, at least so many.
        as_if: the one simple cause that gives these lengths exactly; empty if there is none.
        repeats: packed sequences that come again; None by lengths.
        first_missing: the first of the source, counted from 0, that is not whole; None if all are, or by lengths.

    The sequences are None where the packs do not tell them apart.
    """

    sequences: int
    tokens: int
    tokens_lost: int
    tokens_added: int
    sequences_lost: int | None
    sequences_not_whole: int | None
    pieces_or_repeats: int | None
    as_if: str
    repeats: int | None = None
    first_missing: int | None = None

    @property
    def problems(self) -> list[str]:
        """What differs, in one sentence or none."""
        least = "or more " * (self.repeats is None)
        counts = {
            f"tokens of {self.tokens:,} in no pack ({self.tokens_lost / self.tokens:.2%})": self.tokens_lost,
            "tokens more than there were": self.tokens_added,
            "or more sequences in no pack": self.sequences_lost,
            f"{least}sequences not whole in any pack": self.sequences_not_whole,
            f"{least}pieces or repeats": self.pieces_or_repeats,
        }
        said = [f"{count:,} {what}" for what, count in counts.items() if count]
        as_if = f" It is as if {self.as_if}." * bool(self.as_if)
        if self.as_if == _NOTHING and said:
            as_if = (
                " The lengths are all there: other sequences of the same lengths are, or their tokens were changed."
            )
        first = f" The first that is not whole is sequence {self.first_missing}." * (self.first_missing is not None)
        return [f"Beside the source: {', '.join(said)}.{as_if}{first}"] if said else []

    @property
    def untold(self) -> list[str]:
        """What cannot be told."""
        if self.problems or self.sequences_not_whole is not None:
            return []
        return ["There are as many tokens as in the source; which sequences were cut cannot be told."]

    @property
    def notes(self) -> list[str]:
        """What may be said where nothing differs."""
        if self.problems or self.untold:
            return []
        if self.repeats is not None:
            return ["Each sequence of the source is there once, with all its tokens."]
        return [
            "Each length is there as often as in the source: by the lengths, nothing was lost, cut or repeated. That "
            "these are the same sequences cannot be seen without tokens on both sides."
        ]


@dataclass(frozen=True)
class Updates:
    """What a trainer makes of the packs, a pack being a row of its batches.

    Attributes:
        packs_per_update: batch size x accumulation x ranks.
        updates_per_epoch: updates in which each pack is used once; the last has `packs_in_last`.
        packs_repeated: packs that transformers' Trainer uses twice in an epoch so that all ranks have full batches.
        sequences_per_update: on average.
        updates_by_sequences: what the updates of an epoch would be if each sequence had a row, and
        epochs_by_sequences: how many epochs so many updates are.
        steps, epochs: the updates that are meant, and how many epochs they are.

    What rests on sequences is None where the packs do not tell them apart.
    """

    packs_per_update: int
    updates_per_epoch: int
    packs_in_last: int
    packs_repeated: int
    sequences_per_update: float | None
    updates_by_sequences: int | None
    epochs_by_sequences: float | None
    steps: int | None
    epochs: float | None

    @classmethod
    def of(cls, packs: int, sequences: int | None, rows: int, loaded: int, steps: int | None) -> "Updates":
        """The updates of `rows` packs each, of which several ranks load `loaded` packs at a time; 0 for one rank."""
        updates, by_sequences = -(-packs // rows), None if sequences is None else -(-sequences // rows)
        return cls(
            packs_per_update=rows,
            updates_per_epoch=updates,
            packs_in_last=packs - (updates - 1) * rows,
            packs_repeated=-packs % loaded if loaded else 0,
            sequences_per_update=None if sequences is None else sequences / packs * rows,
            updates_by_sequences=by_sequences,
            epochs_by_sequences=None if by_sequences is None else by_sequences / updates,
            steps=steps,
            epochs=None if steps is None else steps / updates,
        )

    @property
    def problems(self) -> list[str]:
        """Whether the steps are those of an epoch, or of several, for rows of one sequence each."""
        if self.steps is None or self.epochs is None or self.updates_by_sequences is None:
            return []
        meant = self.steps / self.updates_by_sequences
        near = max(1, round(meant))
        if abs(meant - near) > 0.01 * near or self.epochs <= 1.05 * near:
            return []
        return [
            f"{self.steps:,} steps are {self.epochs:.1f} epochs of these packs, and {near} of rows with one sequence "
            f"each. For {near} epoch{'s' * (near > 1)} of the packs take {near * self.updates_per_epoch:,} steps."
        ]


@dataclass(frozen=True, repr=False)
class PackingAudit:
    """What `audit` found.

    Attributes:
        name: the file.
        told_by: the column or the format that tells where sequences begin; for "input_ids", nothing does.
        packs, tokens: rows, and the slots that sequences fill in them.
        sequences, deepest: of all packs, and of the deepest; None where the packs do not tell them apart.
        max_length: slots of a pack; `given`, or else those of the fullest pack.
        lower_bound: packs that these lengths need at least, which is proven.
        lpfhp_packs: packs that packlib's fast method makes of them; None where the lengths are not known.
        source: what became of the source lengths, if they were given.
        updates: steps and epochs, if a batch size was given.
        waits: how long ranks wait for the slowest; None for one rank, or where the packs do not tell.
        problems: what should be mended, in sentences; the exit code is 1 if there are any.
        untold: what cannot be told of the file; the exit code is 3 if there is no problem, and something of this.
        notes: what else to know, and what was not looked at.
    """

    name: str
    told_by: str
    packs: int
    sequences: int | None
    tokens: int
    deepest: int | None
    max_length: int
    given: bool
    lower_bound: int
    lpfhp_packs: int | None
    source: AgainstSource | None
    updates: Updates | None
    waits: Waits | None
    problems: tuple[str, ...]
    untold: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def padding(self) -> int | None:
        """Slots of all packs that no sequence fills; None where packs hold more than they may."""
        slots = self.packs * self.max_length
        return None if slots < self.tokens else slots - self.tokens

    @property
    def above(self) -> int | None:
        """Packs above the proven least; None where packs hold more than they may."""
        return None if self.packs < self.lower_bound else self.packs - self.lower_bound

    @cached_property
    def _table(self) -> list[tuple[str, str]]:
        found = asdict(self) | {"padding": self.padding, "above": self.above}
        names = "told_by packs max_length sequences deepest tokens padding lower_bound above lpfhp_packs".split()
        rows = {name: found[name] for name in names}
        rows |= {f"source: {name}": value for name, value in (found["source"] or {}).items() if name != "as_if"}
        rows |= found["updates"] or {}
        more = {
            "max_length": "" if self.given else " (that of the fullest pack)",
            "padding": "" if self.padding is None else f" ({self.padding / (self.packs * self.max_length):.2%})",
            "above": "" if self.above is None else f" ({self.above / self.lower_bound:.2%})",
        }
        return [(name.replace("_", " "), _said(value) + more.get(name, "")) for name, value in rows.items()]

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self._table)
        return "\n".join([self.name, *(f"  {name:{width}}  {value}" for name, value in self._table), *self._sentences])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{in_html(name)}</td><td>{in_html(value)}</td></tr>" for name, value in self._table)
        listed = "".join(f"<li>{in_html(text)}</li>" for text in self._sentences)
        return f"<div>{in_html(self.name)}<table>{rows}</table><ul>{listed}</ul></div>"

    @property
    def _sentences(self) -> list[str]:
        problems = [f"Problem: {text}" for text in self.problems] or ["No problem was found."]
        problems += [f"Cannot be told: {text}" for text in self.untold]
        return [*problems, *(f"Note: {text}" for text in self.notes)]

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """The audit as JSON text; with `path`, which is written there too."""
        text = json.dumps(asdict(self) | {"padding": self.padding, "above": self.above}, indent=2, ensure_ascii=False)
        if path is not None:
            write_text(path, text + "\n")
        return text


def _said(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
