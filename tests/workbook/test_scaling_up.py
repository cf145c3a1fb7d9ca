"""Notebook 11: the calculator against models of transformers, timelines bar by bar, and stages that train as one."""

import ast
from itertools import pairwise

import nbformat
import numpy as np
import pytest
import torch
from model_cases import make_batch, make_model
from transformers import (
    BertConfig,
    BertForPreTraining,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)

from packbook.n11_scaling_up import MODELS as NAMES
from packbook.n11_scaling_up.devices import MODELS, SPLITS, Split, bill, forward_work, layer_parameters, parameters
from packbook.n11_scaling_up.exercises import round_at_random
from packbook.n11_scaling_up.lesson import DevicesExplorer
from packbook.n11_scaling_up.runs import in_stages, whole_gradients
from packbook.n11_scaling_up.timeline import gantt, most_held, waiting
from packbook.run.running import notebooks
from packbook.shared.gradients import distance


def functions_of_the_notebook():
    """The functions that stand in its cells, by name."""
    names = {"np": np, "torch": torch}
    for cell in nbformat.read(notebooks()["11_scaling_up"], as_version=4).cells:
        if cell.cell_type == "code":
            for node in ast.parse(cell.source).body:
                if isinstance(node, ast.FunctionDef):
                    exec(ast.unparse(node), names)
    return names


def number_of(kind, config):
    with torch.device("meta"):
        return sum(weight.numel() for weight in kind(config).parameters())


def of_transformers(name):
    of = MODELS[name]
    sizes = dict(
        hidden_size=of.width, num_hidden_layers=of.layers, vocab_size=of.vocabulary,
        num_attention_heads=of.width // 128, num_key_value_heads=of.kv_width // 128, intermediate_size=of.feed_forward,
    )  # fmt: skip
    if name == "8x7B":
        config = MixtralConfig(**sizes, num_local_experts=of.experts, num_experts_per_tok=of.used)
        return number_of(MixtralForCausalLM, config)
    return number_of(LlamaForCausalLM, LlamaConfig(**sizes))


def test_the_models_of_the_parameter_are_those_of_the_calculator():
    assert tuple(MODELS) == NAMES


def test_each_model_fits_as_it_is_divided_at_first_and_the_controls_follow_the_model():
    explorer = DevicesExplorer()
    for name, split in SPLITS.items():
        assert bill(MODELS[name], split).fullest < MODELS[name].memory
        explorer.widgets["model"].value = name
        assert explorer.widgets["row"].value == split.row and explorer.widgets["tensor"].value == split.tensor
        assert explorer.alt.startswith(f"{name}: ") and " fits into " in explorer.alt


@pytest.mark.parametrize("name", ["8B", "70B", "8x7B"])
def test_the_parameters_are_those_of_the_model_in_the_calculator_and_in_the_cell(name):
    of = MODELS[name]
    by_cell = functions_of_the_notebook()["parameters"]
    by_hand = by_cell(of.layers, of.width, of.feed_forward, of.kv_width, of.vocabulary, of.experts)
    assert parameters(of) == by_hand == of_transformers(name)


def test_bert_large_is_counted_but_for_biases_positions_and_heads():
    config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    assert parameters(MODELS["BERT-Large"]) == pytest.approx(number_of(BertForPreTraining, config), rel=0.01)


def test_a_token_of_the_mixture_goes_through_two_experts():
    """12.9 billion of 46.7 billion parameters, as its makers say."""
    of = MODELS["8x7B"]
    active = of.layers * layer_parameters(of, of.used) + 2 * of.vocabulary * of.width
    assert active == pytest.approx(12.9e9, rel=0.005)
    assert forward_work(of, 1) == pytest.approx(2 * active, rel=0.02)


def test_what_is_divided_adds_up_to_what_one_device_would_hold():
    of = MODELS["8B"]

    def states(**split):
        made = bill(of, Split(**{"replicas": 4, "recompute": False, "sharded": False, **split}))
        return sum(held["gradients"] + held["moments"] for held in made.stages)

    assert states() == 12 * (parameters(of) - of.width)  # but for the last norm
    for stages, tensor in ((4, 1), (1, 8), (8, 2)):
        assert states(stages=stages, tensor=tensor) * tensor == pytest.approx(states())
    assert states(sharded=True) * 4 == pytest.approx(states())


def test_what_may_be_chosen_changes_what_it_should():
    of, base = MODELS["70B"], Split(replicas=8, stages=4, tensor=8)
    whole = bill(of, base)
    assert bill(of, base._replace(recompute=False)).seconds == pytest.approx(whole.seconds * 3 / 4)
    assert bill(of, base._replace(recompute=False)).fullest > whole.fullest
    assert bill(of, base._replace(sharded=False)).fullest > whole.fullest
    assert bill(of, base._replace(micro_batch=2)).stages[0]["activations"] == 2 * whole.stages[0]["activations"]
    assert whole.bubble == pytest.approx(3 / (8 + 3)) and whole.rows == 64
    in_flight = bill(of, base._replace(accumulation=512)).stages[0]["activations"]
    assert in_flight == whole.stages[0]["activations"], "1f1b holds no more micro-batches than stages"


@pytest.mark.parametrize(("stages", "m"), [(4, 6), (4, 1), (2, 9), (7, 3), (1, 5)])
def test_both_orders_wait_as_the_formula_says_and_hold_what_the_prose_says(stages, m):
    names = functions_of_the_notebook()
    held = {}
    for name in ("all_forward_first", "one_of_each"):
        bars = gantt([names[name](stage, stages, m) for stage in range(stages)])
        ends = {(bar.kind, bar.stage, bar.micro_batch): bar.end for bar in bars}
        assert len(bars) == len(ends) == 2 * stages * m
        for bar in bars:
            source = bar.stage - 1 if bar.kind == "forward" else bar.stage + 1
            assert bar.start >= ends.get((bar.kind, source, bar.micro_batch), 0.0)
        for stage in range(stages):
            mine = [bar for bar in bars if bar.stage == stage]
            assert all(one.end <= other.start for one, other in pairwise(mine))
        assert waiting(bars) == pytest.approx((stages - 1) / (m + stages - 1))
        held[name] = most_held(bars)
    assert held == {"all_forward_first": m, "one_of_each": min(m, stages)}


def test_stages_that_wait_for_each_other_are_refused():
    with pytest.raises(ValueError, match=r"^The stages wait for each other"):
        gantt([[("backward", 0), ("forward", 0)], [("forward", 0), ("backward", 0)]])


@pytest.mark.parametrize("first_layers", [0, 1, 2])
def test_stages_that_get_segment_ids_alone_train_as_the_whole_model(first_layers):
    model, batches = make_model("bert"), [make_batch(8, 4), make_batch(9, 4)]
    alone = whole_gradients(model, batches)
    assert distance(whole_gradients(model, batches, in_stages(model, first_layers)), alone) < 1e-10


def test_a_weight_rounded_at_random_stays_on_its_grid_and_is_right_on_average():
    spacing, rng = 2**-8, np.random.default_rng(0)
    ends = []
    for _ in range(500):
        weight = 1.0
        for draw in rng.random(64):
            weight = round_at_random(weight - spacing / 8, spacing, draw)
        ends.append(weight)
    assert torch.equal(torch.tensor(ends).bfloat16().double(), torch.tensor(ends).double())
    assert np.mean(ends) == pytest.approx(1 - 64 * spacing / 8, abs=4 * spacing * (64 * 7 / 64 / 500) ** 0.5)
