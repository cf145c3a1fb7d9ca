"""Notebook 11's own parts: charts add up, stages and replicas train as one."""

import pytest
import torch
from model_cases import make_batch, make_model

from packlib.workbook.chapters.n11_scaling_up.calculator import Phase, values_of
from packlib.workbook.chapters.n11_scaling_up.figures import chart_of
from packlib.workbook.chapters.n11_scaling_up.pod import make_pod
from packlib.workbook.chapters.n11_scaling_up.runs import in_stages, walk, whole_gradients
from packlib.workbook.chapters.shared.gradients import distance


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
