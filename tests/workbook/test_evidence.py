"""Intervals, baselines and the commands of notebook 17 are what they say."""

import itertools
from pathlib import Path

import nbformat
import numpy as np
import pytest
from experiments import arms
from scipy import stats

from packlib.workbook.chapters.n08_curriculum.runs import bytes_to_reach
from packlib.workbook.chapters.n17_evidence import runs
from packlib.workbook.chapters.shared.baselines import bigram_loss, neighbors, unigram_loss
from packlib.workbook.chapters.shared.recorded_runs import (
    against,
    at_end,
    best_rates,
    by_arm,
    by_rate,
    interval,
    runs_of,
)
from packlib.workbook.records import recorded

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "17_evidence.ipynb"


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


def test_all_arms_of_an_experiment_have_the_same_seeds():
    """Differences are taken seed by seed, and a missing one would go unseen."""
    for name in runs.EXPERIMENTS:
        rows = recorded(name, "runs").rows
        seeds = {
            arm: sorted({row["seed"] for row in rows if row["arm"] == arm}) for arm in {row["arm"] for row in rows}
        }
        assert len(set(map(frozenset, seeds.values()))) == 1, (name, seeds)


@pytest.mark.parametrize("name", ["curriculum-rates", "curriculum-comparison"])
def test_a_sweep_has_seeds_of_its_own_and_no_best_rate_at_an_edge(name):
    ends = {(row["arm"], row["seed"]): row["held_out_loss"] for row in recorded(f"{name}-sweep", "runs").rows}
    seeds = {seed for _, seed in ends}
    assert len(seeds) == 2 and not seeds & {row["seed"] for row in recorded(name, "runs").rows}
    best = best_rates(runs.swept(f"{name}-sweep"))
    assert set(best) == set(runs.ends_of(name)) - {"nested"}
    for arm, rate in best.items():
        tried = {float(one.rpartition(", ")[2]) for one, _ in ends if one.rpartition(", ")[0] == arm}
        means = {one: np.mean([ends[f"{arm}, {one:g}", seed] for seed in seeds]) for one in tried}
        assert min(tried) < rate < max(tried) and means[rate] == pytest.approx(min(means.values()))


def less(name, arm, base):
    """The interval of the ends of an arm less those of a base."""
    ended = runs.ends_of(name)
    return interval(ended[arm] - ended[base])


def farthest(way):
    """From padded, of a way that cannot be told from it: the end of the interval that is farther from 0."""
    one = less("curriculum-comparison", way, "padded")
    assert one.verdict == "cannot be told"
    return abs(one.mean) + one.half


def made_updates(arm):
    """Updates of an arm of the length warm-up, as a share of those with full rows."""
    return runs.shares("curriculum-length", "update", 0.95)[arm].mean


def same_as_full_rows():
    """Whether reshaped rows have as many updates as full rows, and end where nothing can be told."""
    told = less("curriculum-length", "0.3, reshaped", "no warm-up").verdict
    return made_updates("0.3, reshaped") == 1 and told == "cannot be told"


def below_the_bigram(name, arms=None):
    """For each run, whether it ends below the bigram."""
    ended = runs.ends_of(name)
    ends = np.concatenate([ended[arm] for arm in arms or ended])
    return ends < runs.baselines()[runs.EXPERIMENTS[name].text]["bigram"]


def rate_pairs(kind):
    found = runs.paired(runs.ends_of("curriculum-rates"), runs.RATE_PAIRS, 0.95)
    return [one for name, one in found.items() if kind in name]


def with_a_rule_ascending_ends_lower():
    """Whether it does with either rule, and without one cannot be told though all five seeds say so."""
    ended = runs.ends_of("curriculum-rates")
    none = ended["ascending, none"] - ended["shuffled, none"]
    told = [less("curriculum-rates", f"ascending, {rule}", f"shuffled, {rule}").verdict for rule in ("sqrt", "linear")]
    return (
        set(told) == {"lower"} and interval(none).verdict == "cannot be told" and (none < 0).all() and len(none) == 5
    )


def length_sweep(column="held_out_loss"):
    """By arm and rate of the sweep of the length warm-up: a value a seed."""
    return by_rate(at_end(by_arm(recorded("curriculum-length-sweep", "runs").rows), column))


def truncated_rows_stand_higher_rates():
    """Whether full rows lose most at twice their best rate, and truncated rows are best there."""
    at_twice = {arm: rates[0.006].mean().round(2) for arm, rates in length_sweep().items()}
    best = best_rates(length_sweep())
    return (
        best["no warm-up"] == best["0.3, reshaped"] == 0.003
        and best["0.3, truncated"] == best["0.6, truncated"] == 0.006
        and list(at_twice.values()) == [2.70, 2.28, 2.24, 2.52]
    )


