"""Packs in unmodified models: exact in the forms that the table says, refused with the reason in the others."""

import csv
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from transformers import (
    BertForMaskedLM,
    BertLMHeadModel,
    EsmForMaskedLM,
    FalconForCausalLM,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    RobertaForMaskedLM,
)

import form_survey
import packlib
from form_survey import difference
from packlib.batches import PackedBatch
from packlib.model import PackedBert, attention, for_transformers, packed_output, unmodified
from packlib.model.forms import FORMS, TABLE, table
from packlib.model.unmodified import Handover, long_rope_limit
from small_families import MAPPINGS, make_batch, quiet, small_config

NAMED = [
    ("causal", "llama", {}),
    ("causal", "gpt2", {}),
    ("causal", "mistral", {}),
    ("causal", "gemma2", {}),
    ("causal", "llama4_text", {}),  # chunks of a sequence
    ("causal", "gpt_neox", {"is_decoder": False}),  # its default, which it never reads
    ("causal", "deepseek_v32", {}),  # it picks keys only where its attention is named sdpa or eager
    ("causal", "gpt_oss", {}),
    ("masked", "bert", {}),
    ("masked", "roberta", {}),
    ("masked", "modernbert", {}),
]


ONLY_FLASH = ["EsmForMaskedLM", "NeoMMEForMaskedLM", "UltrabertForMaskedLM"]


@pytest.mark.parametrize("family", ["qwen3_next", "nemotron_h", "lfm2"])
def test_a_hybrid_begins_its_state_anew_where_seq_idx_says(family):
    assert difference("causal", family, "auto", "sdpa") < 1e-10


def test_without_its_kernels_a_hybrid_refuses_packs():
    with quiet():
        model = transformers.Lfm2ForCausalLM(small_config("causal", "lfm2"))
    given = for_transformers(make_batch("causal"), model)
    assert given["seq_idx"].dtype == torch.int32 and given["seq_idx"].shape == given["input_ids"].shape
    assert given["seq_idx"][0].unique_consecutive(return_counts=True)[1].equal(given["cu_seq_lens_q"].diff())
    with pytest.raises(ValueError, match="can't keep packed sequences apart without"):
        model(**given)


def exact_forms():
    for kind, family, changes in NAMED:
        row = table()[kind, family]
        able = getattr(transformers, MAPPINGS[kind][family])._supports_sdpa
        backends = {"padding_free": ("sdpa", "eager"), "dense": ("sdpa", "eager"), "flash": ("flash_attention_2",)}
        for column, names in backends.items():
            for backend in names if not row[column] else ():
                if able or backend != "sdpa":
                    yield pytest.param(kind, family, changes, column, backend, id=f"{family}-{column}-{backend}")


@pytest.mark.parametrize("kind, family, changes, column, backend", list(exact_forms()))
def test_each_sequence_gets_what_it_gets_alone(kind, family, changes, column, backend):
    form = "dense" if column == "dense" else "padding_free"
    assert difference(kind, family, form, backend, **changes) < 1e-10


@pytest.mark.parametrize("family", ["mistral", "gemma2", "llama4_text", "modernbert"])
def test_the_comparison_sees_a_lost_window(monkeypatch, family):
    kind, right = "masked" if family == "modernbert" else "causal", attention.allowed_pairs
    monkeypatch.setattr(attention, "allowed_pairs", lambda ids, *_: right(ids, kind == "causal"))
    assert difference(kind, family, "dense", "eager") > 1e-3


def test_the_table_has_every_family():
    found = [(kind, name) for kind, mapping in MAPPINGS.items() for name in mapping]
    assert list(table()) == found, f"run {TABLE.read_text().splitlines()[0]}"
    exact = [row for row in table().values() if not all(row[form] for form in (*FORMS, "flash"))]
    assert sum(not row["dense"] for row in exact) == 147
    assert [row["class"] for row in exact if row["dense"] and not row["kernels"]] == ONLY_FLASH
    for row in exact:  # what auto takes
        assert not row["dense"] or row["kernels"] or not row["flash"]


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("PACKLIB_ALL"), reason="make test-all compares all families")
def test_the_table_is_what_the_survey_finds():
    with open(TABLE, encoding="utf-8", newline="") as file:
        file.readline()
        assert list(csv.DictReader(file)) == list(form_survey.rows())


