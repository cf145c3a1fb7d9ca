"""Notebook 14: the cost of a cut in the process of two states, by enumeration and by counting."""

from itertools import product
from math import log, prod

import pytest

from packlib.workbook.chapters.n14_whole_documents import runs


def enumerated(p, m):
    """The two losses from the probability of every text of m + 2 tokens, with no formula for what is inferred."""
    chances = {}
    for text in product((0, 1), repeat=m + 2):
        chances[text] = 0.5 * prod(p if token == text[0] else 1 - p for token in text[1:])

    def total(first, tokens):
        """The probability that these tokens stand from token `first` on."""
        return sum(chance for text, chance in chances.items() if text[first : first + len(tokens)] == tokens)

    losses = []
    for begin in (0, 1):  # tokens 0 to m were learned, or tokens 1 to m + 1
        loss = 0.0
        for asked in product((0, 1), repeat=m + 1):  # tokens 0 to m, of which the last is predicted
            same = total(begin, asked[:m])
            loss -= total(0, asked) * log(total(begin, asked) / same)
        losses.append(loss)
    return losses


@pytest.mark.parametrize("p", [0.55, 0.75, 0.9])
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_the_formula_is_what_enumeration_gives(p, m):
    assert runs.expected_losses(p, m) == pytest.approx(enumerated(p, m), abs=1e-12)
