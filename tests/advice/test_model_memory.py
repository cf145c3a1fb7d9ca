"""Memory of a model: by a configuration or a size, against counted parameters and the calculator's own lines."""

import json
import re

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from packlib import cli
from packlib.advice import about_memory
from packlib.advice.layers import about_attention, about_places
from packlib.advice.memory import about_positions, model_setup
from packlib.advice.risks import share_of
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.training.scaling.calculator import Phase, calculate, value_of


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("bert", {"hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072, "num_attention_heads": 12}),
        ("gpt2", {"n_embd": 768, "n_layer": 12, "n_head": 12}),
        ("llama", {"hidden_size": 512, "num_hidden_layers": 8, "intermediate_size": 1376, "num_attention_heads": 8}),
    ],
)
def test_a_configuration_has_about_the_parameters_that_are_counted(tmp_path, family, sizes):
    config = AutoConfig.for_model(family, **sizes)
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        counted = sum(weights.numel() for weights in AutoModel.from_config(config).parameters())
    for where in (tmp_path, tmp_path / "config.json"):
        setup, predicted, shape = model_setup(str(where))
        parameters = value_of(calculate(setup, [Phase(512, 1)]), "parameters")
        assert parameters == pytest.approx(counted, rel=0.1)
        assert predicted == (0.15 if family == "bert" else 1) and "the configuration" in shape


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("qwen3", {"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 1536}),
        ("mistral", {"num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1792}),
        ("gemma2", {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 2048}),
        ("mixtral", {"num_attention_heads": 8, "num_key_value_heads": 2, "num_local_experts": 8}),
        ("qwen3_moe", {"num_attention_heads": 8, "num_key_value_heads": 2, "num_experts": 16, "head_dim": 64}),
    ],
)
def test_grouped_queries_experts_and_a_head_of_its_own_are_counted(tmp_path, family, sizes):
    config = AutoConfig.for_model(family, **{"hidden_size": 512, "num_hidden_layers": 6, **sizes})
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        counted = sum(weights.numel() for weights in AutoModelForCausalLM.from_config(config).parameters())
    said = about_memory(str(tmp_path), 512, 8)
    told = float(re.search(r"([\d,]+) million parameters", said)[1].replace(",", ""))
    states = float(re.search(r"(\d+\.\d) GB of weights", said)[1])
    assert told == pytest.approx(counted / 1e6, rel=0.02, abs=1)
    inner = getattr(config, "moe_intermediate_size", config.intermediate_size) * getattr(
        config, "num_experts_per_tok", 1
    )
    assert model_setup(str(tmp_path))[0].feed_forward == 3 * inner / 2  # of two matrices, and of the experts in use
    assert states == pytest.approx(16 * counted / 1e9, rel=0.02, abs=0.06)  # 2 + 2 + 4 + 4 + 4 bytes of a weight


@pytest.mark.parametrize(("size", "parameters"), [("340M", 340e6), ("7B", 7e9), ("1.5b", 1.5e9), ("70B", 70e9)])
def test_a_size_becomes_a_shape_of_that_size(size, parameters):
    setup, _, shape = model_setup(size)
    assert 12 * setup.layers * setup.width**2 == pytest.approx(parameters, rel=0.08) and "assumed" in shape


def test_the_sentence_adds_up_and_says_that_it_is_an_estimate():
    said = about_memory("340M", 512, 8)
    total, states, activations, twice = (float(number) for number in re.findall(r"(\d+\.\d) GB", said))
    assert total == pytest.approx(states + activations, abs=0.11) and states < twice < total
    assert "estimate" in said and "16 bits" in said and said.endswith(".")
    longer = float(re.search(r"(\d+\.\d) GB", about_memory("340M", 1024, 8))[1])
    assert longer - states == pytest.approx(2 * activations, rel=0.02)


SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "vocab_size": 100}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (None, "There is no file"),
        ({"hidden_size": 8}, "config.json must be the configuration of a transformer, and has no num_hidden_layers."),
        ({"model_type": "mamba2", "num_heads": 8}, "model must be a transformer, not 'mamba2': it carries a state"),
        ({"num_hidden_layers": 0}, "num_hidden_layers in config.json must be from 1 to 10000000000000, not 0."),
        ({"text_config": [1]}, "text_config in config.json must be a JSON object, not [1]."),
        (
            SMALL | {"max_position_embeddings": "512"},
            "config.json must be a whole number from 1 to 10000000000000, not '5",
        ),
        (SMALL | {"num_local_experts": "8"}, "num_local_experts in config.json must be a whole number from 1 to "),
        (SMALL | {"head_dim": -1}, "head_dim in config.json must be from 1 to 10000000000000, not -1."),
        (SMALL | {"num_key_value_heads": 9}, "num_key_value_heads in config.json must be from 1 to 2, not 9."),
        (SMALL | {"vocab_size": 10**30}, "vocab_size in config.json must be from 1 to 10000000000000, not 1000"),
        (SMALL | {"hidden_size": 10**9}, "config.json must be of a model of at most 10000B, not "),
    ],
)
def test_what_is_no_model_is_refused_before_anything_runs(tmp_path, monkeypatch, capsys, config, says):
    monkeypatch.setattr("packlib.workbook.report.run_notebook", lambda *_, **__: pytest.fail("must not run"))
    monkeypatch.chdir(tmp_path)
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    assert cli.main(["report", "squad", "--model", "config.json"]) == 2
    assert says in capsys.readouterr().err


