"""`method="auto"`, the default: one plan everywhere, by steps, and the options of a user stay what they say."""

import functools
import json
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import packlib
from packlib.batches import pack_lengths
from packlib.distributed import pack_distributed
from packlib.lengths import LengthHistogram, data_path, load
from packlib.packing import METHODS, methods, plan
from packlib.packing.methods import NEAR
from packlib.packing.search import starts
from packlib.packing.search.deadline import Deadline
from packlib.packing.search.optimal import optimal
from packlib.tools import cli
from packlib.tools.advice import advise
from packlib.tools.rows import pack_dataset

AZURE = {name: data_path("lengths", f"azure-{name}.csv") for name in ("chats", "code")}


def azure(name, max_length, every=1):
    """The real lengths, or one of every few of them, cut to `max_length`."""
    whole = load(AZURE[name]).expand()[::every]
    return LengthHistogram.from_lengths(np.minimum(whole, max_length), max_length)


def packs(histogram, method, depth):
    return plan(histogram, method=method, max_sequences_per_pack=depth).num_packs


KINDS = [  # real lengths, and the method that is good enough
    ("code", 4096, None, "lpfhp"),
    ("chats", 8192, None, "lpfhp"),
    ("code", 2048, 8, "exact_filling"),
    ("chats", 16_384, 8, "exact_filling"),
    ("chats", 4096, None, "optimal"),
    ("chats", 8192, 8, "optimal"),
]


@pytest.mark.parametrize(("name", "max_length", "depth", "method"), KINDS)
def test_more_is_done_only_where_the_fast_method_is_far_from_the_bound(name, max_length, depth, method):
    histogram = azure(name, max_length)
    made = plan(histogram, max_sequences_per_pack=depth)
    assert made.method == method and made.max_sequences_per_pack == depth
    fast = ["lpfhp", "exact_filling"][: ["lpfhp", "exact_filling", "optimal"].index(method)]
    for other in fast:
        rejected = plan(histogram, method=other, max_sequences_per_pack=depth)
        assert rejected.gap > NEAR * rejected.lower_bound and made.num_packs < rejected.num_packs
    if method != "optimal":
        assert made.num_packs == packs(histogram, method, depth) <= (1 + NEAR) * made.lower_bound


def test_a_plan_with_as_many_packs_as_best_fit_is_that_of_best_fit_unless_the_search_proves_more():
    for lengths in ([4] * 3, [5, 5, 5, 2], [44] * 2 + [33] * 3 + [12] * 6):
        top = {4: 8, 5: 9, 44: 132}[lengths[0]]
        fast, made, best = (plan(lengths, top, method) for method in ("lpfhp", "auto", "optimal"))
        assert made.num_packs == best.num_packs and made.lower_bound == best.lower_bound
        assert made.method == ("lpfhp" if fast.gap == 0 else "optimal")


def test_a_clock_that_runs_wild_changes_nothing(monkeypatch):
    """A busy machine makes the plan of an idle one."""
    monkeypatch.setattr(methods, "_STEPS", 2 * 10**8)
    histogram = azure("chats", 4096, every=4)
    before = plan(histogram, max_sequences_per_pack=8)
    assert before.method == "optimal"
    ticks = iter(range(10**9))
    for clock in ("perf_counter", "process_time", "thread_time", "monotonic"):
        monkeypatch.setattr(time, clock, lambda: 1000.0 * next(ticks))
    assert plan(histogram, max_sequences_per_pack=8).to_json() == before.to_json()


def drawn(median, sequences, top):
    lengths = np.random.default_rng(median + top).lognormal(np.log(median), 1, sequences)
    return LengthHistogram.from_lengths(np.clip(np.rint(lengths), 1, top).astype(int), top)


HARD = {  # a search without a budget takes many seconds
    "refilling": lambda: (azure("chats", 4096), 8),
    "a linear program of long rows": lambda: (drawn(600, 20_000, 8192), 8),
}


@pytest.mark.parametrize("of", HARD)
def test_the_search_ends_after_its_steps(of, monkeypatch):
    monkeypatch.setattr(methods, "_STEPS", steps := 2 * 10**8)
    spent, spend = [], Deadline.spend
    monkeypatch.setattr(Deadline, "spend", lambda self, steps: spent.append(steps) or spend(self, steps))
    histogram, depth = HARD[of]()
    plan(histogram, max_sequences_per_pack=depth)
    assert steps / 2 < sum(spent) < 1.5 * steps, "the last piece of work is done to its end"


