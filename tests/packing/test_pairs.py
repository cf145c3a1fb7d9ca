"""Packs that keep two budgets: every sample once, neither budget broken, and a bound that is one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.packing import Packs, pack_pairs, plan
from packlib.packing.proofs import Sums


def fewest_packs(tokens, patches, max_length, max_patches):
    """By trying every way to put the samples into packs."""
    best = len(tokens)

    def place(at, packs):
        nonlocal best
        if at == len(tokens):
            best = min(best, len(packs))
            return
        for i, (of_tokens, of_patches) in enumerate([*packs, (0, 0)]):
            held = of_tokens + tokens[at], of_patches + patches[at]
            if held[0] <= max_length and held[1] <= max_patches:
                place(at + 1, [*packs[:i], held, *packs[i + 1 :]])

    place(0, [])
    return best


def pairs(most):
    return st.lists(st.tuples(st.integers(1, 20), st.integers(0, 12)), min_size=1, max_size=most)


def budgets(found, more_tokens, more_patches):
    """The smallest budgets that every sample keeps, and some more."""
    tokens, patches = zip(*found, strict=True)
    return tokens, patches, max(tokens) + more_tokens, max(1, *patches, 1) + more_patches


@given(pairs(7), st.integers(0, 20), st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_packs_lie_between_the_bound_and_one_more_than_the_best_that_there_is(found, more_tokens, more_patches):
    given = budgets(found, more_tokens, more_patches)
    packs, best = pack_pairs(*given), fewest_packs(*given)
    assert packs.lower_bound <= best <= packs.num_packs <= best + 1
    assert packs.gap == packs.num_packs - packs.lower_bound


def test_small_cases_mostly_get_the_fewest_packs():
    rng, missed = np.random.default_rng(0), 0
    for _ in range(200):
        given = rng.integers(1, 20, 7).tolist(), rng.integers(0, 20, 7).tolist(), 32, 32
        missed += pack_pairs(*given).num_packs > fewest_packs(*given)
    assert missed <= 4


@given(pairs(60), st.integers(0, 60), st.integers(0, 30))
@settings(max_examples=100, deadline=None)
def test_every_sample_is_in_one_pack_and_each_pack_keeps_both_budgets(found, more_tokens, more_patches):
    tokens, patches, max_length, max_patches = budgets(found, more_tokens, more_patches)
    packs = pack_pairs(tokens, patches, max_length, max_patches)
    assert sorted(i for samples in packs for i in samples.tolist()) == list(range(len(tokens)))
    for i, samples in enumerate(packs):
        of_tokens, of_patches = (sum(sizes[j] for j in samples) for sizes in (tokens, patches))
        assert of_tokens == packs.lengths_used[i] <= max_length
        assert of_patches == packs.patches_used[i] <= max_patches
    assert packs.patches.tolist() == [patches[i] for i in packs.sample_ids]
    assert packs.efficiency == sum(tokens) / (len(packs) * max_length)
    assert packs.patch_efficiency == sum(patches) / (len(packs) * max_patches)
    assert packs.verify() is packs


def draw(number, seed=0):
    """Samples of which some are text alone, and the others have mostly either many tokens or many patches."""
    rng = np.random.default_rng(seed)
    share, text = rng.random(number), rng.random(number) < 0.3
    tokens = 1 + (300 * share).astype(int)
    return tokens, np.where(text, 0, (300 * (1 - share) * rng.random(number)).astype(int))


def test_the_bound_is_that_of_the_scarcer_budget_and_says_what_proves_it():
    tokens, patches = draw(500)
    packs = pack_pairs(tokens, patches, 1000, 280)
    assert packs.token_bound == plan(tokens, 1000).lower_bound
    assert packs.patch_bound == packs.lower_bound == plan(patches[patches > 0], 280).lower_bound
    assert (packs.scarcer, packs.proven_by) == ("patches", "patches alone: the sum of all patches")
    assert "patches are scarcer" in repr(packs)
    swapped = pack_pairs(patches + 1, tokens, 281, 1000)
    assert swapped.scarcer == "tokens" and swapped.proven_by.startswith("tokens alone: ")


def test_a_bound_that_sums_alone_do_not_prove_is_found():
    """Of samples with 13 of 25 patches, no two share a pack, though they fill only half of it."""
    packs = pack_pairs([1] * 40, [13] * 20 + [1] * 20, 100, 25)
    assert (packs.num_packs, packs.lower_bound) == (20, 20)
    assert "no room for one of 13 patches" in packs.proven_by


def test_both_budgets_can_be_equally_scarce():
    packs = pack_pairs([5, 3], [3, 5], 8, 8)
    assert (packs.num_packs, packs.scarcer, packs.gap) == (1, "both", 0)
    assert repr(packs) == (
        "PairPacks(2 samples in 1 packs of 8 tokens and 8 patches, at least 1 needed; 100.0 % of the tokens and "
        "100.0 % of the patches are used; both budgets are equally scarce)"
    )


def test_without_any_patches_it_is_packing_as_ever():
    tokens, _ = draw(300)
    packs = pack_pairs(tokens, np.zeros(300, int), 1000, 1)
    assert packs.num_packs == plan(tokens, 1000).num_packs
    assert (packs.patch_bound, packs.patch_proof, packs.patch_efficiency, packs.scarcer) == (0, None, 0, "tokens")


def large_and_small(number):
    """As many samples that take over half of a row of 400 tokens as small ones."""
    rng = np.random.default_rng(1)
    tokens = np.concatenate([rng.integers(201, 300, number), rng.integers(1, 100, number)])
    return tokens, rng.integers(0, 30, 2 * number)


@pytest.mark.parametrize("given", [(*draw(200), 400, 300), (*large_and_small(2100), 400, 60)], ids=["one", "windows"])
def test_the_same_samples_give_the_same_packs(given):
    once, again = pack_pairs(*given), pack_pairs(*map(np.ndarray.tolist, given[:2]), *given[2:])
    assert np.array_equal(once.sample_ids, again.sample_ids) and np.array_equal(once.offsets, again.offsets)


@pytest.mark.parametrize("given", [(*draw(9_000), 600, 300), (*large_and_small(2100), 400, 60)], ids=["draw", "large"])
def test_many_samples_in_windows_stay_near_the_bound(given):
    packs = pack_pairs(*given)
    assert packs.lower_bound >= 2 * 1024  # at least two windows
    assert packs.num_packs <= 1.015 * packs.lower_bound


def test_a_sample_goes_where_the_room_points_its_way():
    """Each sample has its counterpart, with which it fills a pack to the last token and patch."""
    rng = np.random.default_rng(3)
    share = rng.integers(200, 800, 400)
    tokens, patches = np.concatenate([share, 1000 - share]), np.concatenate([1000 - share, share])
    packs = pack_pairs(tokens, patches, 1000, 1000)
    assert packs.gap <= 0.02 * packs.lower_bound


def opposed(seed, least, most, number=300):
    """Samples that take such shares of both budgets: the more of one, the less of the other."""
    rng = np.random.default_rng(seed)
    of_tokens = rng.uniform(least, most, number)
    of_patches = (least + most - of_tokens + rng.normal(0, 0.05, number)).clip(least, most)
    return np.ceil(1000 * of_tokens).astype(int), np.ceil(1000 * of_patches).astype(int), 1000, 1000


def test_samples_of_opposed_sizes_need_packs_that_are_all_open():
    """Here every sorted fit takes at least 38 packs, and the bound is 35."""
    assert pack_pairs(*opposed(3, 0.02, 0.2)).num_packs <= 36


def test_large_samples_need_best_fit():
    """Here first fit takes at least 112 packs, and packs that are all open take 138."""
    assert pack_pairs(*opposed(11, 0.05, 0.6)).num_packs <= 110


def test_packs_whose_room_is_just_enough_stay_open():
    packs = pack_pairs([7] * 512 + [3] * 512, [0] * 1024, 10, 1)
    assert packs.num_packs == packs.lower_bound == 512


def test_the_packs_can_be_used_as_packs_and_written(tmp_path):
    packs = pack_pairs([6, 2, 5, 3], [0, 5, 2, 4], 8, 6)
    packs.save(tmp_path / "packs")
    read = Packs.load(tmp_path / "packs")
    assert isinstance(packs, Packs) and [one.tolist() for one in read] == [one.tolist() for one in packs]


GIVEN = dict(tokens=[4, 8], patches=[1, 3], max_length=8, max_patches=3)


@pytest.mark.parametrize("change, error, says", [
    (dict(tokens=[4, 9]), ValueError, "Sample 1 has 9 tokens, and max_length is 8: leave the sample out"),
    (dict(patches=[4, 9]), ValueError, "Sample 0 has 4 patches, and max_patches is 3: leave the sample out"),
    (dict(tokens=[4, 0]), ValueError, "Sample 1 has 0 tokens; "),
    (dict(patches=[-1, 0]), ValueError, "Sample 0 has -1 patches; "),
    (dict(tokens=[4]), ValueError, "one entry for each sample, not 1 and 2 entries"),
    (dict(tokens=[], patches=[]), ValueError, "one entry for each sample, not 0 and 0 entries"),
    (dict(tokens=[4, 1.5]), TypeError, "Token count 1.5 at position 1 is not a whole number"),
    (dict(patches=["1", 2]), TypeError, "Patch count '1' at position 0 is not a whole number"),
    (dict(patches=3), TypeError, "Patch counts must be an array or a list of whole numbers, not 3"),
    (dict(max_length=0), ValueError, "max_length must be from 1 to "),
    (dict(max_patches=0), ValueError, "max_patches must be from 1 to "),
    (dict(max_patches=2.5), TypeError, "max_patches must be a whole number"),
])  # fmt: skip
def test_a_wrong_argument_is_named_in_one_sentence(change, error, says):
    with pytest.raises(error) as caught:
        pack_pairs(**GIVEN | change)
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("change, says", [
    (dict(max_patches=5), "Pack 1 holds 6 patches; max_patches is 5."),
    (dict(max_length=7), "lengths must have 4 entries|holds 8 tokens; max_length is 7"),
    (dict(patches=[1, 2, 3]), "patches must have 4 entries"),
    (dict(patches=[1, 2, 3, -1]), "patches must have 4 entries, one for each sample, each at least 0"),
    (dict(sample_ids=[0, 1, 1, 2]), "Sample 1 comes more than once"),
])  # fmt: skip
def test_packs_that_are_wrong_are_refused(change, says):
    packs = pack_pairs([6, 2, 5, 3], [0, 5, 2, 4], 8, 6)
    fields = "sample_ids offsets lengths max_length patches max_patches token_proof patch_proof".split()
    with pytest.raises(ValueError, match=says):
        type(packs)(**{name: getattr(packs, name) for name in fields} | change)


def test_packs_that_were_tampered_with_are_found():
    packs = pack_pairs([6, 2, 5, 3], [0, 5, 2, 4], 8, 6)
    packs.patches[0] = 7
    with pytest.raises(ValueError, match="Pack 0 holds 12 patches; max_patches is 6"):
        packs.verify()


def test_a_proof_that_does_not_fit_the_samples_is_refused():
    packs = pack_pairs([6, 2, 5, 3], [0, 5, 2, 4], 8, 6)
    with pytest.raises(ValueError, match="leaves out every sequence"):
        replace(packs, token_proof=Sums("tokens", 7))
    with pytest.raises(TypeError, match="proof must be Sums, Prices or PricesAndList"):
        replace(packs, patch_proof=None)