def test_a_size_out_of_range_is_refused():
    with pytest.raises(ValueError, match="model must be from 1M to 10000B, not '0M'"):
        about_memory("0M", 512, 8)


def multiplications(top, width, heads, groups, head_width, inner, matrices):
    """Of a layer over one row, twice, as in FLOP: its matrices, and its scores and weighted sums for all pairs."""
    projections = width * head_width * (2 * heads + 2 * groups)
    return 2 * top * (projections + matrices * width * inner), 2 * heads * top**2 * 2 * head_width


@pytest.mark.parametrize(
    ("family", "sizes", "shape"),
    [
        ("llama", {"hidden_size": 512, "intermediate_size": 1376, "num_attention_heads": 8, "num_key_value_heads": 2},
         (512, 8, 2, 64, 1376, 3)),
        ("bert", {"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 6},
         (384, 6, 6, 64, 1536, 2)),
    ],
)  # fmt: skip
def test_attention_and_places_are_weighed_in_the_shape_of_the_model(tmp_path, family, sizes, shape):
    AutoConfig.for_model(family, num_hidden_layers=5, **sizes).save_pretrained(tmp_path)
    top = 2048
    made = plan(LengthHistogram.from_lengths([600, 300, 90] * 400, top), method="lpfhp")
    matrices, pairs = multiplications(top, *shape)
    seen = 400 * (600**2 + 300**2 + 90**2) / (made.num_packs * top**2)
    said = about_attention(made, str(tmp_path))
    assert f"saves {100 * pairs * (1 - seen) / (matrices + pairs):.1f} % of a layer's work" in said
    assert f"5 layers {shape[0]} wide" in said and "1,024" not in said and said != about_attention(made)
    said, empty = about_places(made, str(tmp_path)), made.deepest - 1200 / made.num_packs
    assert f"adds {share_of(empty * 2 * shape[0] ** 2, matrices + pairs)} of a layer's work" in said
    assert "1,024" not in said and said != about_places(made)


def test_sequences_beyond_the_positions_of_a_model_are_told(tmp_path):
    AutoConfig.for_model("bert", max_position_embeddings=512).save_pretrained(tmp_path)
    assert about_positions(str(tmp_path), 512) == about_positions("7B", 10**6) == ""
    assert "has 513 tokens, and the configuration is for 512 positions" in about_positions(str(tmp_path), 513)
