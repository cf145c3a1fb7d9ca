"""The result of a check of a loader: a verdict on each question, and how often each sequence was handed out."""

import json
import os
from collections import Counter
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any

import numpy as np

from packlib.arguments import in_html
from packlib.files import write_text
from packlib.tools.check.findings import FAILED, NOT_ASKED, PASSED, Finding

INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, repr=False, eq=False)
class LoaderCheck:
    """The findings of `check_loader`, in the order of its questions.

    Attributes:
        findings: a verdict with its evidence for each question.
        reference: what the epochs were compared with, in one sentence.
        expected: int64, shape (sequences,): how often an epoch should have each sequence of the reference.
        seen: by epoch, such as "epoch 0" or "epoch 0, stopped after step 3": how often all ranks together were handed
            out each sequence of the reference; int64, shape (sequences,).

    >>> from packlib.tools.check import Finding
    >>> from packlib.tools.loaders import LoaderCheck
    >>> import numpy as np
    >>> found = LoaderCheck((Finding("order", "failed", "Both epochs have one order."),), "", np.ones(2), {})
    >>> found.passed, found["order"].evidence
    (False, 'Both epochs have one order.')
    """

    findings: tuple[Finding, ...]
    reference: str
    expected: np.ndarray
    seen: dict[str, np.ndarray]

    @property
    def passed(self) -> bool | None:
        """Return True if every question that was asked passed; False if one failed, None if one is inconclusive."""
        verdicts = {finding.verdict for finding in self.findings}
        return False if FAILED in verdicts else None if INCONCLUSIVE in verdicts else True

    @property
    def not_asked(self) -> dict[str, str]:
        """The questions that were not asked, and why: their object is not there, or an argument is missing."""
        return {finding.question: finding.evidence for finding in self.findings if finding.verdict == NOT_ASKED}

    def __getitem__(self, question: str) -> Finding:
        """Return the finding about a question, by its name."""
        return next(finding for finding in self.findings if finding.question == question)

    def __repr__(self) -> str:
        return "\n".join([self.reference, *map(str, self.findings), self._summary])

    def _repr_html_(self) -> str:
        rows = [[field.name for field in fields(Finding)], *map(astuple, self.findings)]
        cells = ["".join(f'<td style="text-align:left">{in_html(text)}</td>' for text in row) for row in rows]
        body = "".join(f"<tr>{row}</tr>" for row in [cells[0].replace("td", "th"), *cells[1:]])
        return f"<div><p>{in_html(self.reference)}</p><table>{body}</table><p>{self._summary}</p></div>"

    @property
    def _summary(self) -> str:
        """The number of findings of each verdict, and the questions that are open, in words."""
        counts = Counter(finding.verdict for finding in self.findings)
        summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (PASSED, FAILED, INCONCLUSIVE)) + "."
        for verdict in (INCONCLUSIVE, NOT_ASKED):
            names = [finding.question for finding in self.findings if finding.verdict == verdict]
            summary += f" {verdict.capitalize()}: {', '.join(names)}." * bool(names)
        return summary

    def to_json(self) -> str:
        """Return the findings as JSON text, with the sequences that an epoch lacks or has too often.

        These are given by their indices in `expected`.
        """
        miscounted: dict[str, Any] = {}
        for epoch, counts in self.seen.items():
            miscounted[epoch] = {
                "never": np.flatnonzero(counts < self.expected).tolist(),
                "too often": np.flatnonzero(counts > self.expected).tolist(),
            }
        report = {
            "passed": self.passed,
            "reference": self.reference,
            "not_asked": self.not_asked,
            "findings": list(map(asdict, self.findings)),
            "seen": miscounted,
        }
        return json.dumps(report, indent=2, ensure_ascii=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON to a file, whole or not at all."""
        write_text(path, self.to_json() + "\n")
