"""The pipeline: its gradients are the single process's, its order is the planned one; and the bubble on paper."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import bert_config, make_batch
from training_cases import furthest, weights

from packlib.batches import PackedBatch
from packlib.distributed import run_ranks
from packlib.model import PackedBert
from packlib.training import PretrainingObjective, Recipe, make_optimizer
from packlib.workbook.chapters.n11_scaling_up.pipeline import Pipeline, split_layers
from packlib.workbook.chapters.shared.timeline import (
    SCHEDULES,
    Bar,
    bubble,
    bubble_formula,
    gantt,
    in_flight,
    work_order,
)

RECIPE = Recipe(2, 0.01, 100, optimizer="lamb")


def model_of(layers: int) -> PackedBert:
    torch.manual_seed(3)
    shape = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 4000}
    return PackedBert(bert_config(**shape, num_hidden_layers=layers)).double()


def micro_batches(count: int) -> list[PackedBatch]:
    """Of 2 packs each, with from 2 to many sequences."""
    return [make_batch((None, 1, 3, 2)[i % 4], 2) for i in range(count)]


def whole_update(model, batches, objective):
    """The single process: gradients left in the model, and the means of what was measured."""
    model.zero_grad()
    counts = [objective.counts(batch) for batch in batches]
    found = [objective(model, batch) for batch in batches]
    sum(sum(f[name].total for f in found) / sum(c[name] for c in counts) for name in counts[0]).backward()
    return {n: float(sum(f[n].total.detach() for f in found) / sum(f[n].count for f in found)) for n in found[0]}


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def sentence(call, *args, **options) -> str:
    try:
        call(*args, **options)
    except (TypeError, ValueError) as error:
        return str(error)
    return "no error"


def run_stages(rank, layers, batches, mean="token"):
    """On each rank: for both schedules the gradients, what was measured, the order of work, and 3 updates."""
    out = {}
    for schedule in SCHEDULES:
        pipe = Pipeline(model := model_of(layers), schedule, PretrainingObjective(mean))
        sums = pipe.step(batches)
        optimizer, out[schedule] = make_optimizer(pipe.stage, RECIPE), {"gradients": gradients(model)}
        out[schedule]["means"] = {name: float(s.mean) for name, s in sums.items()}
        out[schedule]["order"] = [(bar.kind, bar.micro_batch) for bar in pipe.bars]
        out[schedule]["bars"] = pipe.bars
        optimizer.step()
        for count in (len(batches), len(batches) - 1):  # another number of micro-batches, too
            pipe.step(batches[:count])
            optimizer.step()
        out[schedule]["weights"] = {n: w for n, w in weights(model).items() if n in out[schedule]["gradients"]}
    out["sentences"] = [
        sentence(Pipeline, model_of(1)),
        sentence(Pipeline, model, "2f2b"),
        sentence(Pipeline(model).step, batches[:1]),
        sentence(Pipeline(model).step, [batches[0], make_batch(packs=1)]),
    ]
    return out


def compare(ranks, layers, batches, mean):
    for schedule in SCHEDULES:
        model = model_of(layers)
        means = whole_update(model, batches, objective := PretrainingObjective(mean))
        right, names = gradients(model), set()
        for stage, rank in enumerate(ranks):
            here = rank[schedule]
            names |= set(here["gradients"])
            assert furthest(here["gradients"], right) < 1e-10
            assert here["means"] == pytest.approx(means, rel=1e-9)
            assert here["order"] == work_order(stage, len(ranks), len(batches), schedule)
        assert names == set(right)
        both = ("bert.embeddings.word_embeddings.weight" in rank[schedule]["gradients"] for rank in ranks)
        assert list(both) == [True, *[False] * (len(ranks) - 2), True]
        bars = [bar for rank in ranks for bar in rank[schedule]["bars"]]
        assert in_flight(bars) == in_flight(gantt(len(ranks), len(batches), schedule))
        optimizer = make_optimizer(model, RECIPE)
        optimizer.step()
        for count in (len(batches), len(batches) - 1):
            whole_update(model, batches[:count], objective)
            optimizer.step()
        for rank in ranks:
            assert furthest(rank[schedule]["weights"], weights(model)) < 1e-10


@pytest.mark.slow
def test_two_stages_are_one_model():
    """An update of 5 uneven micro-batches, then 3 updates with LAMB; both copies of the shared table stay equal."""
    batches = micro_batches(5)
    assert len({batch.num_sequences for batch in batches}) > 2
    ranks = run_ranks(run_stages, 2, 3, batches, "sequence", timeout=300)
    compare(ranks, 3, batches, "sequence")
    told = ranks[0]["sentences"]
    assert told[0] == "2 stages need at least 2 layers, one each; the model has 1."
    assert told[1].startswith("schedule must be 'gpipe'")
    assert told[2] == "1f1b over 2 stages needs as many micro-batches, not 1."
    assert told[3] == "A pipeline needs micro-batches of one shape, not [(1, 96), (2, 96)]."
    wrong = model_of(3)
    sum(wrong(**batch).loss for batch in batches).div(len(batches)).backward()  # the mean of means
    assert furthest(ranks[0]["1f1b"]["gradients"], gradients(wrong)) > 1e-3


@pytest.mark.slow
def test_four_stages_are_one_model():
    batches = micro_batches(5)
    compare(run_ranks(run_stages, 4, 4, batches, timeout=300), 4, batches, "token")


@given(st.integers(1, 6), st.integers(1, 9), st.sampled_from(SCHEDULES), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=60)
def test_the_bubble_on_paper_is_the_formula(stages, m, schedule, forward, backward):
    bars = gantt(stages, m, schedule, forward, backward)
    assert bubble(bars) == pytest.approx(bubble_formula(stages, m), abs=1e-12)
    ends = {(bar.kind, bar.stage, bar.micro_batch): bar.end for bar in bars}
    assert len(ends) == len(bars) == 2 * stages * m
    for bar in bars:
        before = ("forward", bar.stage - 1) if bar.kind == "forward" else ("backward", bar.stage + 1)
        if bar.kind == "backward" and bar.stage == stages - 1:
            before = ("forward", bar.stage)
        assert ends.get((*before, bar.micro_batch), 0) <= bar.start
    for stage in range(stages):
        own = [bar for bar in bars if bar.stage == stage]
        assert all(a.end <= b.start for a, b in pairwise(own))
    assert in_flight(bars) == [m if schedule == "gpipe" else min(m, stages - i) for i in range(stages)]


def test_a_slow_stage_sets_the_pace():
    bars = gantt(3, 8, "gpipe", forward=(1, 3, 1), backward=(2, 6, 2))
    assert bars[-1].end == (1 + 8 * 3 + 1) + (2 + 8 * 6 + 2)
    assert bubble([Bar(0, "forward", 0, 1.0, 2.0), Bar(1, "forward", 0, 2.0, 3.0)]) == 0.5


def test_layouts():
    for layers in range(1, 12):
        for stages in range(1, layers + 1):
            split = split_layers(layers, stages)
            assert sum(split) == layers and len(split) == stages and max(split) - min(split) <= 1
    with pytest.raises(ValueError, match="4 stages need at least 4 layers, one each; the model has 3"):
        split_layers(3, 4)
    with pytest.raises(ValueError, match="not 'gpip': did you mean 'gpipe'"):
        gantt(2, 2, "gpip")
    with pytest.raises(ValueError, match="forward needs one number, or one for each of the 2 stages, not 3"):
        gantt(2, 2, forward=(1, 2, 3))
    with pytest.raises(ValueError, match="backward must be above 0, not 0"):
        gantt(2, 2, backward=0)
