"""Packs in unmodified models: exact in the forms that the table says, refused with the reason in the others."""

import csv
import os
from types import SimpleNamespace

import form_survey
import pytest
import torch
import transformers
from form_survey import difference
from small_families import MAPPINGS, make_batch, quiet, small_config
from transformers import (
    BertForMaskedLM,
    BertLMHeadModel,
    EsmForMaskedLM,
    FalconForCausalLM,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    RobertaForMaskedLM,
)

from packlib.batches import PackedBatch
from packlib.model import PackedBert, attention, for_transformers, packed_output, unmodified
from packlib.model.forms import FORMS, TABLE, table
from packlib.model.unmodified import Handover, long_rope_limit

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
def test_a_hybrid_begins_its_state_anew_where_seq_idx_says_and_nowhere_else(family, monkeypatch):
    assert difference("causal", family, "auto", "sdpa") < 1e-10
    right = Handover.__call__

    def one_sequence(self, batch):
        given = right(self, batch)
        given["seq_idx"] = torch.zeros_like(given["seq_idx"])
        return given

    monkeypatch.setattr(Handover, "__call__", one_sequence)
    assert difference("causal", family, "auto", "sdpa") > 1e-3


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


@pytest.mark.parametrize("lost, family, form", [
    ("labels", "llama", "dense"), ("labels", "llama", "padding_free"), ("position_ids", "gpt2", "dense"),
    ("position_ids", "llama", "padding_free"), ("position_ids", "roberta", "dense"),
])  # fmt: skip
def test_the_comparison_sees_labels_and_positions_that_run_on(monkeypatch, lost, family, form):
    right = Handover.__call__
    kind = "masked" if family == "roberta" else "causal"

    def wrong(self, batch):
        given = right(self, batch)
        run_on = (torch.arange(given["input_ids"].shape[1]) % 17).expand_as(given["input_ids"])
        return given | {lost: given["input_ids"] if lost == "labels" else run_on}

    monkeypatch.setattr(Handover, "__call__", wrong)
    try:
        assert difference(kind, family, form, "sdpa") > 1e-3
    except RuntimeError as error:
        assert lost == "labels" and "size" in str(error)  # other tokens have labels then


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


def test_a_padding_free_batch_is_one_row_with_bounds():
    model = LlamaForCausalLM(small_config("causal", "llama"))
    ids, segments = torch.tensor([[5, 6, 7, 8, 0], [9, 4, 3, 2, 1]]), torch.tensor([[1, 1, 2, 2, 0], [1, 2, 2, 2, 2]])
    given = for_transformers(PackedBatch(input_ids=ids, segment_ids=segments), model, "padding_free")
    assert {name: value.tolist() for name, value in given.items() if isinstance(value, torch.Tensor)} == {
        "input_ids": [[5, 6, 7, 8, 9, 4, 3, 2, 1]],
        "position_ids": [[0, 1, 0, 1, 0, 0, 1, 2, 3]],
        "labels": [[-100, 6, -100, 8, -100, -100, 3, 2, 1]],
        "cu_seq_lens_q": [0, 2, 4, 5, 9],
        "cu_seq_lens_k": [0, 2, 4, 5, 9],
    }
    assert given["cu_seq_lens_q"].dtype == torch.int32
    assert (given["max_length_q"], given["max_length_k"], given["use_cache"]) == (4, 4, False)


@pytest.mark.parametrize("backend, dtype", [("sdpa", torch.bool), ("eager", torch.float64)])
def test_a_dense_batch_has_a_mask_for_each_kind_of_layer(backend, dtype):
    batch = make_batch("causal")
    for family, kinds in {"llama": None, "gemma2": {"full_attention", "sliding_attention"}}.items():
        config = small_config("causal", family)
        model = getattr(transformers, MAPPINGS["causal"][family])(config).double()
        model.config._attn_implementation = backend
        masks = for_transformers(batch, model, "dense")["attention_mask"]
        assert (set(masks) if kinds else None) == kinds
        for mask in masks.values() if kinds else [masks]:
            assert mask.shape == (3, 1, 14, 14) and mask.dtype == dtype


def test_auto_takes_the_form_that_suits_the_backend():
    for own, family, backend, form in [
        (LlamaForCausalLM, "llama", "sdpa", "dense"),
        (LlamaForCausalLM, "llama", "flash_attention_2", "padding_free"),
        (BertForMaskedLM, "bert", "kernels-community/flash-attn2", "padding_free"),
    ]:
        model = own(small_config("masked" if family == "bert" else "causal", family))
        model.config._attn_implementation = backend
        assert Handover.of(model, "auto").form == form


def test_experts_that_balance_themselves_get_a_batch_without_a_mask():
    model = transformers.MixtralForCausalLM(small_config("causal", "mixtral", output_router_logits=True))
    given = for_transformers(make_batch("causal"), model)
    assert "attention_mask" not in given and model(**given).aux_loss > 0


def a_model(own, kind, family, backend="sdpa", **changes):
    config = small_config(kind, family)
    for name, value in changes.items():
        setattr(config, name, value)
    model = own(config)
    model.config._attn_implementation = backend
    return model


