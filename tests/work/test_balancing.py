"""Schedules: every sequence once, caps kept, a bound below the optimum, and the mix of a random deal."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packlib.arrays import map_arrays, save_arrays
from packlib.lengths import LengthHistogram, load
from packlib.lengths.synthetic import log_normal
from packlib.packing import Packs, assign, plan
from packlib.work import Schedule, Work, balance, balancing_loops, waiting

WORK = Work(6 * 4096, 0.5)


def packed(lengths, cap, depth=None):
    return assign(
        plan(LengthHistogram.from_lengths(lengths, cap), method="lpfhp", max_sequences_per_pack=depth), lengths
    )


@pytest.fixture(scope="module")
def long_tail():
    lengths = np.random.default_rng(0).permutation(log_normal(12_000, 32_768, 7.0, 1.3).expand())
    return lengths, packed(lengths, 32_768)


@pytest.mark.parametrize(("ranks", "each"), [(8, 1), (8, 8), (64, 1), (3, 2)])
def test_near_the_bound_at_even_tokens_and_few_more_packs(long_tail, ranks, each):
    lengths, packs = long_tail
    made = balance(packs, lengths, ranks, each, work=WORK).verify(lengths)
    assert made.slowest <= 1.01 * made.lower_bound
    assert len(made) <= 1.01 * -(-len(packs) // (ranks * each)) * ranks * each  # the least multiple
    assert abs(made.tokens / made.tokens.mean() - 1).max() <= 0.01
    if ranks * each == 64 and each == 8:  # here no single sequence sets the limit
        assert made.slowest <= 1.03 * made.mean


def test_near_the_bound_where_rows_are_full_to_the_last_slot():
    """Each row holds one length again and again, and a rest: few exchanges fit where no pack is given room first."""
    histogram = log_normal(500_000, 32_768, 7.0, 1.3)
    lengths = histogram.expand()
    made = balance(assign(plan(histogram, method="lpfhp"), lengths), lengths, 8, work=WORK).verify(lengths)
    assert made.slowest <= 1.01 * made.lower_bound
    assert abs(made.tokens / made.tokens.mean() - 1).max() <= 0.01


def test_of_equal_sequences_in_a_pack_only_one_is_tried():
    """Thousands of them would else take time by their square."""
    length, links = np.array([5, 3, 3]), np.array([-1, 0, 1, 2])  # the pack begins with the last, a shortest one
    tokens, *_ = balancing_loops._parts(0, 3, length, length * 1.0, links, np.random.default_rng(0), 0)
    assert tokens.tolist() == [0, 3, 5, 11]


def test_tokens_are_level_where_nearly_all_rows_are_full():
    """Few steps lack tokens, and of the others few can give some: a step has to ask many of them."""
    lengths = np.clip(np.random.default_rng(3).lognormal(7, 1.3, 60_000), 1, 8192).astype(int)
    made = balance(packed(lengths, 8192), lengths, 8, work=WORK, spare=0)
    assert abs(made.tokens / made.tokens.mean() - 1).max() <= 0.005


def test_tokens_are_level_in_one_step_more_than_exchange_at_once():
    """Steps exchange in pools of 1,024 at most, and none must be left alone in a pool."""
    steps, rng = 1025, np.random.default_rng(0)
    lengths = rng.integers(50, 100, 4 * 8 * steps)
    used = lengths.reshape(-1, 4).sum(axis=1)
    packs = Packs(range(len(lengths)), range(0, len(lengths) + 1, 4), used, max_length=400)
    made = balance(packs, lengths, 8, work=WORK, spare=0).verify(lengths)
    assert abs(made.tokens / made.tokens.mean() - 1).max() <= 0.005


def test_better_than_the_random_deal_that_it_starts_from(long_tail):
    lengths, packs = long_tail
    made = balance(packs, lengths, 8, 8, work=WORK)
    in_order = WORK.of(packs, lengths)[np.random.default_rng([0, 0]).permutation(len(packs))]
    steps = in_order[: len(packs) // 64 * 64].reshape(-1, 64)
    of_ranks = np.array([[step[rank::8].sum() for rank in range(8)] for step in steps])
    slowest = sum(max(ranks) for ranks in of_ranks.tolist())
    assert waiting(of_ranks) == pytest.approx(1 - steps.sum() / 8 / slowest) and waiting(of_ranks) > 0.05
    assert made.waiting == pytest.approx(1 - made.mean / made.slowest) and made.waiting < 0.01
    assert 0 <= 1 - made.mean / made.lower_bound <= made.waiting


def test_ranks_of_equal_work_never_wait_less_than_nothing():
    lengths = [7] * 30
    for per_token in (0.1, 0.3, 0.7, 1.1):
        for ranks in (3, 5, 6, 10):
            assert balance(packed(lengths, 7), lengths, ranks, work=Work(per_token, 0)).waiting >= 0


def dealt_at_random(made, packs, work, number):
    """The step of each pack, and the time of all steps, in so many random deals of the packs.

    A loader deals like this, a pack for each rank in turn; the last step may lack some. Where packs make whole steps,
    the first deal is the one that `balance` begins with.
    """
    rng, n = np.random.default_rng([0, 0]), len(packs)
    for _ in range(number):
        place = np.argsort(rng.permutation(n))
        step, rank = place // (made.ranks * made.packs_per_rank), place % made.ranks
        done = np.bincount(step * made.ranks + rank, work, (step.max() + 1) * made.ranks)
        yield place * made.steps // n, done.reshape(-1, made.ranks).max(axis=1).sum()


def unevenness(lengths, steps_of, weights):
    """How much the steps differ in their shares of eight classes of length: chi-squared, divided by its total weight.

    The classes have about equal weights: with 1 for each sequence, numbers are compared, and with its length, tokens.
    """
    _, kind = np.unique(lengths, return_inverse=True)
    of_kind = np.bincount(kind, weights)
    classes = ((np.cumsum(of_kind) - of_kind) * 8 // weights.sum()).astype(int)[kind]  # the same for equal lengths
    held = np.bincount(steps_of * 8 + classes, weights, 8 * (steps_of.max() + 1)).reshape(-1, 8)
    held, expected = held[:, held.any(axis=0)], np.outer(held.sum(1), held.sum(0)[held.any(axis=0)]) / held.sum()
    return float(((held - expected) ** 2 / expected).sum() / held.sum())


def mixes(some, lengths, steps_of):
    """Both kinds of `unevenness` when these packs are in these steps."""
    each = lengths[some.sample_ids]
    return [unevenness(each, np.repeat(steps_of, np.diff(some.offsets)), by) for by in (np.ones_like(each), each)]


MANY = {  # family and spread, tokens of a row, sequences a pack on average, ranks, packs a rank
    "8 mild": ("log-normal", 0.8, 2048, 5, 4, 2),
    "8 in twos": ("log-normal", 1.0, 8192, 8, 2, 4),
    "8 alone": ("log-normal", 1.2, 32_768, 10, 8, 1),
    "4 long": ("log-normal", 1.4, 131_072, 12, 2, 2),
    "4 alone": ("log-normal", 1.6, 65_536, 15, 4, 1),
    "64 by four": ("log-normal", 1.1, 4096, 6, 16, 4),
    "64 by eight": ("log-normal", 1.3, 16_384, 10, 8, 8),
    "64 alone": ("log-normal", 0.9, 131_072, 4, 64, 1),
    "16 heavy": ("Pareto", 1.0, 8192, 8, 2, 8),
    "16 alone": ("Pareto", 1.3, 32_768, 6, 16, 1),
    "16 by four": ("Pareto", 1.6, 131_072, 10, 4, 4),
    "16 by two": ("Pareto", 2.0, 4096, 12, 8, 2),
}


@pytest.fixture(scope="module", params=MANY)
def setting(request):
    """Lengths, packs, how they are balanced, the schedule, and random deals of the packs."""
    family, spread, row, per_pack, ranks, each = MANY[request.param]
    rng = np.random.default_rng(0)
    raw = rng.lognormal(0, spread, 5_000) if family == "log-normal" else 1 + rng.pareto(spread, 5_000)
    lengths = np.clip(raw * row / per_pack / raw.mean(), 1, row).astype(int)
    packs = packed(lengths, row)
    if each == 1:  # whole steps
        keep = len(packs) // ranks * ranks
        ids, offsets = packs.sample_ids[: packs.offsets[keep]], packs.offsets[: keep + 1]
        lengths, packs = lengths[ids], Packs(range(len(ids)), offsets, packs.lengths_used[:keep], row)
    limit = int(np.diff(packs.offsets).max()) if ranks < 8 else None
    options = dict(ranks=ranks, packs_per_rank=each, work=WORK, max_sequences_per_pack=limit)
    made = balance(packs, lengths, **options).verify(lengths)
    return lengths, packs, options, made, list(dealt_at_random(made, packs, WORK.of(packs, lengths), 200))


def test_even_tokens_and_few_more_packs_in_many_settings(setting):
    lengths, packs, options, made, _ = setting
    assert abs(made.tokens / made.tokens.mean() - 1).max() <= 0.01
    step = made.ranks * made.packs_per_rank
    assert len(made) <= 1.01 * -(-len(packs) // step) * step
    again = balance(packs, lengths, **options)
    assert np.array_equal(made.sample_ids, again.sample_ids) and np.array_equal(made.offsets, again.offsets)


def test_no_slower_than_a_random_deal_in_many_settings(setting):
    _, packs, _, made, deals = setting
    times = [time for _, time in deals]
    whole = len(packs) % (made.ranks * made.packs_per_rank) == 0
    assert made.slowest <= (times[0] * (1 + 1e-12) if whole else np.mean(times))


def test_the_mix_of_a_step_cannot_be_told_from_a_random_deals(setting):
    """By the z-score of `unevenness` among 200 random deals of the given packs to as many steps.

    If the scores of a random deal are normal, all 24 are within 3.5 with a probability of 99 %. Steps of neighbors in
    the order of work are far above that, and steps with a pack of each part of this order far below.

    The packs here are nearly full. Nothing is claimed where a tight depth limit leaves packs unequally full: random
    steps then have unequal tokens, and to level these makes the steps more alike.
    """
    lengths, packs, _, made, deals = setting
    random = np.array([mixes(packs, lengths, steps_of) for steps_of, _ in deals])

    def scores(some, steps_of):
        return (mixes(some, lengths, steps_of) - random.mean(axis=0)) / random.std(axis=0)

    step = made.ranks * made.packs_per_rank
    assert abs(scores(made, np.arange(len(made)) // step)).max() < 3.5
    by_work = np.argsort(np.argsort(WORK.of(packs, lengths), kind="stable"))
    assert scores(packs, by_work * made.steps // len(packs)).min() > 7
    assert scores(packs, by_work % made.steps).min() < -3.5


def best_by_trying(lengths, ranks, each, cap, depth, work):
    """The least work of the slowest rank over all ways to fill the packs of one step, none of them empty."""
    found = np.inf
    for packs in itertools.product(range(ranks * each), repeat=len(lengths)):
        held = [[x for x, p in zip(lengths, packs, strict=True) if p == pack] for pack in range(ranks * each)]
        if all(0 < sum(pack) <= cap and len(pack) <= depth for pack in held):
            done = [sum(work.of(pack).sum() for pack in held[r * each : (r + 1) * each]) for r in range(ranks)]
            found = min(found, max(done))
    return found


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=2, max_size=6), st.sampled_from([None, 2, 3]), st.data())
def test_the_bound_is_below_the_optimum_and_that_below_ours(lengths, depth, data):
    packs = packed(lengths, 12, depth)
    ranks = data.draw(st.sampled_from([n for n in range(1, len(packs) + 1) if len(packs) % n == 0]))
    work = Work(data.draw(st.integers(0, 5)), data.draw(st.integers(1, 3)))
    each = len(packs) // ranks
    made = balance(packs, lengths, ranks, each, work=work, max_sequences_per_pack=depth, spare=0).verify(lengths)
    best = best_by_trying(lengths, ranks, each, 12, depth or 6, work)
    assert made.lower_bound <= best * (1 + 1e-12) and best <= made.slowest * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=12, max_size=120), st.integers(1, 4), st.integers(1, 3), st.data())
def test_any_lengths_make_a_schedule_that_verifies(lengths, ranks, each, data):
    depth = data.draw(st.sampled_from([None, 3, 4]))
    packs = packed(lengths, 40, depth)
    if ranks * each > len(packs):
        return
    seed = data.draw(st.integers(0, 3))
    options = dict(work=Work(3, 1), max_sequences_per_pack=depth, seed=seed)
    try:
        made = balance(packs, lengths, ranks, each, **options)
    except ValueError as refused:
        assert "need as many sequences" in str(refused)
        return
    made.verify(lengths)
    again = balance(packs, lengths, ranks, each, **options)
    assert np.array_equal(made.sample_ids, again.sample_ids) and np.array_equal(made.offsets, again.offsets)


def test_another_seed_deals_other_steps(long_tail):
    lengths, packs = long_tail
    one, two = (balance(packs, lengths, 8, work=WORK, seed=seed) for seed in (0, 1))
    assert set(one[0].tolist()) != set(two[0].tolist())


def test_where_every_thirtieth_pack_is_cut_tokens_are_level():
    counts = load("squad").counts
    lengths = np.random.default_rng(0).choice(len(counts), 2_000, p=counts / counts.sum())
    packs = packed(lengths, 384)
    made = balance(packs, lengths, 64, work=Work(10, 1), spare=0.03).verify(lengths)
    assert abs(made.tokens / made.tokens.mean() - 1).max() <= 0.005
    assert len(made) > 1.03 * len(packs)


@pytest.mark.parametrize(("spare", "packs"), [(None, 8), (0, 8), (0.24, 8), (0.25, 10), (0.5, 12), (1, 16)])
def test_so_many_spare_packs_are_taken_as_are_asked_for(spare, packs):
    """Also where, as here, all steps are even without."""
    made = balance(packed([4] * 16, 8), [4] * 16, 2, work=WORK, spare=spare).verify([4] * 16)
    assert len(made) == packs


def test_no_spare_packs_are_taken_where_no_sequences_are_left_to_fill_them():
    lengths = [*range(1, 101)]
    assert len(balance(packed(lengths, 100, 1), lengths, 1, work=WORK).verify(lengths)) == 100


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda s: dict(squares=s.squares + (np.arange(len(s)) == np.diff(s.offsets).argmax())),
            "The squares of the schedule are not those",
        ),
        (lambda s: dict(bounds=s.bounds * 1.001), "The bounds of the schedule do not follow"),
        (lambda s: dict(sample_ids=np.roll(s.sample_ids, 1)), "was made for other lengths"),
        (lambda s: dict(sample_ids=np.where(s.sample_ids == 1, 0, s.sample_ids)), "comes more than once in the packs"),
        (lambda s: dict(lengths_used=s.lengths_used - (np.arange(len(s)) == 1)), "was made for other lengths"),
        (lambda s: dict(max_length=int(s.lengths_used.max()) - 1), "lengths_used must have"),
        (lambda s: dict(max_sequences_per_pack=int(np.diff(s.offsets).max()) - 1), "sequences; the depth limit is "),
        (lambda s: dict(packs_per_rank=len(s)), "packs do not make whole steps of 8 ×"),
        (lambda s: dict(work=Work(1, 1)), "The bounds of the schedule do not follow"),
    ],
)
def test_verify_sees_what_was_changed(long_tail, change, says):
    lengths, packs = long_tail
    made = balance(packs, lengths, 8, work=WORK)
    with pytest.raises((TypeError, ValueError)) as caught:
        replace(made, **change(made)).verify(lengths)
    assert says in str(caught.value)


def test_verify_sees_a_sequence_that_is_missing(long_tail):
    lengths, packs = long_tail
    made = balance(packs, lengths, 8, work=WORK)
    with pytest.raises(ValueError, match="The schedule has 12000 sequences; there are 12001"):
        made.verify([*lengths.tolist(), 5])


FEW = Packs([0, 1, 2, 3], [0, 1, 2, 4], [8, 8, 8], max_length=8)
SHORT = [8, 8, 4, 4]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: balance(FEW, SHORT, 0, work=WORK), "ranks must be at least 1, not 0."),
        (lambda: balance(FEW, SHORT, 4, work=WORK), "packs_per_rank must be at most 3, the number of packs, not 4."),
        (lambda: balance(FEW, SHORT, 1, 0, work=WORK), "packs_per_rank must be at least 1, not 0."),
        (lambda: balance(FEW, [9, 8, 4, 4], 1, work=WORK), "made for other lengths: it has 8 tokens, not 9."),
        (lambda: balance(FEW, SHORT, 1, work=3), "work must be Work, not 3."),
        (lambda: balance([[0]], SHORT, 1, work=WORK), "packs must be Packs, not [[0]]."),
        (lambda: balance(FEW, SHORT, 1, work=Work(1e308, 1e308)), "The work of all packs must be finite, not inf"),
        (lambda: balance(FEW, SHORT, 1, work=WORK, spare=-0.1), "spare must be at least 0 and at most 1, not -0.1."),
        (lambda: balance(FEW, SHORT, 1, work=WORK, seed=-1), "seed must be at least 0, not -1."),
        (lambda: balance(FEW, SHORT, 1, work=WORK, max_sequences_per_pack=1), "must be at least 2, as the packs have"),
        (lambda: balance(FEW, SHORT, 3, work=WORK, spare=1), "2 steps of 3 packs need as many sequences, and there"),
        (lambda: replace(balance(FEW, SHORT, 1, work=WORK), squares=None), "squares must be an array or a list of"),
        (lambda: replace(balance(FEW, SHORT, 1, work=WORK), bounds=None), "bounds must have 3 entries, all above 0"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, says):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert says in str(caught.value)


@pytest.mark.parametrize("limit", [None, 90])
def test_a_schedule_is_saved_and_mapped(tmp_path, long_tail, limit):
    lengths, packs = long_tail
    limit = limit and max(limit, int(np.diff(packs.offsets).max()))
    made = balance(packs, lengths, 8, 2, work=Work(0.1, 1 / 3), max_sequences_per_pack=limit)
    made.save(tmp_path / "long.schedule")
    mapped = Schedule.load(tmp_path / "long.schedule").verify(lengths)
    assert not mapped.sample_ids.flags.owndata and repr(mapped) == repr(made)
    for field in fields(Schedule):
        assert np.array_equal(getattr(mapped, field.name), getattr(made, field.name))
    assert mapped.work_of_ranks().tolist() == made.work_of_ranks().tolist()


def test_a_schedule_of_lists_is_saved_as_one_of_arrays(tmp_path):
    made = balance(FEW, SHORT, 1, work=WORK)
    for bounds in (made.bounds.tolist(), made.bounds.astype(np.float32)):
        replace(made, squares=made.squares.tolist(), bounds=bounds).save(tmp_path / "some.schedule")
        assert Schedule.load(tmp_path / "some.schedule").lower_bound == pytest.approx(made.lower_bound)


def test_packs_and_schedules_are_told_apart(tmp_path):
    balance(FEW, SHORT, 1, work=WORK).save(tmp_path / "one")
    FEW.save(tmp_path / "other")
    with pytest.raises(ValueError, match=r"one is no whole file of packs: it holds Schedule, not Packs\."):
        Packs.load(tmp_path / "one")
    with pytest.raises(ValueError, match=r"other is no whole file of a schedule: it holds Packs, not Schedule\."):
        Schedule.load(tmp_path / "other")


HOSTILE = {
    "ranks": (np.array([0]), "ranks must be at least 1, not 0."),
    "packs_per_rank": (np.array([2]), "3 packs do not make whole steps of 1 × 2."),
    "max_sequences_per_pack": (np.array([-1]), "max_sequences_per_pack must be at least 1, not -1."),
    "max_length": (np.array([7]), "lengths_used must have 3 entries, of at most 7 tokens"),
    "squares": (np.array([64, 64, 7]), "squares must have 3 entries, each at least the tokens of its pack."),
    "bounds": (np.array([1.0, np.nan, 1.0]).view(np.int64), "bounds must have 3 entries, all above 0 and finite."),
    "work": (np.array([-1.0, 1.0]).view(np.int64), "per_token must be at least 0, not -1.0."),
    "sample_ids": (np.array([0, 1, 1, 3]), "Sample 1 comes more than once in the packs."),
    "lengths_used": (np.array([8, 8]), "lengths_used must have 3 entries"),
    "offsets": (np.array([0, 1, 2, 5]), "The offsets do not cut 4 sample ids into packs."),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("size", [0, 1])
def test_a_hostile_schedule_is_refused(tmp_path, name, size):
    """What a file says wrongly, or that it has an array of no entries, with a checksum that is right."""
    path = tmp_path / "bad.schedule"
    balance(FEW, SHORT, 1, work=WORK).save(path)
    arrays = dict(map_arrays(path, "Schedule", [*HOSTILE]))
    wrong, says = HOSTILE[name]
    save_arrays(path, "Schedule", arrays | {name: wrong if size else wrong[:0]})
    with pytest.raises(ValueError, match=r"bad\.schedule is no whole file of a schedule: ") as refused:
        Schedule.load(path)
    assert "\n" not in str(refused.value) and (says in str(refused.value) or not size)


@pytest.mark.parametrize("keep", [0, 5, 100, 300, -1])
def test_a_truncated_schedule_is_refused(tmp_path, keep):
    path = tmp_path / "some.schedule"
    balance(FEW, SHORT, 1, work=WORK).save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"some\.schedule is no whole file of a schedule"):
        Schedule.load(path)
    with pytest.raises(FileNotFoundError):
        Schedule.load(tmp_path / "missing.schedule")
