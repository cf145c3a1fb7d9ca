"""What a check found: a verdict on each question, for people and for programs."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from packlib.files import atomic_path
from packlib.markup import in_html

PASSED, FAILED, UNKNOWN = "passed", "failed", "cannot be told"


@dataclass(frozen=True)
class Finding:
    """The answer to one question.

    Attributes:
        question: what was asked, in a word or two.
        verdict: "passed", "failed" or "cannot be told".
        evidence: what was measured.
        cause: what most likely makes it fail; empty if it passed.
        remedy: what to do about it.
    """

    question: str
    verdict: str
    evidence: str
    cause: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        lines = [f"{self.question}: {self.verdict}. {self.evidence}"]
        lines += [f"    {word}: {text}" for word, text in (("cause", self.cause), ("do", self.remedy)) if text]
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class PackingCheck:
    """The findings of `check_packing`, in the order of its questions.

    >>> found = PackingCheck((Finding("tokens", "failed", "1 of 9 is lost.", "The last one is dropped."),))
    >>> found.exact, found["tokens"].cause
    (False, 'The last one is dropped.')
    """

    findings: tuple[Finding, ...]

    @property
    def failed(self) -> list[Finding]:
        """The findings that failed."""
        return [finding for finding in self.findings if finding.verdict == FAILED]

    @property
    def exact(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __getitem__(self, question: str) -> Finding:
        return next(finding for finding in self.findings if finding.question == question)

    def __repr__(self) -> str:
        return "\n".join([*map(str, self.findings), self._summary])

    def _repr_html_(self) -> str:
        names = ("question", "verdict", "evidence", "cause", "remedy")
        rows = [names, *([getattr(finding, name) for name in names] for finding in self.findings)]
        cells = ["".join(f'<td style="text-align:left">{in_html(text)}</td>' for text in row) for row in rows]
        head = cells.pop(0).replace("td", "th")
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div>{table}<p>{in_html(self._summary)}</p></div>"

    @property
    def _summary(self) -> str:
        counts = {verdict: sum(f.verdict == verdict for f in self.findings) for verdict in (PASSED, FAILED, UNKNOWN)}
        return ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + "."

    def to_json(self, path: str | os.PathLike | None = None) -> str:
        """The findings as JSON text; with `path` it is written there too."""
        found = {"exact": self.exact, "findings": [asdict(finding) for finding in self.findings]}
        text = json.dumps(found, indent=2, ensure_ascii=False)
        if path is not None:
            with atomic_path(Path(path)) as file:
                file.write_text(text + "\n", encoding="utf-8")
        return text
