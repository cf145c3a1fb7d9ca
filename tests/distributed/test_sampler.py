"""The curriculum across real gloo ranks, against the same curriculum written out in one process."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from torch.utils.data import DataLoader

from packlib.batches import TokenStore
from packlib.distributed import DistributedCurriculumSampler, RankError, run_ranks

RNG = np.random.default_rng(0)
N = 50  # no multiple of 3 or 4
LENGTHS = RNG.integers(1, 12, N)  # with many ties
TEXTS = [{"input_ids": [7] * length} for length in LENGTHS.tolist()]
SCORES = RNG.normal(size=N) * 10.0 ** RNG.integers(-300, 300, N)
SCORES[::3] = RNG.choice([0.0, -0.0], len(SCORES[::3]))  # which are equal


def expected(scores, ranks, curriculum, seed, epoch):
    """What each rank gets, before samples are repeated or left out."""
    ties = np.random.PCG64([seed, epoch]).random_raw(N) >> 32
    order = np.lexsort((ties, scores))
    if curriculum == "global":
        return [order[rank::ranks].tolist() for rank in range(ranks)]
    return [order[order % ranks == rank].tolist() for rank in range(ranks)]


def samplers(rank, jobs):
    """The samples of each job's epochs on this rank, by sampler(…)."""
    found = []
    for arguments, options, epochs in jobs:
        sampler = DistributedCurriculumSampler(*arguments, **options)
        for epoch in epochs:
            sampler.set_epoch(epoch)
            samples = list(sampler)
            assert samples == list(sampler) == sampler.order.tolist() and len(samples) == len(sampler)
            found.append(samples)
    return found


def score(sample):
    return len(sample["input_ids"]) / 7


def mixed(sample):
    """Whole numbers on the first ranks, floats on the last."""
    return sample if sample < N // 2 else sample - 24.5


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 3])
def test_the_curriculum_is_the_one_of_a_single_process(ranks):
    store = TokenStore.from_samples(TEXTS)
    jobs, expectations = [], []
    for curriculum in ("global", "local"):
        for arguments, scores in (
            ((store,), LENGTHS),
            ((TEXTS, score), LENGTHS),
            ((range(N), SCORES), SCORES),
            ((range(N), LENGTHS > 5), LENGTHS > 5),
            ((range(N), mixed), [mixed(sample) for sample in range(N)]),
        ):
            for drop_last in (False, True):
                seed = len(jobs)
                jobs.append((arguments, dict(curriculum=curriculum, seed=seed, drop_last=drop_last), (0, 3)))
                for epoch in (0, 3):
                    shares = expected(scores, ranks, curriculum, seed, epoch)
                    even = N // ranks if drop_last else math.ceil(N / ranks)
                    expectations.append([(share + share[-1:])[:even] for share in shares])
    found = run_ranks(samplers, ranks, jobs)
    assert list(zip(*found, strict=True)) == [tuple(shares) for shares in expectations]


def broken_off(rank, curriculum, state, steps):
    """Go on from `state`, take `steps` batches of 2 in an epoch, and say what came and the state."""
    sampler = DistributedCurriculumSampler(TEXTS, curriculum=curriculum, seed=1)
    if state:
        sampler.load_state_dict(state)
        sampler.set_epoch(state["epoch"])  # as a training loop does at the start of each epoch
    else:
        sampler.set_epoch(2)
    samples = []
    for _, batch in zip(range(steps), DataLoader(range(N), 2, sampler=sampler), strict=False):
        samples += batch.tolist()
    return samples, sampler.state_dict(), len(list(sampler))


@pytest.mark.slow
def test_a_resumed_run_goes_on_where_it_was_broken_off():
    (whole, end, full), *_ = run_ranks(broken_off, 2, "local", None, 99)
    (before, state, _), *_ = run_ranks(broken_off, 2, "local", None, 6)
    (after, last, again), *_ = run_ranks(broken_off, 2, "local", state, 99)
    assert before + after == whole and last == end
    assert again == full == len(whole)  # the pass after that is a whole one
    assert run_ranks(broken_off, 2, "local", end, 9)[0][0] == []  # the epoch was over


@pytest.mark.slow
def test_a_global_curriculum_goes_on_with_other_ranks():
    steps = [run_ranks(broken_off, 2, "global", None, 6)]
    steps.append(run_ranks(broken_off, 3, "global", steps[0][0][1], 4))
    steps.append(run_ranks(broken_off, 4, "global", steps[1][0][1], 99))
    merged = [sample for step in steps for turn in zip(*[found[0] for found in step], strict=True) for sample in turn]
    order = expected(LENGTHS, 1, "global", 1, 2)[0]
    assert merged[:N] == order and set(merged[N:]) <= set(order[-4:])
    assert run_ranks(broken_off, 3, "global", steps[2][0][1], 1)[0][0] == []  # over, repeated samples and all
    with pytest.raises(RankError, match="4 ranks cannot go on after 42 samples, which is no multiple of 4"):
        run_ranks(broken_off, 4, "global", steps[0][0][1] | {"samples_done": 42}, 1)


def test_a_state_at_the_end_counts_each_sample_once_though_ranks_repeat_some(monkeypatch):
    for drop_last, each in ((False, 17), (True, 16)):
        sampler = DistributedCurriculumSampler(TEXTS, drop_last=drop_last)
        monkeypatch.setattr(sampler, "_ranks", SimpleNamespace(size=3))  # as on each of three ranks
        assert [sampler.state_dict(done)["samples_done"] for done in (15, each)] == [45, 50]


def test_a_state_counts_what_was_used():
    sampler = DistributedCurriculumSampler(TEXTS)
    given_out = iter(sampler)
    for _ in range(5):
        next(given_out)
    assert sampler.state_dict()["samples_done"] == 5
    assert sampler.state_dict(done=3)["samples_done"] == 3  # workers fetched two ahead
    local = DistributedCurriculumSampler(TEXTS, curriculum="local")
    with pytest.raises(ValueError, match="a sampler with world_size 2; this one has 1"):
        local.load_state_dict(local.state_dict() | {"world_size": 2})
    with pytest.raises(ValueError, match="done must be from 0 to 50, not 51"):
        sampler.state_dict(done=51)