def gradient_norms_are_as_told():
    """Whether the largest norms of the runs of each arm lie where the notebook says."""
    full, *truncated, reshaped = (
        np.concatenate(list(rates.values())) for rates in length_sweep("largest_gradient_norm").values()
    )
    large, large_reshaped = np.rint(full[full > 10]), np.rint(reshaped[reshaped > 10])
    return (
        (len(full), len(large), large.min(), large.max()) == (10, 5, 17, 38)
        and (len(large_reshaped), large_reshaped.min(), large_reshaped.max()) == (3, 12, 33)
        and (np.concatenate(truncated) < 5.9).all()
        and np.size(truncated) == 20
    )


def reshaped_ends_lower_in_all_pairs():
    """Whether it does at all five rates, and in two of the ten pairs by less than 0.008."""
    swept = length_sweep()
    less = np.array([swept["0.3, reshaped"][rate] - ends for rate, ends in swept["no warm-up"].items()])
    return less.shape == (5, 2) and (less < 0).all() and (less > -0.008).sum() == 2


def time_is_not_saved():
    """Whether reshaped rows take 7 % more processor time, and for truncated rows nothing can be told."""
    took = runs.shares("curriculum-length", "cpu_seconds", 0.95)
    reshaped = took.pop("0.3, reshaped")
    return f"{100 * reshaped.mean:.1f} ± {100 * reshaped.half:.1f}" == "107.1 ± 1.8" and all(
        abs(share.mean - 1) < share.half for share in took.values()
    )


def truncated_rows_end_lower_at_their_own_rate():
    """Whether both do on five seeds, and are where full rows end after about as many bytes as the notebook says."""
    long, own = runs_of("curriculum-length"), runs_of("curriculum-length-rates")
    ended, full = at_end(own), at_end(long)["no warm-up"]
    found = [interval(ends - full) for ends in ended.values()]
    shares = [100 * bytes_to_reach(seeds, long["no warm-up"]).mean() for seeds in own.values()]
    assert max(run["largest_gradient_norm"].max() for seeds in own.values() for run in seeds) < 6
    return all(one.verdict == "lower" and one.seeds == 5 for one in found) and shares == pytest.approx([60, 60], abs=5)


def truncated_rows_gain_by_their_own_rate():
    """Whether all seeds end lower at 0.006 than full rows and the bigram, and five and four lower than at 0.003."""
    long, own = runs.ends_of("curriculum-length"), runs.ends_of("curriculum-length-rates")
    bigram = runs.baselines()["modules"]["bigram"]
    lower = [int((ends < long[arm.removesuffix(", 0.006")]).sum()) for arm, ends in own.items()]
    return lower == [5, 4] and all(
        (ends < long["no warm-up"]).all() and (ends < bigram).all() and runs.short_first(0.95)[arm].verdict == "lower"
        for arm, ends in own.items()
    )


def test_bytes_to_reach_are_where_the_line_between_two_evaluations_meets_the_loss():
    base = {"held_out_loss": np.array([3.0, 2.0]), "tokens": np.array([50, 100])}
    tokens = np.array([20, 40, 60])
    for losses, share in (([4.0, 2.5, 1.5], 0.5), ([4.0, 2.0, 2.2], 0.4), ([4.0, 3.0, 2.1], np.inf)):
        assert bytes_to_reach([{"held_out_loss": np.array(losses), "tokens": tokens}], [base]) == pytest.approx(
            [share]
        )


def faults_end_higher():
    """Whether both faults of a packed run end higher on five seeds."""
    found = [less("ablations", arm, "packed") for arm in ("no mask", "no position reset")]
    return all(one.verdict == "higher" and one.seeds == 5 for one in found)


OPTIMIZERS = ("lamb", "adamw")
LARGER = ("nothing adjusted", "betas", "square-root rate", "betas and square-root rate", "linear rate")


def adjusted(optimizer, arm, base="padded", confidence=0.95):
    """The interval of an arm that adjusts a recipe less another."""
    ended = runs.ends_of(f"curves-{optimizer}")
    return interval(ended[arm] - ended[base], confidence)


def divided_is_closest():
    """Whether divided accumulation has the smallest difference from padded rows, with both optimizers."""
    return all(
        abs(adjusted(optimizer, "divided").mean) < min(abs(adjusted(optimizer, arm).mean) for arm in LARGER)
        for optimizer in OPTIMIZERS
    )