def test_no_family_is_taken_that_is_not_exact():
    """The name of its class and its `model_type` are enough."""
    columns = *FORMS, "flash"
    refused = [(key, row) for key, row in table().items() if all(row[column] for column in columns)]
    assert len(refused) == 78
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
    llama, bert = (LlamaForCausalLM, "causal", "llama"), (BertForMaskedLM, "masked", "bert")
    yield "padding_free", leak, lambda: a_model(*bert)
    yield "padding_free", leak, lambda: a_model(BertLMHeadModel, "causal", "bert", "eager")
    for form, backend, says in (
        ("dense", "flash_attention_2", "takes no mask of pairs"),
        ("padding_free", "flex_attention", "was not compared"),
        ("auto", "flex_attention", "takes no mask of pairs"),
    ):
        yield form, f"'{backend}' {says}", lambda backend=backend: a_model(*llama, backend)
    mixtral = transformers.MixtralForCausalLM, "causal", "mixtral"
    yield "dense", "output_router_logits=True computes", lambda: a_model(*mixtral, output_router_logits=True)
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
    yield "dense", "it carries a state", lambda: a_model(*llama, layer_types=["conv"] * 4)
    yield "dense", "another head than", lambda: a_model(transformers.LlamaForSequenceClassification, "causal", "llama")
    t5 = transformers.T5Config(d_model=8, num_layers=1, num_heads=1, d_ff=8, d_kv=8, vocab_size=9)
    yield "dense", "it is an encoder-decoder model", lambda: transformers.T5ForConditionalGeneration(t5)
    yield "dense", "PackedBert, which takes a PackedBatch as it is", lambda: a_model(PackedBert, "masked", "bert")
    yield "dense", "unmodified, not Linear", lambda: torch.nn.Linear(1, 1)
    yield "sparse", "form must be", lambda: a_model(*llama)


@pytest.mark.parametrize("form, says, make", list(wrong_models()))
def test_what_cannot_be_exact_is_refused_with_the_reason(form, says, make):
    with quiet():
        model = make()
    with pytest.raises((TypeError, ValueError), match=says):
        for_transformers(make_batch("causal"), model, form)


def test_a_family_that_nobody_compared_is_refused():
    class NewConfig(LlamaConfig):
        model_type = "brand_new"

    class New(LlamaForCausalLM):
        config_class = NewConfig

    small = NewConfig(vocab_size=64, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    with pytest.raises(TypeError, match="'brand_new' is not among the models that were compared"):
        for_transformers(make_batch("causal"), New(small))


def test_a_model_without_a_rule_for_a_layer_is_refused(monkeypatch):
    monkeypatch.setattr(unmodified, "create_masks_for_generate", lambda **_: {"full_attention": None})
    with pytest.raises(ValueError, match="makes its attention mask its own way"):
        for_transformers(make_batch("causal"), a_model(LlamaForCausalLM, "causal", "llama"))


@pytest.mark.parametrize("kind, family, form", [
    ("causal", "llama", "dense"), ("causal", "llama", "padding_free"), ("masked", "roberta", "dense"),
])  # fmt: skip
def test_the_packed_output_has_the_predicted_tokens_in_the_order_of_the_slots(kind, family, form):
    torch.manual_seed(0)
    model = getattr(transformers, MAPPINGS[kind][family])(small_config(kind, family)).eval()
    batch = make_batch(kind)
    output, given = packed_output(model, batch, form), for_transformers(batch, model, form)
    assert abs(output.loss - model(**given).loss) < 1e-6
    shift = int(kind == "causal")
    labels = batch.input_ids if kind == "causal" else batch.labels
    assert labels.flatten()[output.token_positions + shift].equal(output.token_labels)
    same = batch.segment_ids.flatten()[output.token_positions + shift]
    assert same.equal(batch.segment_ids.flatten()[output.token_positions]) and (same > 0).all()
    if kind == "masked":
        assert packed_output(model, PackedBatch({**batch, "labels": None})).loss is None


def test_a_compiled_model_is_handed_packs_too():
    model, batch = GPT2LMHeadModel(small_config("causal", "gpt2")).eval(), make_batch("causal")
    compiled = torch.compile(model, backend="eager")
    assert torch.equal(packed_output(compiled, batch).token_logits, packed_output(model, batch).token_logits)


def test_the_loss_that_balances_experts_is_refused():
    model = transformers.MixtralForCausalLM(small_config("causal", "mixtral", output_router_logits=True))
    with pytest.raises(ValueError, match="set output_router_logits of the model's configuration to False"):
        packed_output(model, make_batch("causal"))


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


def test_the_first_token_may_be_the_one_that_a_masked_model_predicts():
    model = BertForMaskedLM(small_config("masked", "bert"))
    batch = make_batch("masked")
    assert for_transformers(batch, model)["labels"].equal(batch.labels)


def test_a_model_without_a_cache_is_not_told_of_one():
    given = for_transformers(make_batch("masked"), BertForMaskedLM(small_config("masked", "bert")))
    assert set(given) == {"input_ids", "position_ids", "token_type_ids", "labels", "attention_mask"}
    wide = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    assert for_transformers(make_batch("causal"), wide)["use_cache"] is False
