"""`load` and `available`: the data sets by name, the published rows, and the synthetic families."""

import math

import numpy as np
import pytest

from packlib import installed
from packlib.lengths import LengthHistogram, available, data_path, load, protein_like, two_humped
from packlib.lengths.synthetic import FAMILIES, image_patch_like, log_normal, uniform


def test_every_name_loads_and_says_what_it_is():
    names = available()
    measured = ["wordnet", "wordnet-pairs", "docstrings", "wikipedia", "squad", "azure-chats", "azure-code"]
    assert list(names) == [*measured, *FAMILIES]
    for name, about in names.items():
        histogram = load(name)
        assert histogram.name == name and histogram.source
        assert histogram.kind in about and "\n" not in about
        assert histogram == load(name), "loading is deterministic"


@pytest.mark.parametrize(
    ("name", "sequences", "tokens", "top", "shortest", "full"),
    [
        ("wikipedia", 16_279_552, 4_164_796_173, 512, 5, 3_815_044),
        ("squad", 88_641, 15_249_479, 384, 36, 1_054),
        ("azure-chats", 19_366, 26_450_535, 14_089, 64, 1),
        ("azure-code", 8_819, 18_305_870, 7_841, 12, 1),
    ],
)
def test_the_published_histograms(name, sequences, tokens, top, shortest, full):
    histogram = load(name, top)
    assert (histogram.num_sequences, histogram.num_tokens, histogram.max_length) == (sequences, tokens, top)
    assert (histogram.counts[-1], np.flatnonzero(histogram.counts)[0]) == (full, shortest)
    assert (histogram.kind, histogram.truncated) == ("measured", 0)
    assert ("Azure LLM inference trace 2023" if "azure" in name else "arXiv 2107.02027") in histogram.source
    assert load("docstrings").truncated == 5_780 and load("image-patch-like").max_length == 576


@pytest.mark.parametrize("name", ["wordnet", "wikipedia"])
def test_data_sets_take_another_maximum_length(name):
    whole = load(name, max_length=1024)
    assert whole.max_length == 1024 and whole.truncated == 0
    assert whole.num_sequences == load(name).num_sequences
    short = load(name, max_length=16)
    assert short.max_length == 16 and short.truncated == whole.counts[17:].sum()
    assert load(name, max_length=16, overlong="drop").num_sequences == whole.counts[:17].sum()
    with pytest.raises(ValueError, match="over the maximum length 16"):
        load(name, max_length=16, overlong="error")


@pytest.mark.parametrize("name", FAMILIES)
def test_families_hold_their_sizes_and_scale(name):
    small = FAMILIES[name](num_sequences=1_000, max_length=300)
    assert small.num_sequences == 1_000 and small.max_length == 300 and small.kind == "synthetic"
    large = FAMILIES[name](num_sequences=10_000_000, max_length=300)
    assert np.abs(large.counts - small.counts * 10_000.0).max() <= 10_000, "the same shape at every size"
    assert load(name, max_length=300).counts.sum() == 1_000_000
    assert FAMILIES[name](num_sequences=1, max_length=1).num_tokens == 1
    with pytest.raises(ValueError, match="overlong='drop' does not apply"):
        load(name, overlong="drop")
    for wrong in ({"num_sequences": 0}, {"max_length": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            FAMILIES[name](**wrong)


def test_log_normal_follows_its_distribution():
    from scipy.stats import lognorm

    for mean_log, sigma_log, top in ((5.0, 1.0, 2048), (6.0, 1.2, 8192)):
        histogram = log_normal(10_000_000, top, mean_log, sigma_log)
        exact = lognorm(sigma_log, scale=math.exp(mean_log)).cdf(np.arange(top) + 0.5)
        assert np.abs(np.cumsum(histogram.counts)[:-1] / 10_000_000 - exact)[1:].max() < 1e-4
        assert histogram.counts[-1] == pytest.approx(10_000_000 * (1 - exact[-1]), abs=1)


def test_protein_like_follows_the_gamma_distribution():
    from scipy.stats import gamma

    exact = gamma(2, scale=236).cdf(np.arange(1024) + 0.5)
    histogram = protein_like(1_000_000, 1024, mean=472, shape=2)
    assert np.abs(np.cumsum(histogram.counts)[:-1] / 1_000_000 - exact).max() < 1e-3
    assert protein_like(max_length=20_000).mean_length == pytest.approx(472, abs=0.5)
    assert protein_like(shape=1e5).counts.argmax() == pytest.approx(472, abs=1)


def test_uniform_and_two_humped_are_what_they_say():
    assert set(uniform(500, 60, shortest=11).counts[11:]) == {10}
    humped = two_humped(1_000_000, 512, centers=(64, 384), widths=(10, 20), share=0.3)
    assert humped.counts[:200].sum() == pytest.approx(300_000, abs=200)
    assert humped.counts[:200].argmax() == 64 and 200 + humped.counts[200:].argmax() == 384
    assert two_humped(share=1.0).counts[300:].sum() == 0


def test_image_patches_are_counted_one_by_one():
    stretches = [2 ** ((i - 100) / 200) for i in range(201)]
    lengths = [
        math.floor(side * stretch / 4) * math.floor(side / stretch / 4)
        for side in (9, 10, 11)
        for stretch in stretches
    ]
    histogram = image_patch_like(len(lengths), patch=4, sides=(9, 11), widest=2.0)
    assert histogram.counts.tolist() == LengthHistogram.from_lengths(lengths, 7).counts.tolist()


def test_a_missing_data_folder_is_told_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(installed, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"^data/lengths is not installed: clone packlib's repository"):
        data_path("lengths")
