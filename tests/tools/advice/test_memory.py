"""Shapes, memory and work of models: against counted weights, measured peaks of training, and FLOP by hand."""

import json

import pytest
import torch
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

from packlib.tools import cli
from packlib.tools.advice import advise
from packlib.tools.advice.memory import model_shape
from packlib.work import Work

DEFAULTS = {"hidden_size": 512, "num_hidden_layers": 6}
FAMILIES = {
    "bert": {"intermediate_size": 2048, "num_attention_heads": 8},
    "gpt2": {"n_embd": 512, "n_layer": 6, "n_head": 8},
    "llama": {"intermediate_size": 1376, "num_attention_heads": 8},
    "qwen3": {"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 1536},
    "gemma2": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 2048},
    "mixtral": {"num_attention_heads": 8, "num_key_value_heads": 2, "num_local_experts": 8},
    "qwen3_moe": {"num_attention_heads": 8, "num_key_value_heads": 2, "num_experts": 16, "head_dim": 64},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_configuration_has_the_weights_that_are_counted(tmp_path, family):
    config = AutoConfig.for_model(family, **{"hidden_size": 512, "num_hidden_layers": 6} | FAMILIES[family])
    config.save_pretrained(tmp_path)
    make = AutoModel if family in ("bert", "gpt2") else AutoModelForCausalLM
    with torch.device("meta"):
        counted = sum(weights.numel() for weights in make.from_config(config).parameters())
    for where in (tmp_path, tmp_path / "config.json"):
        shape = model_shape(str(where))
        assert shape.parameters == pytest.approx(counted, rel=0.02) and shape.name == str(tmp_path / "config.json")
        assert shape.causal == (family != "bert") and shape.positions == config.max_position_embeddings


def test_a_known_size_has_the_weights_that_its_makers_name():
    known = {"110M": 0.11, "340M": 0.34, "124m": 0.124, "0.5B": 0.494, "1B": 1.24, "3B": 3.21, "7B": 6.74, "8B": 8.03,
             "13B": 13.0, "14B": 14.8, "32B": 32.8, "70B": 70.6}  # fmt: skip
    found = {size: model_shape(size).parameters / 1e9 for size in known}
    assert found == pytest.approx(known, rel=0.03)
    shape = model_shape("7B")
    assert (shape.layers, shape.width, shape.feed_forward, shape.gated) == (32, 4096, 11_008, True)
    assert not shape.dropout and not shape.once and model_shape("110M").once


SMALL = {  # of models that train here
    "llama": dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=704, vocab_size=1000),
    "llama, many words": dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                              intermediate_size=352, vocab_size=8000),
    "gpt2": dict(n_embd=256, n_layer=4, n_head=4, vocab_size=1000, resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0,
                 bos_token_id=1, eos_token_id=1),
    "bert": dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                 vocab_size=1000, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("rows", "length", "recompute"), [(2, 256, False), (8, 256, True)])
def test_the_memory_is_within_15_percent_of_the_peak_of_training(tmp_path, name, rows, length, recompute):
    family = name.partition(",")[0]
    config = AutoConfig.for_model(family, **SMALL[name])
    config.save_pretrained(tmp_path)
    make = AutoModelForMaskedLM if family == "bert" else AutoModelForCausalLM
    model = make.from_config(config, attn_implementation="sdpa").train()
    if recompute:
        model.activation_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    ids = torch.randint(5, 100, (rows, length))

    def step():  # gradients stay, as where they are accumulated
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()

    step()
    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        step()
    measured = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    shape = model_shape(str(tmp_path))
    found, shared = (shape.memory(rows, length, recompute=recompute, shards=shards) for shards in (1, 4))
    assert found.total == pytest.approx(measured, rel=0.15)
    assert shared.states == found.states / 4 and shared.activations == found.activations


TINY = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "vocab_size": 100}


SIZE = "in config.json must be from 1 to 10000000000000, not "