def larger_updates_end_higher():
    """Whether all arms with half as many updates end higher than padded rows, with both optimizers."""
    updates = [
        runs.shares(f"curves-{optimizer}", "update", 0.95)[arm].mean for optimizer in OPTIMIZERS for arm in LARGER
    ]
    return np.allclose(updates, 0.5, atol=0.03) and all(
        adjusted(optimizer, arm).verdict == "higher" for optimizer in OPTIMIZERS for arm in LARGER
    )


def betas_help_with_one_optimizer():
    """Whether the raised betas end higher than nothing adjusted with LAMB, and lower with AdamW."""
    found = [adjusted(optimizer, "betas", "nothing adjusted").verdict for optimizer in OPTIMIZERS]
    return found == ["higher", "lower"]


def one_rate_is_best():
    """Whether all arms of a sweep have the padded arm's rate, with a lower and a higher one that were tried."""
    for optimizer in OPTIMIZERS:
        swept, best = runs.swept(f"sweep-{optimizer}"), best_rates(runs.swept(f"sweep-{optimizer}"))
        rate = arms.EXPERIMENTS[f"curves-{optimizer}"].padded.learning_rate
        if set(best.values()) != {rate} or not all(min(found) < rate < max(found) for found in swept.values()):
            return False
    return True


def verdicts(arm, base="padded"):
    return [adjusted(optimizer, arm, base).verdict for optimizer in OPTIMIZERS]


