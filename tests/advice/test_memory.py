"""Shapes, memory and work of models: against counted weights, measured peaks of training, and FLOP by hand."""

import json

import pytest
import torch
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

from packlib import cli
from packlib.advice import advise
from packlib.advice.memory import model_shape
from packlib.work import Work

DEFAULTS = {"hidden_size": 512, "num_hidden_layers": 6}
FAMILIES = [
    ("bert", {"intermediate_size": 2048, "num_attention_heads": 8}),
    ("gpt2", {"n_embd": 768, "n_layer": 12, "n_head": 12}),
    ("llama", {"intermediate_size": 1376, "num_attention_heads": 8}),
    ("qwen3", {"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 1536}),
    ("mistral", {"num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1792}),
    ("gemma2", {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 2048}),
    ("mixtral", {"num_attention_heads": 8, "num_key_value_heads": 2, "num_local_experts": 8}),
    ("qwen3_moe", {"num_attention_heads": 8, "num_key_value_heads": 2, "num_experts": 16, "head_dim": 64}),
]


@pytest.mark.parametrize(("family", "sizes"), FAMILIES, ids=[name for name, _ in FAMILIES])
def test_a_configuration_has_the_weights_that_are_counted(tmp_path, family, sizes):
    config = AutoConfig.for_model(family, **sizes, **({} if "n_embd" in sizes else DEFAULTS))
    config.save_pretrained(tmp_path)
    make = AutoModel if family in ("bert", "gpt2") else AutoModelForCausalLM
    with torch.device("meta"):
        counted = sum(weights.numel() for weights in make.from_config(config).parameters())
    for where in (tmp_path, tmp_path / "config.json"):
        shape = model_shape(str(where))
        assert shape.parameters == pytest.approx(counted, rel=0.02) and shape.name == str(tmp_path / "config.json")
        assert shape.causal == (family != "bert") and shape.positions == config.max_position_embeddings


@pytest.mark.parametrize(
    ("size", "parameters"),
    [("110M", 0.11), ("340M", 0.34), ("124m", 0.124), ("0.5B", 0.494), ("1B", 1.24), ("3B", 3.21), ("7B", 6.74),
     ("8B", 8.03), ("13B", 13.0), ("14B", 14.8), ("32B", 32.8), ("70B", 70.6)],
)  # fmt: skip
def test_a_known_size_has_the_weights_that_its_makers_name(size, parameters):
    assert model_shape(size).parameters / 1e9 == pytest.approx(parameters, rel=0.03)


def test_the_shape_of_7b_is_that_of_llama_2():
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
    "qwen3": dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
                  intermediate_size=704, vocab_size=1000),
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
        model.gradient_checkpointing_enable()
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
    found = model_shape(str(tmp_path)).memory(rows, length, recompute=recompute)
    assert found.total == pytest.approx(measured, rel=0.15)


def test_recomputation_and_shards_take_less():
    shape = model_shape("1B")
    plain, again, shared = (shape.memory(4, 2048, **options) for options in ({}, {"recompute": True}, {"shards": 4}))
    assert again.states == plain.states and again.activations < plain.activations
    assert shared.states == plain.states / 4 and shared.activations == plain.activations
    assert shape.memory(8, 2048).activations == 2 * plain.activations


TINY = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "vocab_size": 100}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (None, "There is no file"),
        ({"hidden_size": 8}, "config.json must be the configuration of a transformer, and has no num_hidden_layers."),
        ({"model_type": "mamba2", "state_size": 8}, "model must be a transformer, not 'mamba2': it carries a state"),
        (TINY | {"num_hidden_layers": 0}, "num_hidden_layers in config.json must be from 1 to 10000000000000, not 0."),
        ({"text_config": [1]}, "text_config in config.json must be a JSON object, not [1]."),
        (
            TINY | {"max_position_embeddings": "512"},
            "config.json must be a whole number from 1 to 10000000000000, not '5",
        ),
        (TINY | {"num_local_experts": "8"}, "num_local_experts in config.json must be a whole number from 1 to "),
        (TINY | {"head_dim": -1}, "head_dim in config.json must be from 1 to 10000000000000, not -1."),
        (TINY | {"num_key_value_heads": 9}, "num_key_value_heads in config.json must be from 1 to 2, not 9."),
        (TINY | {"vocab_size": 10**30}, "vocab_size in config.json must be from 1 to 10000000000000, not 1000"),
        (TINY | {"hidden_size": 10**9}, "config.json must be of a model of at most 10000B, not "),
    ],
)
def test_what_is_no_model_is_refused_before_anything_is_read(tmp_path, monkeypatch, capsys, config, says):
    monkeypatch.setattr("packlib.advice.advising.uncut", lambda *_: pytest.fail("must not read"))
    monkeypatch.chdir(tmp_path)
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config))
    assert cli.main(["report", "squad", "--model", "config.json"]) == 2
    assert says in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("family", "sizes", "shape", "causal"),
    [
        ("llama", {"hidden_size": 512, "intermediate_size": 1376, "num_attention_heads": 8, "num_key_value_heads": 2},
         (512, 8, 2, 64, 1376, 3), True),
        ("bert", {"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 6,
                  "max_position_embeddings": 2048},
         (384, 6, 6, 64, 1536, 2), False),
    ],
)  # fmt: skip
def test_what_skipping_saves_is_counted_in_the_shape_of_the_model(tmp_path, family, sizes, shape, causal):
    AutoConfig.for_model(family, num_hidden_layers=5, **sizes).save_pretrained(tmp_path)
    top, (width, heads, groups, head_width, inner, matrices) = 2048, shape
    found = advise([600, 300, 90] * 400, top, model=str(tmp_path), keep_max_length=True)
    rows = found.chosen.packs
    matrix = 2 * rows * top * (width * head_width * (2 * heads + 2 * groups) + matrices * width * inner)
    pairs = 2 * heads * 2 * head_width  # of scores and weighted sums, for each pair of tokens
    dense = matrix + pairs * rows * top**2
    squares = 400 * (600**2 + 300**2 + 90**2)
    skipping = matrix + pairs * (squares / 2 if causal else squares)
    assert found.skipping_saves == pytest.approx(1 - skipping / dense, rel=0.01)
