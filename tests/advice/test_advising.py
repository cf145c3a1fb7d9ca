"""The advice: its numbers against brute force and counting, its words against the lengths that call for them."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from packlib.advice import advising
from packlib.advice.advice import Overhead
from packlib.advice.advising import advise, cut, lengths_for, measured_overheads
from packlib.advice.records import Recorded, recorded
from packlib.advice.risks import find_risks, many, share_of
from packlib.advice.trials import DepthTrial
from packlib.lengths import HABITS, LengthHistogram, load, padding_waste
from packlib.packing import METHODS, plan
from packlib.training import Recipe, adjust
from packlib.workbook.parameters import ParameterError, check_values
from packlib.workbook.results import keep, result
from packlib.workbook.tables import Points, Table


def of(lengths, max_length=None):
    return LengthHistogram.from_lengths(lengths, max_length)


# What is cut


@pytest.mark.parametrize("overlong", ["truncate", "drop"])
def test_what_is_cut_or_left_out_is_counted(tmp_path, overlong):
    lengths = np.array([3, 9, 10, 11, 40, 2, 10])
    np.save(tmp_path / "mine.npy", lengths)
    histogram, whole = lengths_for(str(tmp_path / "mine.npy"), 10, overlong)
    lost = whole.num_tokens - histogram.num_tokens
    kept = np.minimum(lengths, 10) if overlong == "truncate" else lengths[lengths <= 10]
    assert histogram == of(kept, 10) and whole == of(lengths) and lost == lengths.sum() - kept.sum()
    assert (histogram.truncated, histogram.dropped) == ((2, 0) if overlong == "truncate" else (0, 2))
    advice = advise(histogram, whole=whole)
    said = f"2 sequences ({200 / 7:.1f} %) are longer than 10 tokens. The advice assumes that they are "
    assert said in advice.about_cut and advice.about_cut in advice.sentences
    assert f"loses {100 * lost / lengths.sum():.1f} % of the tokens" in advice.about_cut


def test_a_data_set_is_cut_from_its_whole_lengths():
    histogram, whole = lengths_for("docstrings", 256, "truncate")
    lost = whole.num_tokens - histogram.num_tokens
    rows = [line.split(",") for line in open("data/lengths/docstrings.csv").read().splitlines()[1:]]
    assert lost == sum((int(length) - 256) * int(count) for length, count in rows if int(length) > 256)
    assert histogram.truncated == sum(int(count) for length, count in rows if int(length) > 256)
    assert lengths_for("squad", None, "truncate") == (load("squad"), load("squad"))


def test_nothing_left_is_refused():
    with pytest.raises(ValueError, match="All 2 sequences of lengths are longer than 4 tokens"):
        cut(of([5, 6]), 4, "drop")
    assert cut(of([5, 6]), 4, "truncate").truncated == 2


# The advice


@pytest.fixture(scope="module")
def advice():
    """On sentence pairs, of which some are cut."""
    histogram, whole = lengths_for("wordnet-pairs", 128, "truncate")
    return advise(histogram, batch_size=16, whole=whole)


def test_the_speedup_is_slots_over_slots_less_the_overhead(advice):
    histogram, packs = advice.histogram, advice.plan.num_packs
    highest = measured_overheads()[0].highest  # the published one is of rows of 512
    assert advice.habits == tuple(HABITS)
    for habit in HABITS:
        slots = padding_waste(histogram, 16, habit).slots
        low, high = advice.speedup(habit)
        assert high == pytest.approx(slots / packs / 128) and low == pytest.approx(slots / packs / 128 * (1 - highest))
    assert advice.speedup()[1] == pytest.approx(advice.plan.packing_factor)
    both = [Overhead(0.02, 0.03, "one", 128), Overhead(0.01, 0.2, "other", 200), Overhead(0, 0.9, "long", 512)]
    low, high = replace(advice, overheads=tuple(both)).speedup()
    assert (low, high) == (pytest.approx(0.8 * advice.speedup()[1]), pytest.approx(0.99 * advice.speedup()[1]))


def test_the_overheads_are_those_of_the_benchmarks():
    measured, *_, published = measured_overheads()
    assert "bench_model speed" in measured.source
    overheads = [row["overhead %"] / 100 for row in recorded("model_speed").rows if row["packing factor"] > 1]
    assert measured.highest == pytest.approx(max(overheads), abs=1e-9) and 0 <= measured.usual <= measured.highest
    assert published.highest == 0.045


def test_a_benchmark_on_a_gpu_is_read_too(tmp_path, monkeypatch):
    (tmp_path / "model_gpu.csv").touch()
    shares = [
        ("padded", 1, 1.0),
        ("packed", 1.0, 0.5),
        ("packed", 2.0, 0.97),
        ("packed", 2.0, 1.1),
        ("packed", 2.0, 0.9),
    ]
    names = ("run", "packing factor", "forward and backward, realized / factor")
    rows = [dict(zip(names, values, strict=True)) for values in shares]
    monkeypatch.setattr(advising, "data_path", lambda *_: tmp_path)
    monkeypatch.setattr(advising, "recorded", lambda name: Recorded(rows, f"measure {name}", "a GPU"))
    measured, _ = measured_overheads()
    assert measured.source == "Recorded with measure model_gpu on a GPU"
    assert (measured.usual, measured.highest) == (pytest.approx(0.03), pytest.approx(0.1))


def test_the_buckets_and_the_recipe_come_from_their_own_functions(advice):
    lengths = np.array(advice.buckets.lengths)
    slots = lengths[np.searchsorted(lengths, advice.histogram.expand())].sum()
    assert advice.buckets.padding_fraction == pytest.approx(1 - advice.histogram.num_tokens / slots)
    chosen = len(lengths)
    assert advice.bucket_waste[chosen - 1] == pytest.approx(advice.buckets.padding_fraction)
    assert advice.bucket_waste[chosen - 1] <= advice.bucket_waste[-1] + 0.02 < advice.bucket_waste[chosen - 2]
    after, reasons, _ = adjust(advice.recipe, advice.plan.packing_factor, "batch")
    assert advice.is_example and (advice.packed_recipe, advice.reasons) == (after, reasons)


def test_the_json_holds_what_the_sentences_say(advice):
    found = json.loads(advice.to_json())
    assert found["advice"] == list(advice.sentences) and found["assumptions"] == list(advice.assumptions)
    assert found["plan"]["packs"] == advice.plan.num_packs and found["plan"]["depth"] == advice.depth
    assert [method["method"] for method in found["methods"]] == list(METHODS)
    assert [tuple(one["speedup"]) for one in found["habits"]] == [advice.speedup(habit) for habit in HABITS]
    assert found["data"]["truncated"] == advice.histogram.truncated > 0
    assert Recipe.from_dict(found["recipe"]["after"]) == advice.packed_recipe
    for sentence in (*advice.sentences, *advice.assumptions, *(risk.sentence for risk in advice.risks)):
        assert sentence.endswith(".") and ".." not in sentence and "1 sequences" not in sentence
    assert all(math.isfinite(value) for value in advice.numbers.values())
    assert advice.numbers["expected speed-up"] == pytest.approx(sum(advice.speedup()) / 2)


EDGES = {  # lengths, maximum, how the verdict begins, and the names of the risks
    "one sequence": ([5], 512, "Do not pack", {"few data", "long tail", "short tail"}),
    "all of length 1": ([1] * 700, 512, "Pack only if", {"few data", "long tail", "short tail", "deep packs"}),
    "rows of 1": ([1] * 9, 1, "Do not pack", {"few data", "short tail"}),
    "all equal": ([100] * 5000, 512, "Pack only if", {"few data", "long tail"}),
    "all at the maximum": ([64] * 6400, 64, "Do not pack", set()),
    "just over half": ([33] * 4000, 64, "Do not pack", {"long halves"}),
    "two lengths": ([60, 4] * 4000, 64, "Pack with", {"short tail"}),
}


@pytest.mark.parametrize("name", EDGES)
def test_odd_data_gets_sound_advice(name):
    lengths, top, verdict, risks = EDGES[name]
    found = advise(of(lengths, top), patience=2)
    assert found.verdict.startswith(verdict)
    assert {risk.name for risk in found.risks} == risks
    assert (found.speedup()[0] <= 1) == (verdict == "Do not pack")
    assert found.plan.num_packs <= math.ceil(1.005 * plan(found.histogram).num_packs)
    json.loads(found.to_json())


def test_what_was_measured_at_one_length_is_not_applied_to_another():
    found = advise(of([3000, 900, 500] * 2000, 8192), patience=2)
    low, high = found.speedup()
    assert low == high == pytest.approx(6000 / found.plan.num_packs)
    assert f"is at most {high:.2f} times" in " ".join(found.sentences)
    assert "was not measured in rows of about 8,192" in " ".join(found.sentences)
    assert [one.endswith("; not applied here.") for one in found.assumptions[1:-3]] == [True] * len(found.overheads)
    published = measured_overheads()[-1]
    assert [published.applies_to(top) for top in (128, 256, 512, 1024, 1025)] == [False, True, True, True, False]


def test_attention_that_skips_is_advised_where_it_saves_work():
    long, short = advise(of([900] * 4000, 8192), patience=2), advise(of([16] * 900, 128), patience=2)
    assert "FlashAttention" in long.about_attention and "dense mask" in short.about_attention
    assert f"{100 * 4000 * 900**2 / (long.plan.num_packs * 8192**2):.1f} % of the pairs" in long.about_attention
    assert all("estimate" in found.about_attention for found in (long, short))


def test_steps_and_passes_are_counted(advice):
    rows = advice.packed_recipe.global_batch
    assert f"One pass over the data is {advice.plan.num_packs / rows:,.1f} updates" in advice.about_steps
    assert "are 10.00 passes" in advice.about_steps and advice.about_steps in advice.sentences
    many = LengthHistogram([0, *[10**9] * 1000])
    assert advising.example_recipe(many, 32).total_sequences == many.num_sequences
    assert advising.example_recipe(many, 32).warmup_sequences == many.num_sequences / 10


def test_one_longest_sequence_is_no_pile_and_reads_as_one():
    lengths = np.random.default_rng(7).integers(1, 1001, 57)
    whole = of(lengths)
    for overlong, said in (("truncate", "it is cut to"), ("drop", "it is left out")):
        h = whole.with_max_length(int(np.sort(lengths)[-2]), overlong)
        risks = {risk.name: risk.sentence for risk in find_risks(h, plan(h, method="lpfhp"), 0, 0, 32, whole=whole)}
        assert "cut before" not in risks
        (one,) = [text for name, text in risks.items() if name in ("over-long", "left out")]
        assert one.startswith(f"1 sequence ({share_of(1, 57)}) is longer than") and said in one


@pytest.mark.parametrize(
    ("value", "said"), [(0.00001, "under 0.01 %"), (0.99998, "over 99.99 %"), (1, "100.0 %"), (0.9912, "99.12 %")]
)
def test_a_share_is_never_rounded_to_nothing_or_to_all(value, said):
    assert share_of(value) == said


@pytest.mark.parametrize("top", [100, 200, 1000])
def test_lengths_that_pile_up_at_the_longest_look_cut_whatever_the_rows(top):
    rng = np.random.default_rng(0)
    drawn = rng.geometric(0.01, 5000)
    for lengths, suspected in ((np.minimum(drawn, 200), True), (drawn[drawn <= 200], False)):
        whole = of(lengths)
        h = whole.with_max_length(top, "truncate")
        risks = {risk.name: risk.sentence for risk in find_risks(h, plan(h, method="lpfhp"), 0, 0, 32, whole=whole)}
        assert ("cut before" in risks) == suspected
        if suspected:
            count = int((drawn >= 200).sum())
            assert f"{count} sequences ({count / 50:.1f} %) have exactly 200 tokens" in risks["cut before"]
    for unsuspected in (LengthHistogram.from_lengths(drawn, 200, "truncate"), of([60, 4] * 500, 64)):
        risks = find_risks(unsuspected, plan(unsuspected, method="lpfhp"), 0, 0, 32)
        assert "cut before" not in {risk.name for risk in risks}


def test_the_places_of_static_shapes_are_counted(advice):
    rows, deepest = advice.plan.num_packs, max(map(len, advice.plan.strategies))
    empty = rows * deepest - advice.histogram.num_sequences
    said = f"{rows * deepest:,} places for {advice.histogram.num_sequences:,} sequences, "
    assert f"{said}{100 * empty / (rows * deepest):.1f} % of them empty" in advice.about_places
    work = 128 * (8 * 1024**2 + 4 * 1024 * 4096 + 4 * 128 * 1024)  # projections, feed-forward, attention
    assert (
        f"adds {100 * empty / rows * 2 * 1024**2 / work:.2f} % of a layer's work (an estimate" in advice.about_places
    )
    assert advice.about_places in advice.sentences


def test_the_seconds_of_compiling_are_those_recorded(advice):
    rows = [row for row in recorded("compiling_shapes").rows if row["run"] == "static" and row["batches"] != "packed"]
    each = [row["compile seconds"] / row["graphs"] for row in rows]
    count = len(advice.buckets.lengths)
    assert f"would take {count * min(each):.0f} to {count * max(each):.0f} s, and 13 s for packs" in " ".join(
        advice.sentences
    )
    assert "This is an estimate" in advice.about_compiling and "bench_compiling shapes" in " ".join(advice.assumptions)
    assert f"{many(count, 'graph')} for them, and one" in replace(advice, compiling=None).about_compiling


def test_the_trade_off_of_depth_is_printed_on_both_sides_of_half_a_percent(advice):
    packs = {3: 1200, 4: 1105, 6: 1009, 27: 1004, 64: 1000, None: 1000}
    chosen = replace(advice, depths=tuple(DepthTrial(depth, count, 990, count) for depth, count in packs.items()))
    (said,) = [sentence for sentence in chosen.sentences if sentence.startswith("Depth 27 is the smallest")]
    assert said.endswith("Packs more than that: depth 4: +10.5 %, depth 6: +0.90 %, depth 27: +0.40 %.")
    assert json.loads(chosen.to_json())["more_packs"]["6"] == pytest.approx(0.009)
    assert "depth 1" not in said and "depth 64" not in said
    packs = {2: 2000, 4: 1105, 6: 1004, 8: 1004, 9: 1001, 12: 1001, 64: 1000, None: 1000}
    level = replace(advice, depths=tuple(DepthTrial(depth, count, 990, count) for depth, count in packs.items()))
    assert "depth 4: +10.5 %, depth 6: +0.40 %, depth 9: +0.10 %." in " ".join(level.sentences)
    tired = replace(level, depths=tuple(replace(trial, gave_up=trial.depth != 2) for trial in level.depths))
    assert "The search gave up at 7 of 8 depths: its packs may be 11.6 % above" in " ".join(tired.sentences)


def test_a_search_that_gave_up_says_so(advice):
    assert "gave up" not in " ".join(advice.sentences)
    short = replace(advice, depths=tuple(replace(trial, bound=9, gave_up=trial.depth == 2) for trial in advice.depths))
    found = next(trial for trial in short.depths if trial.depth == 2)
    said = f"The search gave up at depth 2: its packs may be {100 * (found.packs / 9 - 1):.1f} % above the fewest."
    assert said in " ".join(short.sentences)


def test_a_depth_limit_is_kept():
    found = advise(load("wordnet-pairs", 64), max_sequences_per_pack=2)
    assert found.depth == found.plan.deepest == 2 and "at your limit of 2" in " ".join(found.sentences)


def test_a_recipe_of_ones_own_is_adjusted_and_compared():
    mine = Recipe(8, 1e-3, 10_000, gradient_accumulation_steps=6, max_length=128)
    found = advise(load("wordnet-pairs", 64), recipe=mine)
    assert found.recipe == mine and not found.is_example and "example" not in " ".join(found.sentences)
    assert found.packed_recipe == adjust(mine, found.plan.packing_factor, "batch").recipe
    assert found.packed_recipe.half_lives == pytest.approx(mine.half_lives, rel=0.02)
    assert found.packed_recipe.betas != mine.betas and " ".join(found.reasons[:-1]) in found.sentences[-2]
    assert 4 <= found.packed_recipe.micro_batch <= 8
    large = replace(found, packed_recipe=replace(found.packed_recipe, gradient_accumulation_steps=10**6))
    (few,) = [risk.sentence for risk in large.risks if risk.name == "few data"]
    assert f"batches of {large.packed_recipe.global_batch:,} rows" in few
    (other,) = [risk for risk in found.risks if risk.name == "other maximum"]
    assert "128 tokens, the advice is for 64" in other.sentence


def test_a_plan_far_above_its_bound_is_a_risk():
    histogram = of([6, 5, 4, 3] * 1000, 10)
    best = plan(histogram, method="optimal")
    few, more = ({r.name: r.sentence for r in find_risks(histogram, best, gap, 0, 8)} for gap in (0, 100))
    assert more.keys() - few.keys() == {"not proven"} and "quick" not in more["not proven"]
    for gap, told in ((best.num_packs // 1000, False), (best.num_packs // 1000 + 1, True)):
        assert ("not proven" in {risk.name for risk in find_risks(histogram, best, gap, 0, 8)}) is told


@pytest.mark.parametrize("depth", [16, 17])
def test_packs_of_more_than_sixteen_are_deep(depth):
    histogram = of([1] * 17_000, depth)
    risks = {risk.name for risk in find_risks(histogram, plan(histogram, method="lpfhp"), 0, 0, 8)}
    assert ("deep packs" in risks) is (depth == 17)


def test_reconstructions_say_so():
    h = replace(load("squad"), kind="reconstruction")
    risks = {risk.name: risk.sentence for risk in find_risks(h, plan(h, method="lpfhp"), 0, 0, 32)}
    assert "reconstruction" in risks["not measured"]


def test_the_advice_needs_no_jupyter_and_speaks_of_no_parameter_of_the_notebook():
    code = (
        "import sys; from packlib.advice import advise; from packlib.lengths import load; "
        "said = advise(load('squad', 64), patience=0.2); assert 'quick' not in said.to_json(); "
        "print([name for name in ('IPython', 'nbformat', 'matplotlib', 'ipywidgets') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# What shows and keeps it


def test_a_table_reads_as_text_and_as_html():
    table = Table(("name", "packs", "why"), [("a<b", 12345, ""), ("c", None, "too many")])
    assert repr(table) == "name   packs  why\na<b   12,345\nc             too many"
    page = table._repr_html_()
    assert '<td style="text-align:right">12,345</td>' in page and "a&lt;b" in page
    assert repr(Points(["One.", "Two."])) == "- One.\n- Two." and "<li>One.</li>" in Points(["One."])._repr_html_()


def test_only_numbers_words_and_none_are_results():
    with pytest.raises(TypeError, match="must be a number, a text or None, not list"):
        result("depths", [1, 2])
    with pytest.raises(ValueError, match="must be finite, not nan"):
        result("gap", float("nan"))
    result("packs", np.int64(3))


@pytest.mark.parametrize("name", ["", "..", "a/b.json", "/b.json"])
def test_a_path_is_no_name_of_a_file_to_keep(name):
    with pytest.raises(ValueError, match="name must be a file name without folders"):
        keep(name, "{}")


def test_files_are_kept_only_under_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep("a.json", "{}")
    monkeypatch.setenv("PACKLIB_RESULTS", str(tmp_path / "out"))
    keep("b.json", "{}")
    assert [path.name for path in tmp_path.rglob("*.json")] == ["b.json"]


def test_the_recipe_parameter_is_read_before_anything_runs(tmp_path):
    good, packed, broken = (tmp_path / f"{name}.json" for name in ("good", "packed", "broken"))
    Recipe(8, 1e-3, 100).to_json(good)
    Recipe(8, 1e-3, 100, packing_factor=2.0).to_json(packed)
    broken.write_text("{")
    assert check_values("12_your_dataset", {"recipe": str(good)}) == {"recipe": str(good)}
    for path, says in ((packed, "packed already, with factor 2"), (broken, "is not JSON"), (5, "must be the path")):
        with pytest.raises(ParameterError, match=says):
            check_values("12_your_dataset", {"recipe": path if path == 5 else str(path)})
