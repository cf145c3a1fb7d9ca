"""How long replicas wait on the packs of a plan: against a long run, and what the advice says of it."""

from dataclasses import replace

import numpy as np
import pytest
from transformers import AutoConfig

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools.advice import Batch, advise, findings
from packlib.work import Work

DRAWN = np.minimum(np.random.default_rng(0).lognormal(6, 1.2, 20_000).astype(int) + 1, 8192)
PLAN = plan(LengthHistogram.from_lengths(DRAWN, 8192), method="lpfhp")
ADVICE = advise(DRAWN, 8192, overlong="truncate", batch_size=32)


def found(made, replicas):
    batch = Batch(2, gradient_accumulation_steps=2, replicas=replicas)
    return replace(ADVICE, plans=(made,), update=replace(ADVICE.update, after=batch)).waiting


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


def test_packs_are_dealt_as_a_long_run_deals_them_or_drawn_where_there_are_many(monkeypatch):
    whole = found(PLAN, 8)
    assert 0 < whole.high - whole.low < 0.003
    assert abs(whole.mean - long_run(PLAN, 8, 4, Work.decoder())) < whole.high - whole.low
    monkeypatch.setattr(findings, "_MOST_PACKS", 1000)
    drawn = found(PLAN, 8)
    assert drawn != whole and drawn.mean == pytest.approx(whole.mean, rel=0.1)
    assert 0 <= found(plan(LengthHistogram([0, *[10**9] * 1000]), method="lpfhp"), 8).mean < 0.5


def test_there_is_no_waiting_for_one_replica_nor_for_more_packs_than_there_are():
    assert found(PLAN, 1) is None and found(PLAN, 4096) is None
    assert ADVICE.as_dict()["waiting"] is None


def test_the_advice_says_how_long_ranks_wait_and_for_which_work(tmp_path):
    sizes = {"hidden_size": 96, "num_hidden_layers": 3, "intermediate_size": 300}
    AutoConfig.for_model("bert", **sizes).save_pretrained(tmp_path)
    for model, work in ((None, Work.decoder()), (str(tmp_path), Work.bert(3, 96, 300))):
        made = advise(DRAWN, 8192, ranks=8, batch_size=32, accumulation=8, model=model, max_sequences_per_pack=40)
        said, after = made.as_dict()["waiting"], made.update.after
        each = after.micro_batch * after.gradient_accumulation_steps
        assert after.replicas == made.update.before.replicas == said["ranks"] == 8
        waited, note = long_run(made.plan, 8, each, work, 2000), next(note for note in made.notes if "8 rep" in note)
        assert abs(said["mean"] - waited) < 0.05 * waited + said["high"] - said["low"]
        assert work.in_words in note and "estimate" in note and f"packs_per_rank={each}) assigns" in note
