"""Intervals, baselines and the commands of notebook 17 are what they say."""

import itertools
import re
from functools import cache
from pathlib import Path

import nbformat
import numpy as np
import pytest
from scipy import stats

from packbook.n08_curriculum.runs import bytes_to_reach
from packbook.n17_evidence import runs as evidence
from packbook.records import recorded
from packbook.shared import recorded_experiments as runs
from packbook.shared.counted_text import bigram_loss, neighbors, unigram_loss
from packbook.shared.recorded_runs import against, best_rates, by_arm, interval, runs_of
from runs import arms

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "17_evidence.ipynb"


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_an_interval_is_students(confidence):
    differences = np.array([0.3, -0.1, 0.4, 0.2])
    found, known = interval(differences, confidence), stats.ttest_1samp(differences, 0).confidence_interval(confidence)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((known.low, known.high))
    assert evidence.half_widths(np.array([4]), confidence)[0] * differences.std(ddof=1) == pytest.approx(found.half)


def test_a_verdict_needs_more_than_one_seed_and_an_interval_without_zero():
    assert interval(np.array([5.0])).verdict == "inconclusive" and "±" not in str(interval(np.array([5.0])))
    assert interval(np.array([1.0, -1.0])).verdict == "inconclusive"
    assert interval(np.array([1.0, 1.1, 0.9])).verdict == "higher"
    assert interval(np.array([-1.0, -1.1, -0.9])).verdict == "lower"


def test_differences_are_paired_by_seed():
    rows = [{"arm": arm, "seed": seed, "held_out_loss": 10 * seed + shift}
            for arm, shift, seeds in (("a", 0, (0, 1, 2)), ("b", 1, (2, 0, 1))) for seed in seeds]  # fmt: skip
    ended = {arm: np.array([run["held_out_loss"][-1] for run in found]) for arm, found in by_arm(rows).items()}
    assert against(ended, "a")["b"].mean == 1 and against(ended, "a")["b"].half == pytest.approx(0)


def test_baselines_are_probabilities_and_learn_what_they_count():
    before, token = neighbors(np.array([[5, 6, 7, 8, 0]]), np.array([[1, 1, 2, 2, 0]]))
    assert before.tolist() == [5, 7] and token.tolist() == [6, 8], "of the same sequence"
    text = tuple(np.random.default_rng(0).integers(0, 5, (2, 40)))
    pairs = list(itertools.product(range(6), repeat=2))
    for loss in (unigram_loss, bigram_loss):
        each = [np.exp(-loss(text, (np.array([one]), np.array([other])), 6)) for one, other in pairs]
        assert np.reshape(each, (6, 6)).sum(1) == pytest.approx(np.ones(6))
    turns = neighbors(np.tile([0, 1, 2], 50)[None])
    assert bigram_loss(turns, turns, 3) < 0.1 < unigram_loss(turns, turns, 3)


@pytest.mark.parametrize("name", runs.EXPERIMENTS)
def test_all_arms_of_an_experiment_have_the_same_seeds(name):
    """Differences are taken seed by seed, and a missing one would go unseen."""
    arms = [[int(run["seed"][0]) for run in found] for found in runs_of(name).values()]
    assert all(seeds == arms[0] for seeds in arms)


@pytest.mark.parametrize("name", ["curriculum-rates", "curriculum-comparison"])
def test_a_sweep_has_seeds_of_its_own_and_no_best_rate_at_an_edge(name):
    seeds = [{row["seed"] for row in recorded(one, "runs").rows} for one in (name, f"{name}-sweep")]
    assert len(seeds[1]) == 2 and not seeds[0] & seeds[1]
    tried = runs.swept(f"{name}-sweep")
    assert set(tried) == set(runs.ends_of(name)) - {"nested"}
    assert all(min(tried[arm]) < rate < max(tried[arm]) for arm, rate in best_rates(tried).items())


def one_rate_is_best():
    """Whether all arms of a sweep have the padded arm's rate, with a lower and a higher one that were tried."""
    for optimizer in ("lamb", "adamw"):
        swept, rate = runs.swept(f"sweep-{optimizer}"), arms.EXPERIMENTS[f"curves-{optimizer}"].padded.learning_rate
        if set(best_rates(swept).values()) != {rate} or not all(min(at) < rate < max(at) for at in swept.values()):
            return False
    return True


def betas_were_ahead_in_the_sweep():
    """Whether LAMB's betas end lower than nothing adjusted on both seeds of the sweep, and higher in all runs."""
    swept, ended = runs.swept("sweep-lamb"), runs.ends_of("curves-lamb")
    rate = arms.EXPERIMENTS["curves-lamb"].padded.learning_rate
    ahead = (swept["betas"][rate] < swept["nothing adjusted"][rate]).all()
    return ahead and (ended["betas"] > ended["nothing adjusted"]).all()


def seeds_say_more_and_less_of_cuts():
    ended = runs.ends_of("documents")
    differences = ended["wrapped"] - ended["split"], ended["wrapped, no mask"] - ended["wrapped"]
    return all(one.min() < 0 < one.max() for one in differences)


