"""Memory of a model: by a configuration or a size, against counted parameters and the calculator's own lines."""

import json
import re

import pytest
import torch
from transformers import AutoConfig, AutoModel

from packlib.advisor import about_memory
from packlib.advisor.memory import model_setup
from packlib.training.scaling.calculator import Phase, calculate, value_of
from packlib.workbook import cli


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


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (None, "There is no file"),
        ({"hidden_size": 8}, "is no model's configuration: it has no num_hidden_layers."),
        ({"num_hidden_layers": 0}, "num_hidden_layers in config.json must be at least 1, not 0."),
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
