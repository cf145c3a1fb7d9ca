"""Notebook 11: the calculator against the model and the chart; stages train as one, and a weight walks as it should."""

from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pytest
import torch
from model_cases import make_batch, make_model
from transformers import BertConfig

from packbook.n11_scaling_up.calculator import Phase, Setup, values_of
from packbook.n11_scaling_up.figures import chart_of
from packbook.n11_scaling_up.pod import make_pod
from packbook.n11_scaling_up.runs import in_stages, walk, whole_gradients
from packbook.n11_scaling_up.timeline import gantt
from packbook.shared.gradients import distance
from packlib.model import PackedBert

PHASES = [Phase(128, 1e8, packing_factor=1.17), Phase(384, 2e7, 4, 256, 1.7, 0.01, 56)]


def lines(setup=None, phases=PHASES):
    """The values of the sheets of all phases, by name and length; those of the model are under None too."""
    found = {}
    for phase in phases:
        for name, value in values_of(setup or Setup(), phase).items():
            found[name, phase.length] = found[name, None] = value
    return found


SMALL = {
    "layers": 3,
    "width": 64,
    "feed_forward": 100,
    "heads": 4,
    "vocabulary": 401,
    "positions": 400,
    "layout": (3,),
}


@pytest.mark.parametrize("setup", [Setup(), Setup(**SMALL)])
def test_the_parameters_are_the_models(setup):
    config = BertConfig(
        vocab_size=setup.vocabulary, hidden_size=setup.width, num_hidden_layers=setup.layers,
        num_attention_heads=setup.heads, intermediate_size=setup.feed_forward,
        max_position_embeddings=setup.positions,
    )  # fmt: skip
    with torch.device("meta"):
        model = PackedBert(config)
    real, found = sum(p.numel() for p in model.parameters()), lines(setup)
    assert found["parameters", None] == real == sum(found["PARAMETERS", None])
    apart = lines(replace(setup, folded=False))
    assert sum(apart["PARAMETERS", None]) == real + setup.vocabulary * setup.width * (len(setup.layout) > 1)
    assert found["layer", None] == sum(p.numel() for p in model.bert.encoder.layer[0].parameters())
    assert found["embedding", None] == sum(p.numel() for p in model.bert.embeddings.parameters())


@pytest.mark.parametrize("accumulation", [1, 5, 16])
def test_bubble_and_micro_batches_in_flight_are_the_charts(accumulation):
    """Of four equal stages, counted bar by bar; each pass waits for its input, and no stage does two at once."""
    found = lines(Setup(), [Phase(128, 1e6, gradient_accumulation_steps=accumulation)])
    bars = gantt(accumulation, (1.0,) * 4, (2.0,) * 4)
    ends = {(bar.kind, bar.stage, bar.micro_batch): bar.end for bar in bars}
    assert len(bars) == len(ends) == 2 * 4 * accumulation
    for bar in bars:
        source = bar.stage - 1 if bar.kind == "forward" else bar.stage + 1
        assert bar.start >= ends.get((bar.kind, source, bar.micro_batch), 0.0)
    held = []
    for stage in range(4):
        mine = [bar for bar in bars if bar.stage == stage]
        assert all(one.end <= other.start for one, other in pairwise(mine))
        held.append(max(accumulate(1 if bar.kind == "forward" else -1 for bar in mine)))
    assert list(found["IN_FLIGHT", 128]) == held
    assert found["bubble", 128] == pytest.approx(1 - 3 * accumulation / max(ends.values()))


def test_what_may_be_chosen_changes_what_it_should():
    base = lines()

    def ratio(name, length=None, phases=PHASES, **changes):
        return np.divide(lines(Setup(**changes), phases)[name, length], base[name, length])

    assert ratio("hours", 384, peak_flops=2e14, bandwidth=2e10) == pytest.approx(0.5)
    assert (ratio("GRADIENTS", shards=16) == 1 / 16).all() and (ratio("WEIGHTS", shards=16) == 1).all()
    assert ratio("computing", 384, recompute=False) < 1 and (ratio("ACTIVATIONS", 384, recompute=False) > 1).all()
    seconds = lines(Setup(offload=True))["update", 128] - base["update", 128]  # reads and writes the moments
    assert seconds == pytest.approx(2 * 8 * max(base["PARAMETERS", None]) / 1e10)
    assert ratio("MEMORY", 128, offload=True) == pytest.approx(1)
    assert ratio("computing", 128, [replace(PHASES[0], overhead=0.5)]) == pytest.approx(2)


@pytest.mark.parametrize("layout", [(3, 7, 7), (0, 24), (25, -1)])
def test_a_layout_that_cannot_be_gets_a_sentence(layout):
    with pytest.raises(ValueError, match="A layout has at least 1 layer a stage and 24 in all, not"):
        Setup(layout=layout)


@pytest.mark.parametrize(("replicas", "stages"), [(16, 4), (1, 8), (3, 1), (1, 24)])
@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_chart_of_a_short_update_holds_all_of_its_work(replicas, stages, accumulation):
    setup = make_pod(replicas, stages)
    phase = Phase(128, 1e6, gradient_accumulation_steps=accumulation)
    of = values_of(setup, phase)
    bars = chart_of(of, setup, phase)
    assert len(bars) == 2 * stages * accumulation
    for stage, work in enumerate(of["WORK"]):
        seconds = sum(bar.end - bar.start for bar in bars if bar.stage == stage)
        assert seconds == pytest.approx(accumulation * work / setup.peak_flops / setup.utilization)


@pytest.mark.parametrize("first_layers", [0, 1, 2])
def test_stages_that_get_segment_ids_alone_train_as_the_whole_model(first_layers):
    model, batches = make_model("bert"), [make_batch(8, 4), make_batch(9, 4)]
    alone = whole_gradients(model, batches)
    assert distance(whole_gradients(model, batches, in_stages(model, first_layers)), alone) < 1e-10


def test_a_weight_walks_as_it_should():
    step = 2**-8 / 8
    assert (walk("nearest", 50, 3, step, 0) == 1).all()
    weights = walk("stochastic", 64, 2000, step, 0)
    error = 2**-8 * (64 * 7 / 64 / 2000) ** 0.5
    assert abs(weights.mean() - (1 - 64 * step)) < 4 * error
    assert torch.equal(weights * 2**8, (weights * 2**8).round()) and weights.unique().numel() > 2