STATEMENTS = {  # what a notebook says of the recorded runs, and what makes it true
    ("07_hyperparameters", "at the rate that was the best of four for padded rows"): lambda: (
        one_rate_is_best() and len(runs.swept("sweep-lamb")["padded"]) == 4),
    ("17_evidence", "Divided accumulation comes closest to padded rows, with LAMB and with AdamW."): divided_is_closest,
    ("17_evidence", "The arms that keep the batch make half as many updates, and all of them ended higher."): (
        larger_updates_end_higher),
    ("17_evidence", "The betas ended higher than nothing adjusted with LAMB, and lower with AdamW."): (
        betas_help_with_one_optimizer),
    ("07_hyperparameters", "With as many updates as the padded run no difference can be told, for either optimizer"): (
        lambda: verdicts("divided, as many updates") == ["cannot be told"] * 2),
    ("07_hyperparameters", "Half of the updates with twice the batch ended higher whatever was done about it."): (
        larger_updates_end_higher),
    ("07_hyperparameters", "Raising the betas to the power of k helped AdamW and hurt LAMB"): (
        betas_help_with_one_optimizer),
    ("07_hyperparameters", "In the recorded runs it helped AdamW and not LAMB."): betas_help_with_one_optimizer,
    ("07_hyperparameters", "LAMB with the rate times k, and its betas kept, ended highest of all"): lambda: (
        max(runs.ends_of("curves-lamb").items(), key=lambda arm: arm[1].mean())[0] == "linear rate"),
    ("07_hyperparameters", "each change ended no lower in the runs above"): lambda: all(
        adjusted("lamb", arm, "nothing adjusted").verdict != "lower" for arm in runs.ends_of("curves-lamb")
        if arm not in ("padded", "nothing adjusted") and not arm.startswith("divided")),
    ("17_evidence", "each arm has its best rate where padded rows have theirs"): one_rate_is_best,
    ("17_evidence", "All runs of AdamW's short sweep above are of this kind."): lambda: all(
        (ends > runs.baselines()["docstrings"]["bigram"]).all()
        for by_rate in runs.swept("sweep-adamw").values() for ends in by_rate.values()),
    ("05_packed_attention", "both faults ended at a higher loss on five seeds"): faults_end_higher,
    ("17_evidence", "for the mean over packs no difference can be told"): lambda: (
        less("ablations", "pack mean", "packed").verdict == "cannot be told"),
    ("08_curriculum", "With either rule ascending order ends lower. Without one that cannot be told"): (
        with_a_rule_ascending_ends_lower),
    ("08_curriculum", "With their own rate truncated rows end lower than full rows, and they are where full rows end "
     "after about six tenths of the bytes."): truncated_rows_end_lower_at_their_own_rate,
    ("17_evidence", "at a rate of their own, truncated rows ended lower after as many bytes"): (
        truncated_rows_end_lower_at_their_own_rate),
    ("08_curriculum", "no difference can be told for the warm-up over 30 %"): lambda: (
        less("curriculum-length", "0.3, truncated", "no warm-up").verdict == "cannot be told"),
    ("08_curriculum", "The warm-up over 60 % ends lower."): lambda: (
        less("curriculum-length", "0.6, truncated", "no warm-up").verdict == "lower"),
    ("08_curriculum", "It also makes 30 % more updates"): lambda: round(100 * made_updates("0.6, truncated")) == 130,
    ("08_curriculum", "make as many updates as full ones, and there no difference can be told"): same_as_full_rows,
    ("08_curriculum", "At 0.006, twice the best rate of full rows, full rows end at 2.70, truncated rows at 2.28 and "
     "2.24, and reshaped rows at 2.52."): truncated_rows_stand_higher_rates,
    ("08_curriculum", "Full rows meet gradient norms of 17 to 38 in 5 of 10 runs, and reshaped rows norms of 12 to 33 "
     "in 3 of 10. In 20 runs truncated rows meet none above 5.9."): gradient_norms_are_as_told,
    ("08_curriculum", "end lower in all ten pairs, in two of them by less than 0.008"): (
        reshaped_ends_lower_in_all_pairs),
    ("08_curriculum", "7 % more processor time than full rows (107.1 ± 1.8 %), and for truncated rows no difference "
     "can be told."): time_is_not_saved,
    ("08_curriculum", "In ascending order both rules end *higher* than none. In shuffled batches that cannot be told."
     ): lambda: (all(one.verdict == "higher" for one in rate_pairs("ascending: "))
                 and all(one.verdict == "cannot be told" for one in rate_pairs("shuffled: "))),
    ("17_evidence", "The longer warm-up ends lower. It also makes more updates"): lambda: (
        less("curriculum-length", "0.6, truncated", "no warm-up").verdict == "lower"
        and made_updates("0.6, truncated") > made_updates("0.3, truncated") > 1),
    ("17_evidence", "No other way can be told from padded: a difference of more than 0.03 is unlikely for bucketed and "
     "packed, and one of more than 0.06 for the token budget."): lambda: all(
        0.6 * most < farthest(way) < most
        for way, most in (("bucketed", 0.03), ("packed", 0.03), ("token budget", 0.06))),
    ("17_evidence", "All four take less time than padding"): lambda: all(
        share.mean + share.half < 1 for share in runs.shares("curriculum-comparison", "cpu_seconds", 0.95).values()),
    ("17_evidence", "0.003, the best rate of full rows in a sweep"): lambda: (
        best_rates(runs.swept("curriculum-length-sweep"))["no warm-up"] == 0.003),
    ("17_evidence", "Truncated rows have their best rate at 0.006 there"): lambda: all(
        best_rates(runs.swept("curriculum-length-sweep"))[f"{share}, truncated"] == 0.006 for share in (0.3, 0.6)),
    ("17_evidence", "At their own rate both truncated arms end lower than full rows on every seed. The shorter warm-up "
     "also ends lower than itself at 0.003 on every seed, the longer one on four of five."): (
        truncated_rows_gain_by_their_own_rate),
    ("17_evidence", "the shorter warm-up cannot be told from none"): lambda: (
        runs.short_first(0.95)["0.3, truncated"].verdict == "cannot be told"),
    ("17_evidence", "In shuffled batches no rule can be told from none."): lambda: all(
        one.verdict == "cannot be told" for one in rate_pairs("shuffled: ")),
    ("17_evidence", "In ascending order both rules end higher than none."): lambda: all(
        one.verdict == "higher" for one in rate_pairs("ascending: ")),
}  # fmt: skip


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda pair: pair[0][:2])
def test_what_the_notebooks_say_of_recorded_runs_holds(statement):
    name, words = statement
    cells = nbformat.read(NOTEBOOK.with_name(f"{name}.ipynb"), as_version=4).cells
    assert words in " ".join(" ".join(cell.source for cell in cells).split())
    assert STATEMENTS[statement]()


def test_an_experiment_whose_base_is_above_the_bigram_has_no_verdict():
    """Where a model has not learned what counting tells, an interval is not enough."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    (table,) = (cell.outputs[0].data["text/plain"] for cell in cells if '"above the bigram"' in cell.source)
    for name, (asks, base, _) in runs.EXPERIMENTS.items():
        rows = [line for line in table.splitlines() if line.startswith(asks + "  ")]
        assert len(rows) == len(runs.ends_of(name)) - 1
        learned = below_the_bigram(name, (base,)).all()
        assert all(row.endswith("above the bigram") != learned for row in rows), name