def test_a_search_takes_over_the_plans_that_were_made_before_it(monkeypatch):
    """Best fit and exact filling are made once, and their steps are counted as those of the search are."""
    made, of_search = [], []
    for module in (methods, starts):
        for name in ("lpfhp", "fill_exactly"):
            if method := getattr(module, name, None):
                monkeypatch.setattr(module, name, watched(made, name, method))
    monkeypatch.setitem(METHODS, "lpfhp", watched(made, "lpfhp", METHODS["lpfhp"]))
    monkeypatch.setitem(METHODS, "exact_filling", watched(made, "fill_exactly", METHODS["exact_filling"]))
    monkeypatch.setitem(METHODS, "optimal", watched(of_search, "optimal", METHODS["optimal"]))
    monkeypatch.setattr(methods, "_STEPS", 10**8)
    plan(azure("chats", 4096, every=4), max_sequences_per_pack=8)
    assert of_search == ["optimal"] and sorted(made) == ["fill_exactly", "fill_exactly", "lpfhp"], "one is even"


def watched(calls, name, method):
    @functools.wraps(method)
    def call(*given, **options):
        calls.append(name)
        return method(*given, **options)

    return call


def test_methods_that_take_longer_than_the_budget_are_left_out(monkeypatch):
    """Exact filling of 5,000 different lengths takes more steps than this budget has; the plan is still a whole one."""
    made = []
    monkeypatch.setattr(methods, "_STEPS", 10**7)
    monkeypatch.setattr(starts, "fill_exactly", watched(made, "fill_exactly", starts.fill_exactly))
    monkeypatch.setitem(METHODS, "exact_filling", watched(made, "exact_filling", METHODS["exact_filling"]))
    histogram = drawn(2500, 20_000, 16_384)
    assert plan(histogram, max_sequences_per_pack=5).num_packs <= packs(histogram, "lpfhp", 5)
    assert made == []


@pytest.mark.parametrize(("top", "depth"), [(2048, 5), (8192, 5), (4096, 8)])
def test_a_report_searches_once(top, depth, monkeypatch):
    """It chooses the row length and the depth by fast plans; each search takes about two seconds."""
    searches = []
    monkeypatch.setattr(methods, "_STEPS", 10**8)
    monkeypatch.setitem(METHODS, "optimal", watched(searches, "optimal", METHODS["optimal"]))
    lengths = drawn(600 if top == 2048 else 2500, 5000, top).expand()
    advice = advise(lengths, top, max_sequences_per_pack=depth)
    assert len(searches) <= 1
    limit = advice.plan.max_sequences_per_pack
    assert advice.plan.to_json() == plan(advice.histogram, max_sequences_per_pack=limit).to_json()
    trial = next(trial for trial in advice.depths if trial.depth == limit)
    assert trial.packs == advice.plan.num_packs
    if limit == depth:
        assert advice.chosen.packs == advice.plan.num_packs


BY_EXACT_PRICES = {  # what is packed, the depth limit, and the stages that the search reports
    "tables of all slots": lambda: (few_drawn(1000, 600), 3, {"pricing", "rounding"}),
    "larger tables": lambda: (drawn(600, 20_000, 60_000).with_max_length(2048, "split"), 3, {"pricing", "refilling"}),
}


def few_drawn(top, sequences):
    """Lengths like those of chats, whose bound the fast methods do not meet."""
    lengths = np.random.default_rng(7).lognormal(np.log(top / 3), 0.4, sequences)
    return LengthHistogram.from_lengths(np.clip(np.rint(lengths), 1, top).astype(int), top)


@pytest.mark.parametrize("of", BY_EXACT_PRICES)
def test_the_exact_search_ends_by_steps_and_never_by_the_clock(of, monkeypatch):
    """With a clock that gains 1,000 seconds at each look, all steps of the search are the same."""
    histogram, depth, stages = BY_EXACT_PRICES[of]()

    def rounds():
        seen = []
        found = optimal(histogram, depth, steps=7 * 10**8, progress=lambda now: seen.append(stage_of(now)))
        return seen, found[0], None if found[1] is None else found[1].as_dict()

    before = rounds()
    assert stages <= {stage for stage, *_ in before[0]}
    ticks = iter(range(10**9))
    for clock in ("perf_counter", "process_time", "thread_time", "monotonic"):
        monkeypatch.setattr(time, clock, lambda: 1000.0 * next(ticks))
    assert rounds() == before


