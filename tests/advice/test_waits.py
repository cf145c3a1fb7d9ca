"""How long replicas wait on the packs of a plan: against a long run, and what the advice says of it."""

import re

import numpy as np
import pytest
from transformers import AutoConfig

from packlib.advice import advise, waits
from packlib.advice.memory import model_work
from packlib.advice.waits import about_waiting, deal, expected_waiting
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


def told_of(made, recipe, work=None):
    work = work or Work.decoder()
    return about_waiting(made, recipe, work, deal(made, recipe, work))


def test_a_long_run_waits_as_long():
    found, told = expected_waiting(PLAN, recipe(8), Work.decoder()), long_run(PLAN, 8, 4, Work.decoder())
    assert 0 < found.high - found.low < 0.003 and abs(found.mean - told) < found.high - found.low
    assert found == expected_waiting(PLAN, recipe(8), Work.decoder())


def test_packs_of_a_large_plan_are_drawn(monkeypatch):
    whole = expected_waiting(PLAN, recipe(8), Work.decoder())
    monkeypatch.setattr(waits, "MOST_PACKS", 1000)
    found = expected_waiting(PLAN, recipe(8), Work.decoder())
    assert found != whole and found.mean == pytest.approx(whole.mean, rel=0.1)
    many = plan(LengthHistogram([0, *[10**9] * 1000]), method="lpfhp")
    assert 0 <= expected_waiting(many, recipe(8), Work.decoder()).mean < 0.5


def test_the_advice_says_it_for_replicas_alone():
    eight = advise(DRAWN[:5000] % 200 + 1, 256, max_sequences_per_pack=3, recipe=recipe(8))
    waiting = told_of(eight.plan, eight.update.after)
    assert waiting in eight.notes and "8 replicas" in waiting and "13_balanced_work" in waiting
    assert "estimate" in waiting and "like Llama 3 8B's" in waiting
    one = advise(DRAWN[:5000] % 200 + 1, 256, max_sequences_per_pack=3, recipe=recipe(1))
    assert told_of(one.plan, one.update.after) == "" and "replica" not in " ".join(one.notes)
    share = expected_waiting(eight.plan, eight.update.after, Work.decoder()).mean
    way = re.search(r"Packs.balance\(ranks=8, packs_per_rank=(\d+), window=(\d+)\) leaves", waiting)
    less = [expected_waiting(eight.plan, eight.update.after, Work.decoder(), 2**n).mean <= share / 2 for n in range(6)]
    assert int(way[1]) == eight.update.after.global_batch // 8 and int(way[2]) == 2 ** less.index(True)
    assert f"waits {100 * share:.1f} %" in waiting or f"waits {100 * share:.2f} %" in waiting


def test_updates_of_more_packs_than_there_are():
    said = told_of(PLAN, recipe(4096))
    assert said.endswith(f"an update takes 16,384 packs, which must be at most {PLAN.num_packs:,}.")


def test_the_work_is_that_of_the_model(tmp_path):
    sizes = {"hidden_size": 96, "num_hidden_layers": 3, "intermediate_size": 300}
    AutoConfig.for_model("bert", **sizes).save_pretrained(tmp_path)
    assert told_of(PLAN, recipe(8), model_work(str(tmp_path))).count(Work.bert(3, 96, 300).in_words) == 1


def test_ranks_alone_tell_how_long_they_wait():
    advice = advise(DRAWN, 8192, ranks=8)
    said, after = advice.as_dict()["waiting"], advice.update.after
    each = after.micro_batch * after.gradient_accumulation_steps
    assert after.replicas == advice.update.before.replicas == said["ranks"] == 8
    random, balanced = said["random"], said["balanced"]
    told = long_run(advice.plan, 8, each, Work.decoder(), steps=5000)
    assert abs(random["mean"] - told) < 0.05 * told + random["high"] - random["low"]
    assert balanced["mean"] <= random["mean"] / 2
    assert f"packs_per_rank={each}, window={said['window']}) leaves" in " ".join(advice.notes)
    assert advise(DRAWN, 8192).as_dict()["waiting"] is None
    with pytest.raises(ValueError, match="ranks must be the recipe's replicas, 4, or left out, not 8"):
        advise(DRAWN, 8192, ranks=8, recipe=recipe(4))
    with pytest.raises(ValueError, match="ranks must be from 1 to 65536, not 0"):
        advise(DRAWN, 8192, ranks=0)