@pytest.mark.parametrize(("says", "config"), [
    ("There is no file", None),
    ("config.json must be the configuration of a transformer, and has no num_hidden_layers.", {"hidden_size": 8}),
    (f"num_hidden_layers {SIZE}0.", TINY | {"num_hidden_layers": 0}),
    ("text_config in config.json must be a JSON object, not [1].", {"text_config": [1]}),
    ("must be a whole number from 1 to 10000000000000, not '512'", TINY | {"max_position_embeddings": "512"}),
    ("num_local_experts in config.json must be a whole number from 1 to ", TINY | {"num_local_experts": "8"}),
    (f"head_dim {SIZE}-1.", TINY | {"head_dim": -1}),
    ("num_key_value_heads in config.json must be from 1 to 2, not 9.", TINY | {"num_key_value_heads": 9}),
    (f"vocab_size {SIZE}1000", TINY | {"vocab_size": 10**30}),
    ("config.json must be of a model of at most 10000B, not ", TINY | {"hidden_size": 10**9}),
])  # fmt: skip
def test_what_is_no_model_is_refused_before_anything_is_read(tmp_path, monkeypatch, capsys, says, config):
    monkeypatch.setattr("packlib.tools.advice.advising.read_uncut", lambda *_: pytest.fail("must not read"))
    monkeypatch.chdir(tmp_path)
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    assert cli.main(["report", "squad", "--model", "config.json"]) == 2
    assert says in capsys.readouterr().err


ODD = [None, True, -1, 0, 2.5, 1e300, float("nan"), 10**40, "", "8", "a\nb", [], [3], {}, {"a": [1]}]


@pytest.mark.parametrize("family", ["bert", "mixtral", "gpt2"])
def test_an_odd_value_anywhere_in_a_configuration_is_one_sentence_or_a_shape(tmp_path, family):
    """Whatever a stranger's file holds, no other error comes out of it."""
    config = AutoConfig.for_model(family, architectures=["Any"]).to_dict() | {"text_config": None}
    odd_ones = 0
    for name in config:
        for value in ODD:
            (tmp_path / "config.json").write_text(json.dumps(config | {name: value}))
            try:
                model_shape(str(tmp_path))
            except (TypeError, ValueError) as error:
                odd_ones += 1
                assert "config.json" in str(error) or "must be a transformer" in str(error), (name, value)
                assert "\n" not in str(error), (name, value)
    assert odd_ones > 40


def test_a_size_that_is_not_known_is_answered_with_those_that_are():
    with pytest.raises(FileNotFoundError, match=r"model must be a known size \(110M, .*, 70B\), or the path .*'7Q'"):
        model_shape("7Q")


@pytest.mark.parametrize("name", ["mamba2", "falcon_mamba", "jamba", "rwkv"])
def test_models_that_carry_a_state_are_refused(tmp_path, name):
    AutoConfig.for_model(name).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=f"not '{name}': it carries a state"):
        model_shape(str(tmp_path))


@pytest.mark.parametrize(
    ("family", "sizes", "expected"),
    [
        ("bert", {"hidden_size": 96, "num_hidden_layers": 3, "intermediate_size": 300}, Work.bert(3, 96, 300)),
        (  # three matrices in a decoder's count, two in GPT-2's, so that 4 x 96 is as much as 256
            "gpt2", {"n_embd": 96, "n_layer": 3, "n_head": 12},
            Work.decoder(3, 96, 256, 12, 12, 8),
        ),
        (
            "qwen3",
            {"hidden_size": 96, "num_hidden_layers": 3, "intermediate_size": 300, "num_attention_heads": 12,
             "num_key_value_heads": 4, "head_dim": 16},
            Work.decoder(3, 96, 300, 12, 4, 16),
        ),
    ],
)  # fmt: skip
def test_a_configuration_has_the_work_of_its_layers(tmp_path, family, sizes, expected):
    AutoConfig.for_model(family, **sizes).save_pretrained(tmp_path)
    assert model_shape(str(tmp_path)).work == expected


@pytest.mark.parametrize(("family", "causal"), [("llama", True), ("bert", False)])
def test_what_skipping_saves_is_counted_in_the_shape_of_the_model(tmp_path, family, causal):
    sizes = {"hidden_size": 512, "intermediate_size": 1376, "num_attention_heads": 8, "max_position_embeddings": 2048}
    AutoConfig.for_model(family, num_hidden_layers=5, **sizes).save_pretrained(tmp_path)
    found = advise([600, 300, 90] * 400, 2048, model=str(tmp_path), keep_max_length=True)
    slots = found.chosen.packs * 2048
    matrix = 2 * slots * (4 * 512**2 + (2 + causal) * 512 * 1376)
    dense = matrix + 4 * 512 * slots * 2048  # scores and weighted sums, for each pair of tokens
    skipping = matrix + 4 * 512 * 400 * (600**2 + 300**2 + 90**2) / (1 + causal)
    assert found.skipping_saves == pytest.approx(1 - skipping / dense, rel=0.01)
