"""Plans of every method: exact, verified, written and read; and tampering that must be seen."""

import json
from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packing_cases import DEPTHS, check_slowly, fewest_packs, histograms

from packlib.lengths import LengthHistogram
from packlib.packing import METHODS, PackingPlan, plan

BY_LEAST_SQUARES = ("nnlshp", "ennlshp")


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(histogram=histograms(largest=16), depth=st.sampled_from(DEPTHS), data=st.data())
def test_every_method_packs_every_sequence_once(method, histogram, depth, data):
    if method in BY_LEAST_SQUARES:
        depth = min(depth or 3, 3)
    made = plan(histogram, method, depth)
    check_slowly(made, histogram, depth)
    assert -(-histogram.num_tokens // histogram.max_length) <= made.lower_bound <= made.num_packs
    assert made.gap == made.num_packs - made.lower_bound >= 0
    assert made.padding_tokens == made.num_packs * histogram.max_length - histogram.num_tokens

    shuffled = data.draw(st.permutations(histogram.expand().tolist()))
    again = plan(LengthHistogram.from_lengths(shuffled, histogram.max_length), method, depth)
    assert again.to_json() == made.to_json()  # deterministic, and the order of the data does not matter


def thresholds(lengths, top, depth):
    """The direct bound, a sequence and a threshold at a time."""
    best = sum(2 * length > top for length in lengths)
    for short in range(1, top // 2 + 1):
        alone = [length for length in lengths if length > top - short]
        rest = [length for length in lengths if short <= length <= top - short]
        best = max(
            best, len(alone) + ceil(sum(rest) / top), len(alone) + ceil(len(rest) / (depth or len(lengths)))
        )
    return best


@settings(max_examples=200)
@given(histograms(largest=14, most=9), st.sampled_from(DEPTHS))
def test_what_sums_prove_is_true_and_knows_depth_and_long_sequences(histogram, depth):
    lengths, top = histogram.expand().tolist(), histogram.max_length
    bound = plan(histogram, "unpacked", depth).lower_bound
    assert bound == thresholds(lengths, top, depth) <= fewest_packs(lengths, top, depth)
    longs = sum(2 * length > top for length in lengths)
    assert bound >= max(ceil(sum(lengths) / top), ceil(len(lengths) / (depth or len(lengths))), longs)
    assert plan(histogram, "lpfhp", depth).lower_bound == bound


@pytest.mark.parametrize(
    ("lengths", "top", "depth", "packs"),
    [
        ([10] * 1000, 1000, 4, 250),  # only the depth limit needs so many packs
        ([6] * 7 + [1] * 4, 10, None, 7),  # more than half a pack each
        ([8] * 3 + [3] * 6 + [1] * 2, 10, None, 5),  # no 3 beside an 8: three packs, and two more for six 3s
        ([8] * 3 + [3] * 6, 10, 2, 6),  # the same where a pack takes two
    ],
)
def test_a_greedy_plan_that_is_the_best_says_so(lengths, top, depth, packs):
    made = plan(LengthHistogram.from_lengths(lengths, top), "lpfhp", depth)
    assert made.num_packs == packs and made.gap == 0
    assert repr(made).endswith("at most 0 packs above the best)")


def example():
    return plan(LengthHistogram.from_lengths([7, 6, 5, 4, 3, 2, 2, 1, 1, 1], 8), "optimal", 3)


def test_numbers_of_a_plan():
    made = example()
    assert (made.num_packs, made.lower_bound, made.gap, made.padding_tokens) == (4, 4, 0, 0)
    assert made.efficiency == 1.0 and made.packing_factor == 2.5 and made.depth <= 3
    assert "4 packs" in repr(made) and "svg" in made._repr_html_()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: {"repeats": p.repeats + np.eye(1, len(p.repeats), dtype=int)[0]}, "The plan packs"),
        (lambda p: {"repeats": p.repeats * 0}, "at least once"),
        (lambda p: {"items": p.items + np.eye(1, len(p.items), dtype=int)[0]}, "the maximum is 8"),
        (lambda p: {"items": p.items - np.eye(1, len(p.items), dtype=int)[0]}, "The plan packs"),
        (lambda p: {"items": np.where(p.items == 1, 0, p.items)}, "outside 1 to 8"),
        (lambda p: {"offsets": p.offsets[:-1]}, "do not cut"),
        (lambda p: {"max_sequences_per_pack": 1}, "the depth limit is 1"),
        (lambda p: {"duals": np.full(9, 1)[:5]}, "must be 9 duals"),
        (lambda p: {"duals": np.full(9, -1)}, "must be prices"),
        (lambda p: {"duals": np.zeros(9, int)}, "not all 0"),
        (
            lambda p: {"histogram": LengthHistogram.from_lengths([7, 6, 5, 4, 3, 2, 2, 2, 1, 1], 8)},
            "The plan packs",
        ),
    ],
)
def test_a_plan_that_is_wrong_cannot_be_made(change, says):
    made = example()
    with pytest.raises(ValueError, match=says):
        replace(made, **change(made))


