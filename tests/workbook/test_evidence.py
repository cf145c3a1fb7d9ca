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

from packlib.advisor.records import recorded
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
    assert len(commands) >= 5
    assert all(name in known[module] for module, name, *_ in commands)


def test_every_experiment_has_its_base_and_a_text_that_was_counted():
    counted = runs.baselines()
    for name, (_, base, text, _) in runs.EXPERIMENTS.items():
        assert base in runs.ends_of(name) and set(counted[text]) == {"unigram", "bigram"}


def test_all_arms_of_an_experiment_have_the_same_seeds():
    """Differences are taken seed by seed, and a missing one would go unseen."""
    for name in runs.EXPERIMENTS:
        rows = recorded(name, "runs").rows
        seeds = {
            arm: sorted({row["seed"] for row in rows if row["arm"] == arm}) for arm in {row["arm"] for row in rows}
        }
        assert len(set(map(frozenset, seeds.values()))) == 1, (name, seeds)


def test_the_public_warm_up_is_early_and_divides_by_zero():
    """As notebook 08 says in the exercise on it."""
    steps = (1024 - 8) // 8

    def first_at_maximum(total):
        every = int(total * 0.3) // steps
        return steps * every

    assert first_at_maximum(1000) == 254 and int(423 * 0.3) // steps == 0 and int(424 * 0.3) // steps == 1


def less(name, arm, base):
    """The interval of the ends of an arm less those of a base."""
    ended = runs.ends_of(name)
    return interval(ended[arm] - ended[base])


def first_three(name, arm, base):
    ended = runs.ends_of(name)
    return interval((ended[arm] - ended[base])[:3])


def between_the_counts(name):
    """Whether each run ends above the bigram and below the unigram."""
    counted = runs.baselines()[runs.EXPERIMENTS[name].text]
    return all(counted["bigram"] < end < counted["unigram"] for ends in runs.ends_of(name).values() for end in ends)


def made_updates(arm):
    """Updates of an arm of the length warm-up, as a share of those with full rows."""
    return runs.shares("curriculum-length", "update", 0.95)[arm].mean


def same_as_full_rows():
    """Whether reshaped rows have as many updates as full rows, and end where nothing can be told."""
    told = less("curriculum-length", "0.3, reshaped", "no warm-up").verdict
    return made_updates("0.3, reshaped") == 1 and told == "cannot be told"


def below_the_bigram(name):
    """For each run, whether it ends below the bigram."""
    ends = np.concatenate(list(runs.ends_of(name).values()))
    return ends < runs.baselines()[runs.EXPERIMENTS[name].text]["bigram"]


def rate_pairs(kind):
    found = runs.paired(runs.ends_of("curriculum-rates"), runs.RATE_PAIRS, 0.95)
    return [one for name, one in found.items() if kind in name]


def faults_end_higher():
    """Whether both faults of a packed run end higher on five seeds."""
    found = [less("ablations", arm, "packed") for arm in ("no mask", "no position reset")]
    return all(one.verdict == "higher" and one.seeds == 5 for one in found)


