"""What a check found: a verdict on each question, for people and for programs."""

import csv
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from packlib.arguments import in_html
from packlib.files import write_text

PASSED, FAILED, INCONCLUSIVE, NOT_ASKED = "passed", "failed", "inconclusive", "not asked"


@dataclass(frozen=True)
class Finding:
    """The answer to one question.

    Attributes:
        question: what was asked, in a word or two.
        verdict: "passed", "failed", "inconclusive", or "not asked" if what the question is about, or an argument that
            it needs, is missing.
        evidence: what was measured.
        cause: what most likely makes it fail; empty if it did not.
        remedy: what to do about it.

    >>> from packlib.tools.check import Finding
    >>> Finding("mean", "passed", "9 tokens weigh 0.111 each.")
    Finding(question='mean', verdict='passed', evidence='9 tokens weigh 0.111 each.', cause='', remedy='')
    """

    question: str
    verdict: str
    evidence: str
    cause: str = ""
    remedy: str = ""

    @classmethod
    def failed(cls, question: str, evidence: str, names: str | Iterable[str], **values: Any) -> "Finding":
        """Make a finding that failed, with the causes of these names in causes.csv; `values` fill their texts."""
        rows = [_causes()[name] for name in ([names] if isinstance(names, str) else names)]

        def joined(part: str) -> str:
            """Join the texts of all causes, each once, without their full stops."""
            texts = dict.fromkeys(row[part].rstrip(".") for row in rows)
            return "; and ".join(texts).format(**values)

        return cls(question, FAILED, evidence, joined("cause"), f"{joined('remedy')}.")

    def __str__(self) -> str:
        details = [f"\n    {name}: {text}" for name, text in (("cause", self.cause), ("remedy", self.remedy)) if text]
        return f"{self.question}: {self.verdict}. {self.evidence}{''.join(details)}"


@cache
def _causes() -> dict[str, dict[str, str]]:
    """Read causes.csv; return its rows by their names."""
    lines = Path(__file__).with_name("causes.csv").read_text(encoding="utf-8").splitlines()
    return {row["name"]: row for row in csv.DictReader(lines)}


@dataclass(frozen=True, repr=False)
class PackingCheck:
    """The findings of `check_packing`, in the order of its questions.

    >>> from packlib.tools.check import Finding, PackingCheck
    >>> found = PackingCheck((Finding("tokens", "failed", "1 of 9 sequences is lost.", "The last one is dropped."),))
    >>> found.exact, found["tokens"].cause
    (False, 'The last one is dropped.')
    """

    findings: tuple[Finding, ...]

    @property
    def exact(self) -> bool | None:
        """Return True if every question that was asked passed; False if one failed, None if one is inconclusive."""
        verdicts = {finding.verdict for finding in self.findings}
        if FAILED in verdicts:
            return False
        return None if INCONCLUSIVE in verdicts else True

    @property
    def not_asked(self) -> dict[str, str]:
        """The questions that were not asked, and why: their object is not there, or an argument is missing."""
        return {finding.question: finding.evidence for finding in self.findings if finding.verdict == NOT_ASKED}

    def __getitem__(self, question: str) -> Finding:
        return next(finding for finding in self.findings if finding.question == question)

    def __repr__(self) -> str:
        return "\n".join([*map(str, self.findings), self._summary])

    def _repr_html_(self) -> str:
        def row_of(tag: str, texts: Iterable[str]) -> str:
            cells = "".join(f'<{tag} style="text-align:left">{in_html(text)}</{tag}>' for text in texts)
            return f"<tr>{cells}</tr>"

        header = row_of("th", [field.name for field in fields(Finding)])
        body = "".join(row_of("td", astuple(finding)) for finding in self.findings)
        return f"<div><table>{header}{body}</table><p>{self._summary}</p></div>"

    @property
    def _summary(self) -> str:
        """Count the verdicts in one line, and name the questions that are inconclusive or were not asked."""
        counts = Counter(finding.verdict for finding in self.findings)
        summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (PASSED, FAILED, INCONCLUSIVE)) + "."
        for verdict in (INCONCLUSIVE, NOT_ASKED):
            names = [finding.question for finding in self.findings if finding.verdict == verdict]
            summary += f" {verdict.capitalize()}: {', '.join(names)}." * bool(names)
        return summary

    def to_json(self) -> str:
        """Return the findings as JSON text."""
        record = {"exact": self.exact, "not_asked": self.not_asked, "findings": list(map(asdict, self.findings))}
        return json.dumps(record, indent=2, ensure_ascii=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON to a file, whole or not at all."""
        write_text(path, self.to_json() + "\n")