def a_model(own, kind, family, backend="sdpa", **changes):
    config = small_config(kind, family)
    for name, value in changes.items():
        setattr(config, name, value)
    model = own(config)
    model.config._attn_implementation = backend
    return model


LLAMA, BERT = (LlamaForCausalLM, "causal", "llama"), (BertForMaskedLM, "masked", "bert")
MIXTRAL = transformers.MixtralForCausalLM, "causal", "mixtral"


@pytest.mark.parametrize("model, backend, form", [
    (LLAMA, "sdpa", "dense"), (LLAMA, "flash_attention_2", "padding_free"),
    (BERT, "kernels-community/flash-attn2", "padding_free"),
])  # fmt: skip
def test_auto_takes_the_form_that_suits_the_backend(model, backend, form):
    assert Handover.of(a_model(*model, backend), "auto").form == form


def test_experts_that_balance_themselves_get_a_batch_without_a_mask_and_no_loss_of_packlib():
    model, batch = a_model(*MIXTRAL, output_router_logits=True), make_batch("causal")
    given = for_transformers(batch, model)
    assert "attention_mask" not in given and model(**given).aux_loss > 0
    with pytest.raises(ValueError, match="set output_router_logits of the model's configuration to False"):
        packed_output(model, batch)


def test_no_family_is_taken_that_is_not_exact():
    """The name of its class and its `model_type` are enough."""
    columns = *FORMS, "flash"
    refused = [(key, row) for key, row in table().items() if all(row[column] for column in columns)]
    assert len(refused) == 78
    for page in ("tools/rows/README.md", "USING.md"):
        assert f"{len(table()) - len(refused)} of" in (Path(packlib.__file__).parent / page).read_text(), page
    for (kind, family), row in refused:
        own = getattr(transformers, row["class"])
        model = object.__new__(type("Mine", (own,), {}))
        torch.nn.Module.__init__(model)
        model.config = SimpleNamespace(model_type=family, is_encoder_decoder=False, _attn_implementation="sdpa")
        with pytest.raises(TypeError, match="Mine cannot take packs") as raised:
            Handover.of(model, "dense")
        assert row["dense"] in str(raised.value) or (kind == "masked" and ("causal", family) in table()), family


def wrong_models():
    leak = "its tokens would attend to other sequences"
    yield "padding_free", leak, lambda: a_model(*BERT)
    yield "padding_free", leak, lambda: a_model(BertLMHeadModel, "causal", "bert", "eager")
    for form, backend, says in (
        ("dense", "flash_attention_2", "takes no mask of pairs"),
        ("padding_free", "flex_attention", "was not compared"),
        ("auto", "flex_attention", "takes no mask of pairs"),
    ):
        yield form, f"'{backend}' {says}", lambda backend=backend: a_model(*LLAMA, backend)
    yield "dense", "output_router_logits=True computes", lambda: a_model(*MIXTRAL, output_router_logits=True)
    gpt_oss = transformers.GptOssForCausalLM, "causal", "gpt_oss"
    yield "padding_free", "also for a sequence alone", lambda: a_model(*gpt_oss, "flash_attention_2")
    esm, big_bird = (EsmForMaskedLM, "masked", "esm"), (transformers.BigBirdForMaskedLM, "masked", "big_bird")
    yield "auto", "token_dropout=True computes from", lambda: a_model(*esm, "flash_attention_2", token_dropout=True)
    yield "auto", "it makes its mask its own way", lambda: a_model(*esm)
    yield "dense", "alibi=True computes from", lambda: a_model(FalconForCausalLM, "causal", "falcon", alibi=True)
    qwen = transformers.Qwen4ExpForCausalLM, "causal", "qwen4_exp_text"
    yield "auto", r"ple_layer_ids=\[2\] computes", lambda: a_model(*qwen, ple_layer_ids=[2], eos_token_id=1)
    yield "dense", "'original_full' does not", lambda: a_model(*big_bird, attention_type="block_sparse")
    yield "dense", "look ahead", lambda: a_model(BertLMHeadModel, "causal", "bert", is_decoder=False)
    yield "dense", "it carries a state", lambda: a_model(*LLAMA, layer_types=["conv"] * 4)
    yield "dense", "another head than", lambda: a_model(transformers.LlamaForSequenceClassification, "causal", "llama")
    t5 = transformers.T5Config(d_model=8, num_layers=1, num_heads=1, d_ff=8, d_kv=8, vocab_size=9)
    yield "dense", "it is an encoder-decoder model", lambda: transformers.T5ForConditionalGeneration(t5)
    yield "dense", "PackedBert, which takes a PackedBatch as it is", lambda: a_model(PackedBert, "masked", "bert")
    yield "dense", "unmodified, not Linear", lambda: torch.nn.Linear(1, 1)
    yield "sparse", "form must be", lambda: a_model(*LLAMA)
    brand_new = "'brand_new' is not among the models that were compared"
    yield "auto", brand_new, lambda: a_model(*LLAMA, model_type="brand_new")


