"""Text from outside (names of files and data, cells, parameters) in a page: always text, never markup.

What is data goes into HTML by these functions and not through Markdown; figures show it as it stands.
"""

import html
import re


def one_line(text: str, most: int = 80) -> str:
    """The text on one line of at most `most` printable characters; the middle of a longer one becomes "…"."""
    kept = "".join(letter for letter in text if letter.isprintable() or letter.isspace())
    line = " ".join(kept.split())
    end = most // 3
    return line if len(line) <= most else f"{line[: most - end - 1]}…{line[len(line) - end :]}"


def escaped(text: str) -> str:
    """The text for an attribute in quotes, or for an element that holds text alone, such as `<title>`."""
    return html.escape(text)


def in_html(text: str) -> str:
    """The text for an element. Tags part `$` and backslashes from the rest, else MathJax sees formulas there."""
    return re.sub(r"[$\\]", r"<span>\g<0></span>", escaped(text))