STATEMENTS = {  # what notebooks say of the recorded runs, once each, and what outputs say of it, or what makes it true
    ("07", "and had the learning rate that was the best of four for padded rows."): one_rate_is_best,
    ("07", "left 4 % fewer updates, and the final loss is a little higher than that of padded rows."): (
        "AdamW, divided, less padded: … higher, 720 updates",),
    ("07", "there are as many updates as in the padded run, and the difference from padded rows is inconclusive."): (
        "AdamW, divided, as many updates, less padded: … inconclusive, 751 updates",),
    ("07", "between them these five seeds show no difference"): (
        "AdamW, divided, as many updates less divided: … inconclusive",),
    ("07", "Every way to keep the large batch had a higher final loss."): (
        "All 10 runs that keep the large batch end above padded rows",),
    ("07", "raising the betas to the power of k helped AdamW and hurt LAMB"): (
        "AdamW, betas to the power of k less nothing adjusted: … lower",
        "LAMB, betas to the power of k less nothing adjusted: … higher"),
    ("05", "both faults ended at a higher loss on five seeds"): (
        "no mask packed … (n = 5) higher", "no position reset packed … (n = 5) higher"),
    ("08", "trained at twice the best learning rate of full rows, without large gradients"): (
        "full rows 10 5 38.2", "truncated, 30 % 10 0 5.9", "truncated, 60 % 10 0 5.9",
        "Lowest: full rows at 0.003, truncated, 30 % at 0.006, truncated, 60 % at 0.006"),
    ("08", "With that rate they had a lower loss, and reached the loss of full rows with fewer bytes."): (
        "truncated, 30 %, rate 0.006 … lower", "truncated, 60 %, rate 0.006 … lower",
        "the loss of full rows after 59 ± 5 % and 57 ± 16 % of the bytes"),
    ("08", "their result against full rows was inconclusive"): ("reshaped, 30 %, rate 0.003 … inconclusive",),
    ("08", "These runs do not show that the same number of bytes takes less time."): (
        "processor time for the same number of bytes: … (inconclusive) and … (inconclusive)",),
    ("08", "Truncated rows also make 15 % or 30 % more updates from the same number of bytes"): (
        "0.3, truncated 99.6 % ± 4.7 % 115.", "0.6, truncated 102.7 % ± 3.6 % 130.0 %"),
    ("18", "In ascending order both rules have a higher loss than none. In shuffled batches the result is "
     "inconclusive."): (
        "ascending, sqrt ascending, none … higher", "ascending, linear ascending, none … higher",
        "shuffled, sqrt shuffled, none … inconclusive", "shuffled, linear shuffled, none … inconclusive"),
    ("18", "With either rule, ascending order has a lower loss than shuffled batches; without one the result is "
     "inconclusive."): (
        "ascending, none shuffled, none … inconclusive", "ascending, sqrt shuffled, sqrt … lower",
        "ascending, linear shuffled, linear … lower"),
    ("14", "All runs end below the bigram"): ["documents cut or kept whole (`documents`) -0.50 -0.03"],
    ("14", "some seeds say more, others say less"): seeds_say_more_and_less_of_cuts,
    ("17", "each arm has its best rate where padded rows have theirs"): one_rate_is_best,
    ("17", "After a third of the docstrings LAMB's betas were ahead of nothing adjusted at this rate, on both seeds, "
     "and at the end they were behind."): betas_were_ahead_in_the_sweep,
}  # fmt: skip


@cache
def words_of(number):
    """The words of a chapter, and those of its outputs, which end with a semicolon."""
    (path,) = NOTEBOOK.parent.glob(f"{number}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    said = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return " ".join(" ".join(cell.source for cell in cells).split()), " ".join(
        ";\n".join(said).replace("\n", " ;").split()
    )


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda pair: pair[0])
def test_what_the_notebooks_say_of_recorded_runs_holds(statement):
    """In an output `…` stands for what belongs to the same line or sentence."""
    number, words = statement
    assert words in words_of(number)[0]
    if callable(STATEMENTS[statement]):
        assert STATEMENTS[statement]()
        return
    records = re.sub(r" *\| *", " ", (NOTEBOOK.parent / "RECORDS.md").read_text().replace("\n", " ;"))
    outputs = " ".join([*(words_of(chapter)[1] for chapter in ("07", "08", "17", "18")), records])
    for said in STATEMENTS[statement]:
        assert re.search(re.escape(said).replace("…", "[^;]*?"), outputs), said


def test_bytes_to_reach_are_where_the_line_between_two_evaluations_meets_the_loss():
    base = {"held_out_loss": np.array([3.0, 2.0]), "tokens": np.array([50, 100])}
    tokens = np.array([20, 40, 60])
    for losses, share in (([4.0, 2.5, 1.5], 0.5), ([4.0, 2.0, 2.2], 0.4), ([4.0, 3.0, 2.1], np.inf)):
        run = {"held_out_loss": np.array(losses), "tokens": tokens}
        assert bytes_to_reach([run], [base]) == pytest.approx([share])


def test_an_experiment_whose_base_is_above_the_bigram_has_no_verdict():
    """Where a model has not learned what counting tells, an interval is not enough."""
    page = (NOTEBOOK.parent / "RECORDS.md").read_text().partition("\n## Every arm")[2].partition("\n## ")[0]
    for name, (asks, base, text) in runs.EXPERIMENTS.items():
        rows = [line.removesuffix(" |") for line in page.splitlines() if line.startswith(f"| {asks} |")]
        assert len(rows) == len(runs.ends_of(name)) - 1
        learned = (runs.ends_of(name)[base] < runs.baselines()[text]["bigram"]).all()
        assert all(row.endswith("above the bigram") != learned for row in rows), name