@pytest.mark.parametrize("form, says, make", list(wrong_models()))
def test_what_cannot_be_exact_is_refused_with_the_reason(form, says, make):
    with quiet():
        model = make()
    with pytest.raises((TypeError, ValueError), match=says):
        for_transformers(make_batch("causal"), model, form)


def test_a_model_without_a_rule_for_a_layer_is_refused(monkeypatch):
    monkeypatch.setattr(unmodified, "create_masks_for_generate", lambda **_: {"full_attention": None})
    with pytest.raises(ValueError, match="makes its attention mask its own way"):
        for_transformers(make_batch("causal"), a_model(*LLAMA))


@pytest.mark.parametrize("model, form", [(LLAMA, "dense"), (LLAMA, "padding_free"), (BERT, "dense")])
def test_the_packed_output_has_the_predicted_tokens_in_the_order_of_the_slots(model, form):
    model, batch = a_model(*model).eval(), make_batch(model[1])
    output, given = packed_output(model, batch, form), for_transformers(batch, model, form)
    assert abs(output.loss - model(**given).loss) < 1e-6
    causal = isinstance(model, LlamaForCausalLM)
    labels = batch.input_ids if causal else batch.labels
    assert labels.flatten()[output.token_positions + causal].equal(output.token_labels)
    same = batch.segment_ids.flatten()[output.token_positions + causal]
    assert same.equal(batch.segment_ids.flatten()[output.token_positions]) and (same > 0).all()
    if not causal:
        assert packed_output(model, PackedBatch({**batch, "labels": None})).loss is None


def test_a_compiled_model_is_handed_packs_too():
    model, batch = a_model(*LLAMA).eval(), make_batch("causal")
    with torch.compiler.set_stance("force_eager"):
        assert packed_output(torch.compile(model), batch).loss == packed_output(model, batch).loss


@pytest.mark.parametrize("form", ["dense", "padding_free"])
def test_long_rope_goes_by_the_longest_sequence_and_not_by_the_rows(form):
    """In rows of 14 slots, sequences of 1 to 13."""
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    changes = {"rope_parameters": rope, "original_max_position_embeddings": 13}
    assert difference("causal", "phi3", form, "sdpa", **changes) < 1e-10
    with pytest.raises(
        ValueError, match="or only longer ones, not of 1 to 13: LongRoPE turns all by its long factors"
    ):
        difference("causal", "phi3", form, "sdpa", **changes | {"original_max_position_embeddings": 12})


def test_some_models_have_long_rope_in_some_layers():
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 12}
    config = small_config("causal", "phi3")
    config.rope_parameters = {"sliding_attention": None, "full_attention": rope}
    assert long_rope_limit(config) == 12


def test_no_position_beyond_the_table():
    batch = make_batch("causal")  # rows of 14 slots, sequences of 13 tokens
    for model in (
        GPT2LMHeadModel(small_config("causal", "gpt2", max_position_embeddings=12)),
        RobertaForMaskedLM(small_config("masked", "roberta", max_position_embeddings=14)),
    ):
        with pytest.raises(ValueError, match=r"The rows have 14 tokens; .* ends at 12\."):
            for_transformers(batch, model, "dense")
        model.config._attn_implementation = "flash_attention_2"
        with pytest.raises(ValueError, match=r"A sequence has 13 tokens; .* ends at 12\."):
            for_transformers(batch, model)


def test_a_model_gets_only_what_it_reads():
    batch = make_batch("masked")
    given = for_transformers(batch, a_model(*BERT))
    assert set(given) == {"input_ids", "position_ids", "token_type_ids", "labels", "attention_mask"}
    assert given["labels"].equal(batch.labels), "the first token may be one that a masked model predicts"
    assert for_transformers(make_batch("causal"), a_model(*LLAMA))["use_cache"] is False