def test_a_pack_one_over_the_depth_limit_is_seen():
    three = PackingPlan.from_strategies(
        LengthHistogram.from_lengths([2, 2, 2], 8), [((2, 2, 2), 1)], "by hand"
    )
    assert replace(three, max_sequences_per_pack=3).depth == 3
    with pytest.raises(ValueError, match="A pack holds 3 sequences; the depth limit is 2"):
        replace(three, max_sequences_per_pack=2)


@pytest.mark.parametrize("claimed", [3, 5])
def test_a_bound_that_is_not_proven_is_seen(claimed):
    made = example()
    object.__setattr__(made, "lower_bound", claimed)
    with pytest.raises(ValueError, match="not proven"):
        made.verify()


@given(histograms(), st.sampled_from(["lpfhp", "optimal"]), st.sampled_from(DEPTHS))
@settings(max_examples=30)
def test_json_there_and_back(histogram, method, depth):
    made = plan(histogram, method, depth)
    back = PackingPlan.from_json(made.to_json())
    assert back.to_json() == made.to_json() and back.histogram == histogram and back.gap == made.gap


def test_a_plan_of_the_first_version_states_the_area_bound_and_is_read():
    made = plan(LengthHistogram.from_lengths([10] * 1000, 1000), "lpfhp", 4)
    older = made.to_json().replace('"lower_bound": 250', '"lower_bound": 10')
    assert PackingPlan.from_json(older).lower_bound == 250
    for claimed in (9, 251, 10.5, "null"):
        with pytest.raises(ValueError, match="another bound"):
            PackingPlan.from_json(older.replace('"lower_bound": 10', f'"lower_bound": {claimed}'))


def test_json_files(tmp_path):
    made = example()
    made.to_json(tmp_path / "plan.json")
    assert PackingPlan.from_json(tmp_path / "plan.json").strategies == made.strategies
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    with pytest.raises(FileNotFoundError):
        PackingPlan.from_json(tmp_path / "missing.json")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[1, 2]",
        lambda text: "{}",
        lambda text: text.replace('"repeats"', '"repeat"'),
        lambda text: text.replace('"lower_bound": 4', '"lower_bound": 3'),
        lambda text: text.replace('"num_packs": 4', '"num_packs": 5'),
        lambda text: json.dumps({**json.loads(text), "strategies": 7}),
    ],
)
def test_a_damaged_file_gets_one_sentence(tmp_path, damage):
    path = tmp_path / "plan.json"
    path.write_text(damage(example().to_json()))
    with pytest.raises(ValueError, match=str(path)):
        PackingPlan.from_json(path)


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    example().to_json(path)
    before = path.read_text()

    def full(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(OSError, match="No space"):
        plan(LengthHistogram.from_lengths([1, 2], 4)).to_json(path)
    assert path.read_text() == before and len(list(tmp_path.iterdir())) == 1
