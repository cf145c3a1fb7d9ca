"""Intervals, baselines and the commands of notebook 15 are what they say."""

import itertools
import re
import shlex
from pathlib import Path

import nbformat
import numpy as np
import pytest
from experiments import arms, curriculum
from scipy import stats

from packlib.workbook.chapters.n15_evidence import runs
from packlib.workbook.chapters.shared.baselines import bigram_loss, neighbors, unigram_loss
from packlib.workbook.chapters.shared.recorded_runs import against, by_arm, interval

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "15_evidence.ipynb"


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_an_interval_is_students(confidence):
    differences = np.array([0.3, -0.1, 0.4, 0.2])
    found, known = interval(differences, confidence), stats.ttest_1samp(differences, 0).confidence_interval(confidence)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((known.low, known.high))
    assert runs.half_widths(np.array([4]), confidence)[0] * differences.std(ddof=1) == pytest.approx(found.half)


def test_a_verdict_needs_more_than_one_seed_and_an_interval_without_zero():
    assert interval(np.array([5.0])).verdict == "cannot be told" and "±" not in str(interval(np.array([5.0])))
    assert interval(np.array([1.0, -1.0])).verdict == "cannot be told"
    assert interval(np.array([1.0, 1.1, 0.9])).verdict == "higher"
    assert interval(np.array([-1.0, -1.1, -0.9])).verdict == "lower"


def test_differences_are_paired_by_seed():
    rows = [{"arm": arm, "seed": seed, "held_out_loss": 10 * seed + shift}
            for arm, shift, seeds in (("a", 0, (0, 1, 2)), ("b", 1, (2, 0, 1))) for seed in seeds]  # fmt: skip
    ended = {arm: np.array([run["held_out_loss"][-1] for run in found]) for arm, found in by_arm(rows).items()}
    assert against(ended, "a")["b"].mean == 1 and against(ended, "a")["b"].half == pytest.approx(0)


def test_baselines_are_probabilities_and_learn_what_they_count():
    rng = np.random.default_rng(0)
    text = rng.integers(0, 5, (2, 40))
    before = np.repeat(np.arange(6), 6)
    for loss in (unigram_loss, bigram_loss):
        each = [np.exp(-loss(tuple(text), (np.array([one]), np.array([other])), 6))
                for one, other in itertools.product(range(6), repeat=2)]  # fmt: skip
        assert np.bincount(before, each) == pytest.approx(np.ones(6))
    turns = np.tile([0, 1, 2], 50)[None]
    pairs = neighbors(turns)
    assert bigram_loss(pairs, pairs, 3) < 0.1 < unigram_loss(pairs, pairs, 3)


def test_neighbors_stay_within_their_sequence():
    before, token = neighbors(np.array([[5, 6, 7, 8, 0]]), np.array([[1, 1, 2, 2, 0]]))
    assert before.tolist() == [5, 7] and token.tolist() == [6, 8]


def test_the_commands_to_redo_name_experiments():
    text = "\n".join(cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells)
    commands = [shlex.split(one) for one in re.findall(r"`python -m (tests[^`]*)`", text)]
    known = {
        "tests.experiments.pretraining": set(arms.EXPERIMENTS),
        "tests.experiments.curriculum": set(curriculum.ARMS),
        "tests.experiments.finetuning": {"lexname", "span"},
    }
    assert len(commands) >= 6
    assert all(name in known[module] for module, name, *_ in commands)


def test_every_experiment_has_its_base_and_a_text_that_was_counted():
    counted = runs.baselines()
    for name, (_, base, text, _) in runs.EXPERIMENTS.items():
        assert base in runs.ends_of(name) and set(counted[text]) == {"unigram", "bigram"}


def test_the_public_warm_up_is_early_and_divides_by_zero():
    """As notebook 08 says in the exercise on it."""
    steps = (1024 - 8) // 8

    def first_at_maximum(total):
        every = int(total * 0.3) // steps
        return steps * every

    assert first_at_maximum(1000) == 254 and int(423 * 0.3) // steps == 0 and int(424 * 0.3) // steps == 1
