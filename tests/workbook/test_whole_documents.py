"""Notebook 14: the cost of a cut in the process of two states, by enumeration and by counting."""

from itertools import product
from math import log, prod

import numpy as np
import pytest

from packlib.workbook.chapters.n14_whole_documents import runs
from packlib.workbook.chapters.shared.recorded_runs import at_end, by_arm, interval
from packlib.workbook.records import recorded


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


@pytest.mark.parametrize(("p", "m"), [(0.6, 4), (0.9, 2)])
def test_counting_reproduces_the_formula_to_a_thousandth(p, m):
    assert runs.counted_losses(p, m, 4_000_000, seed=0) == pytest.approx(runs.expected_losses(p, m), abs=1e-3)


def test_what_the_chapter_says_of_the_recorded_runs():
    ends = at_end(by_arm(recorded("documents", "runs").rows))
    (bigram,) = (
        row["loss"]
        for row in recorded("baselines", "runs").rows
        if (row["text"], row["baseline"]) == ("documents", "bigram")
    )
    differences = ends["wrapped"] - ends["split"], ends["wrapped, no mask"] - ends["wrapped"]
    assert all(len(losses) >= 5 and losses.max() < bigram for losses in ends.values())  # "All runs end below"
    assert all(interval(one).verdict == "cannot be told" for one in differences)
    assert all(one.min() < 0 < one.max() for one in differences)  # "some seeds say more, others say less"


def test_recorded_differences_say_what_is_higher_than_what():
    ends = {"split": 1.0, "wrapped": 1.2, "wrapped, no mask": 1.1}
    made = {
        arm: [{"held_out_loss": np.array([9.0, end + seed]), "later_loss": np.array([2 * end])} for seed in range(3)]
        for arm, end in ends.items()
    }
    found = [(one.mean, one.seeds) for one in runs.recorded_differences(made).values()]
    assert np.allclose(found, [(0.2, 3), (-0.1, 3), (0.4, 3), (-0.2, 3)])
