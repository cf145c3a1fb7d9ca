"""How long replicas wait on the packs of a plan: against a long run, and what the advice says of it."""

import numpy as np
import pytest
from transformers import AutoConfig

from packlib.advice import advise, waits
from packlib.advice.waits import expected_waiting
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.training import Recipe
from packlib.work import Work

DRAWN = np.minimum(np.random.default_rng(0).lognormal(6, 1.2, 20_000).astype(int) + 1, 8192)
PLAN = plan(LengthHistogram.from_lengths(DRAWN, 8192), method="lpfhp")


def recipe(replicas, micro_batch=2, accumulation=2):
    return Recipe(micro_batch, 1e-4, 100_000, gradient_accumulation_steps=accumulation, replicas=replicas)


def long_run(made, replicas, packs_each, work, steps=20_000):
    """What replicas wait in so many updates, each of which draws its packs anew."""
    each = [
        sum(work.per_token * length + work.per_square * length**2 for length in strategy)
        for strategy, repeats in zip(made.strategies, made.repeats.tolist(), strict=True)
        for _ in range(repeats)
    ]
    rng, slowest, mean = np.random.default_rng(5), 0.0, 0.0
    for _ in range(steps):
        of_replicas = rng.choice(each, replicas * packs_each, replace=False).reshape(replicas, -1).sum(axis=1)
        slowest, mean = slowest + of_replicas.max(), mean + of_replicas.mean()
    return 1 - mean / slowest


def test_a_long_run_waits_as_long():
    found, told = expected_waiting(PLAN, recipe(8), Work.decoder()), long_run(PLAN, 8, 4, Work.decoder())
    assert 0 < found.high - found.low < 0.003 and abs(found.mean - told) < found.high - found.low


def test_packs_of_a_large_plan_are_drawn(monkeypatch):
    whole = expected_waiting(PLAN, recipe(8), Work.decoder())
    monkeypatch.setattr(waits, "MOST_PACKS", 1000)
    found = expected_waiting(PLAN, recipe(8), Work.decoder())
    assert found != whole and found.mean == pytest.approx(whole.mean, rel=0.1)
    many = plan(LengthHistogram([0, *[10**9] * 1000]), method="lpfhp")
    assert 0 <= expected_waiting(many, recipe(8), Work.decoder()).mean < 0.5


def test_there_is_no_waiting_for_one_replica_nor_for_more_packs_than_there_are():
    assert all(expected_waiting(PLAN, recipe(replicas), Work.decoder()) is None for replicas in (1, 4096))
    assert advise(DRAWN, 8192).as_dict()["waiting"] is None


def test_the_advice_says_how_long_ranks_wait_and_for_which_work(tmp_path):
    sizes = {"hidden_size": 96, "num_hidden_layers": 3, "intermediate_size": 300}
    AutoConfig.for_model("bert", **sizes).save_pretrained(tmp_path)
    for model, work in ((None, Work.decoder()), (str(tmp_path), Work.bert(3, 96, 300))):
        advice = advise(DRAWN, 8192, ranks=8, model=model, max_sequences_per_pack=40)
        said, after = advice.as_dict()["waiting"], advice.update.after
        each = after.micro_batch * after.gradient_accumulation_steps
        assert after.replicas == advice.update.before.replicas == said["ranks"] == 8
        told, note = long_run(advice.plan, 8, each, work, 2000), next(note for note in advice.notes if "8 rep" in note)
        assert abs(said["mean"] - told) < 0.05 * told + said["high"] - said["low"]
        assert work.in_words in note and "estimate" in note and f"packs_per_rank={each}) deals" in note
    with pytest.raises(ValueError, match="ranks must be from 1 to 65536, not 0"):
        advise(DRAWN, 8192, ranks=0)