def stage_of(now):
    return now.stage, now.strategies, now.num_packs, now.lower_bound


def test_the_options_of_a_user_are_kept():
    wikipedia = load("wikipedia")
    assert plan(wikipedia).method == "lpfhp" and plan(wikipedia).gap > 0
    assert plan(wikipedia, time_limit=20).gap == 0, "a time limit asks for the search"
    assert plan(wikipedia, rounds=0).num_packs <= packs(wikipedia, "lpfhp", None)
    assert plan(wikipedia, max_sequences_per_pack=3).deepest == 3
    assert plan(wikipedia, method="spfhp").method == "spfhp"
    started = time.process_time()
    histogram = azure("chats", 4096)
    assert plan(histogram, time_limit=0.2).method == "optimal" and time.process_time() - started < 2
    rounds = []
    assert plan(histogram, progress=lambda now: rounds.append(now) or len(rounds) < 3).num_packs >= 6390
    assert len(rounds) == 3
    with pytest.raises(TypeError, match="auto has no option 'seed': its options are time_limit, progress, rounds"):
        plan(histogram, seed=3)


def test_every_door_has_the_same_default():
    for function in (plan, packlib.plan, pack_dataset, pack_lengths, pack_distributed):
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        by_place = dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))
        assert {**by_place, **(function.__kwdefaults__ or {})}["method"] == "auto", function
    assert "auto" not in METHODS


ONE_PLAN = [
    ("chats", 4096, None, 8),
    ("chats", 2048, 8, 8),
    ("chats", 8192, 8, 16),
    ("code", 4096, None, 8),
    ("code", 4096, 8, 8),
    ("code", 8192, 3, 8),
]


@pytest.mark.parametrize(("name", "max_length", "depth", "every"), ONE_PLAN)
def test_report_plan_and_pack_make_one_plan(name, max_length, depth, every, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(methods, "_STEPS", 10**7)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    lengths = azure(name, max_length, every).expand()
    made = plan(lengths, max_length, max_sequences_per_pack=depth)
    assert advise(lengths, max_length, keep_max_length=True, max_sequences_per_pack=depth).plan.to_json() == (
        json.dumps(json.loads(made.to_json()))
    )

    np.savetxt("lengths.txt", lengths, "%d")
    limit = ["--max-sequences-per-pack", str(depth)] if depth else []
    options = ["--max-length", str(max_length), *limit, "--no-progress", "--json"]
    assert cli.main(["plan", "lengths.txt", *options, "--out", "plan.json"]) == 0
    capsys.readouterr()
    report = ["report", "lengths.txt", *options, "--keep-max-length", "--out", "report"]
    assert cli.main(report) == 0
    capsys.readouterr()
    for file in ("plan.json", "report/plan.json"):
        written = json.loads((tmp_path / file).read_text())
        assert [written[part] for part in ("strategies", "repeats", "method", "num_packs", "lower_bound")] == [
            [list(strategy) for strategy in made.strategies],
            made.repeats.tolist(),
            made.method,
            made.num_packs,
            made.lower_bound,
        ]

    ends = np.concatenate([[0], np.cumsum(lengths)])
    tokens = pa.LargeListArray.from_arrays(pa.array(ends), pa.array(np.zeros(ends[-1], np.int32)))
    pq.write_table(pa.table({"input_ids": tokens}), "tokens.parquet")
    assert cli.main(["pack", "tokens.parquet", *options, "--out", "packed.parquet"]) == 0
    packed = json.loads(capsys.readouterr().out)
    assert (packed["method"], packed["num_packs"]) == (made.method, made.num_packs)
    in_packs = pq.read_table("packed.parquet", columns=["seq_lengths"])["seq_lengths"].to_pylist()
    of_plan = [s for s, n in zip(made.strategies, made.repeats.tolist(), strict=True) for _ in range(n)]
    assert sorted(tuple(sorted(pack, reverse=True)) for pack in in_packs) == sorted(of_plan)
