"""Tables and lists that read well as HTML in a notebook or a report, and as text in a terminal or a test."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from packlib.arguments import in_html, one_line

_LONGEST = 300  # letters of a cell's text


@dataclass(frozen=True)
class Table:
    """Show a header and rows as a table. Columns of numbers are aligned right, with commas between thousands.

    Attributes:
        header: names of the columns.
        rows: values of each row; None is an empty cell.
        right: whether all columns are aligned right and no cell is broken, for numbers that are written as text.
    """

    header: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    right: bool = False

    def __repr__(self) -> str:
        cells = [[_text(value) for value in row] for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        sides = [">" if right else "<" for right in self._numeric]
        template = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
        return "\n".join(template.format(*row).rstrip() for row in cells)

    def _repr_html_(self) -> str:
        sides = ["right" if right else "left" for right in self._numeric]
        unbroken = ";white-space:nowrap" if self.right else ""

        def cells(tag: str, values: Sequence[Any], style: str) -> str:
            """Return the HTML of a row's cells, each in this tag with this further style."""
            texts = zip(sides, map(_text, values), strict=True)
            return "".join(f'<{tag} style="text-align:{side}{style}">{in_html(text)}</{tag}>' for side, text in texts)

        body = "".join(f"<tr>{cells('td', values, unbroken)}</tr>" for values in self.rows)
        return f"<table><thead><tr>{cells('th', self.header, '')}</tr></thead><tbody>{body}</tbody></table>"

    @property
    def _numeric(self) -> list[bool]:
        """Return, for each column, whether it holds numbers; the first column names the rows, so it does not."""
        if self.right:
            return [True] * len(self.header)
        columns = [[row[index] for row in self.rows] for index in range(1, len(self.header))]
        return [False, *(all(isinstance(value, int | float | None) for value in column) for column in columns)]


class Points(tuple):
    """Show sentences as a bulleted list."""

    def __repr__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self)

    def _repr_html_(self) -> str:
        return f"<ul>{''.join(f'<li>{in_html(sentence)}</li>' for sentence in self)}</ul>"


def _text(value: Any) -> str:
    """Return the text of a cell: numbers with commas, fractions to four digits or to the whole from 1,000 on."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return one_line(str(value), _LONGEST)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