DIVIDED = ("accumulation divided", "even updates")
LARGER = ("betas adjusted", "rate doubled", "nothing adjusted", "batch doubled")
STATEMENTS = {  # what a notebook says of the recorded runs, and what makes it true
    ("07_hyperparameters", "three **seeds** for each way"): lambda: {
        len(ends) for ends in runs.ends_of("curves").values()} == {3},
    ("07_hyperparameters", "Both runs beat the first and have not reached the second."): lambda: between_the_counts(
        "curves", ("padded", "packed, accumulation divided")),
    ("05_packed_attention", "both faults ended at a higher loss on five seeds"): faults_end_higher,
    ("15_evidence", "a missing mask and positions that run on ended at a higher loss"): faults_end_higher,
    ("15_evidence", "for the mean over packs no difference can be told"): lambda: (
        less("ablations", "pack mean", "packed").verdict == "cannot be told"),
    ("08_curriculum", "All runs end between the two"): lambda: between_the_counts("curriculum-rates"),
    ("08_curriculum", "training in ascending order ended at a higher loss than shuffled batches"): lambda: all(
        one.verdict == "higher" for one in rate_pairs("ascending less")),
    ("08_curriculum", "The order of the batches matters more than the rule"): lambda: min(
        one.mean for one in rate_pairs("ascending less")) > max(abs(one.mean) for one in rate_pairs("less none")),
    ("08_curriculum", "The warm-up over 60 % ends lower."): lambda: (
        less("curriculum-length", "0.6, truncated", "no warm-up").verdict == "lower"),
    ("08_curriculum", "It also makes 30 % more updates"): lambda: round(100 * made_updates("0.6, truncated")) == 130,
    ("08_curriculum", "make as many updates as full ones, and there no difference can be told"): same_as_full_rows,
    ("15_evidence", "No arm had the best of several rates, and all ended above the bigram"): lambda: between_the_counts(
        "curves"),
    ("15_evidence", "The longer warm-up ends lower. It also makes more updates"): lambda: (
        less("curriculum-length", "0.6, truncated", "no warm-up").verdict == "lower"
        and made_updates("0.6, truncated") > made_updates("0.3, truncated") > 1),
    ("15_evidence", "as many updates as full rows, and no difference can be told"): same_as_full_rows,
    ("15_evidence", "Nested ends where padded does"): lambda: abs(
        less("curriculum-comparison", "nested", "padded").mean) < 1e-4,
    ("15_evidence", "Bucketed batches and batches by tokens end higher"): lambda: all(
        less("curriculum-comparison", way, "padded").verdict == "higher" for way in ("bucketed", "token budget")),
    ("15_evidence", "Packed cannot be told from padded."): lambda: (
        less("curriculum-comparison", "packed", "padded").verdict == "cannot be told"),
    ("15_evidence", "All four take less time than padding"): lambda: all(
        share.mean + share.half < 1 for share in runs.shares("curriculum-comparison", "cpu_seconds", 0.95).values()),
    ("15_evidence", "All runs end below the bigram."): lambda: below_the_bigram("curriculum-length").all(),
    ("15_evidence", "Most models recorded here are worse than a bigram"): lambda: (
        np.concatenate([below_the_bigram(name) for name in runs.EXPERIMENTS]).mean() < 0.5),
    ("15_evidence", "with even updates or without, cannot be told from padded"): lambda: all(
        less("curves", f"packed, {arm}", "padded").verdict == "cannot be told" for arm in DIVIDED),
    ("15_evidence", "The arms with larger updates ended higher *in these runs*"): lambda: all(
        less("curves", f"packed, {arm}", "padded").verdict == "higher" for arm in LARGER),
    ("15_evidence", "cannot be told from padded rows, and takes about half of their time"): lambda: abs(
        runs.shares("curves", "cpu_seconds", 0.95)["packed, accumulation divided"].mean - 0.5) < 0.06,
    ("15_evidence", "In shuffled batches no rule can be told from none."): lambda: all(
        one.verdict == "cannot be told" for one in rate_pairs("shuffled: ")),
    ("15_evidence", "In ascending order both rules end higher than none."): lambda: all(
        one.verdict == "higher" for one in rate_pairs("ascending: ")),
    ("15_evidence", "which raises the loss by about 0.25"): lambda: all(
        abs(one.mean - 0.25) < 0.05 for one in rate_pairs("ascending less")),
    ("15_evidence", "After three seeds the linear rule seemed to end higher in shuffled batches"): lambda: (
        first_three("curriculum-rates", "shuffled, linear", "shuffled, none").verdict == "higher"),
    ("15_evidence", "Sorted batches end higher; rules differ less"): lambda: all(
        one.verdict == "higher" for one in rate_pairs("ascending less")),
}  # fmt: skip


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda pair: pair[0][:2])
def test_what_the_notebooks_say_of_recorded_runs_holds(statement):
    name, words = statement
    cells = nbformat.read(NOTEBOOK.with_name(f"{name}.ipynb"), as_version=4).cells
    assert words in " ".join(" ".join(cell.source for cell in cells).split())
    assert STATEMENTS[statement]()


def test_an_experiment_that_is_to_be_redone_has_no_verdict():
    """One seed has none anyway; where a model has not learned what counting tells, an interval is not enough."""
    above = {name for name in runs.EXPERIMENTS if runs.EXPERIMENTS[name].text == "masked" and name != "ablations"}
    assert set(runs.TO_BE_REDONE) == above
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    (table,) = (cell.outputs[0].data["text/plain"] for cell in cells if "TO_BE_REDONE else" in cell.source)
    rows = [line for line in table.splitlines() if "how to adjust" in line]
    assert len(rows) == len(runs.ends_of("curves")) - 1 and all(row.endswith("to be redone") for row in rows)
