"""Packs in unmodified models: exact in the forms that the table says, refused with the reason in the others."""

import csv
import os
import pickle

import form_survey
import numpy as np
import pytest
import torch
import transformers
from form_survey import difference
from model_survey import make_batch, quiet, small_config
from transformers import (
    BertForMaskedLM,
    BertLMHeadModel,
    EsmForMaskedLM,
    FalconForCausalLM,
    GemmaForCausalLM,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaForCausalLM,
    RobertaForMaskedLM,
)

from packlib.batches import IGNORED, PackedBatch
from packlib.model import Causal, attention
from packlib.model.families import families
from packlib.rows import TransformersCollator, for_transformers, pack_dataset
from packlib.rows import collator as forms

NAMED = [
    ("causal", "llama", {}),
    ("causal", "gpt2", {}),
    ("causal", "mistral", {}),
    ("causal", "qwen2", {}),
    ("causal", "qwen2", {"use_sliding_window": False, "layer_types": None}),
    ("causal", "gemma2", {}),
    ("causal", "gemma3_text", {}),
    ("causal", "mixtral", {}),
    ("causal", "llama4_text", {}),  # chunks of a sequence
    ("causal", "opt", {}),
    ("causal", "gpt_oss", {}),
    ("masked", "bert", {}),
    ("masked", "roberta", {}),
    ("masked", "modernbert", {}),
]


def exact_forms():
    for kind, family, changes in NAMED:
        row = forms.table()[kind, family]
        able = getattr(transformers, form_survey.MAPPINGS[kind][family])._supports_sdpa
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
    right = forms._Form.__call__
    kind = "masked" if family == "roberta" else "causal"

    def wrong(self, batch):
        given = right(self, batch)
        run_on = (torch.arange(given["input_ids"].shape[1]) % 17).expand_as(given["input_ids"])
        return given | {lost: given["input_ids"] if lost == "labels" else run_on}

    monkeypatch.setattr(forms._Form, "__call__", wrong)
    try:
        assert difference(kind, family, form, "sdpa") > 1e-3
    except RuntimeError as error:
        assert lost == "labels" and "size" in str(error)  # other tokens have labels then


def test_the_table_has_every_family_that_packs_leave_as_it_is():
    exact = [key for key, row in families().items() if row["result"] == "exact"]
    assert list(forms.table()) == exact, f"run {forms.TABLE.read_text().splitlines()[0]}"


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("PACKLIB_ALL"), reason="make test-all compares all families")
def test_the_table_is_what_the_survey_finds():
    with open(forms.TABLE, encoding="utf-8", newline="") as file:
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
        model = getattr(transformers, form_survey.MAPPINGS["causal"][family])(config).double()
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
        assert TransformersCollator(model).form.form == form


def wrong_models():
    def model(own, family, backend="sdpa", kind="causal", **changes):
        made = own(small_config(kind, family, **changes))
        made.config._attn_implementation = backend
        return made

    packed = type("Mine", (Causal, LlamaForCausalLM), {})(small_config("causal", "llama"))
    state, leak = "it carries a state from token to token", "its tokens would attend to other sequences"
    yield "dense", state, lambda: MambaForCausalLM(transformers.MambaConfig(hidden_size=8, num_hidden_layers=1))
    yield "padding_free", leak, lambda: model(BertForMaskedLM, "bert", kind="masked")
    yield "padding_free", leak, lambda: model(BertLMHeadModel, "bert", "eager")
    for form, backend, says in (
        ("dense", "flash_attention_2", "takes no mask of pairs"),
        ("padding_free", "flex_attention", "was not compared"),
        ("auto", "flex_attention", "was not compared"),
    ):
        yield form, f"'{backend}' {says}", lambda backend=backend: model(LlamaForCausalLM, "llama", backend)
    yield (
        "padding_free",
        "also for a sequence alone",
        lambda: model(transformers.GptOssForCausalLM, "gpt_oss", "flash_attention_2"),
    )
    yield (
        "auto",
        "token_dropout=True computes from whole rows",
        lambda: model(EsmForMaskedLM, "esm", "flash_attention_2", "masked", token_dropout=True),
    )
    yield "dense", "alibi=True computes from whole rows", lambda: model(FalconForCausalLM, "falcon", alibi=True)
    yield "dense", "another head than", lambda: model(transformers.LlamaForSequenceClassification, "llama")
    yield "dense", "unmodified, not Mine, which takes a PackedBatch as it is", lambda: packed
    yield "dense", "unmodified, not Linear", lambda: torch.nn.Linear(1, 1)
    yield "sparse", "form must be", lambda: model(LlamaForCausalLM, "llama")


@pytest.mark.parametrize("form, says, make", list(wrong_models()))
def test_what_cannot_be_exact_is_refused_with_the_reason(form, says, make):
    with quiet():
        model = make()
    with pytest.raises((TypeError, ValueError), match=says):
        TransformersCollator(model, form)


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


ROWS = [
    {"input_ids": [5, 6, 7, 8], "labels": [5, -100, -100, 8], "position_ids": [0, 1, 0, 1], "seq_lengths": [2, 2]},
    {"input_ids": [9, 4, 3], "labels": [9, 4, 3], "position_ids": [0, 1, 2], "seq_lengths": [3]},
]


@pytest.mark.parametrize("kept", [("seq_lengths",), ("position_ids",), ("seq_lengths", "position_ids")])
def test_the_collator_finds_the_sequences_of_rows(kept):
    model = LlamaForCausalLM(small_config("causal", "llama"))
    rows = [{name: row[name] for name in ("input_ids", "labels", *kept)} for row in ROWS]
    collator = pickle.loads(pickle.dumps(TransformersCollator(model, pad_id=2)))  # as workers get it
    given = collator([{**row, "source": ["a"] * number} for row, number in zip(rows, (2, 1), strict=True)])
    assert given["input_ids"].tolist() == [[5, 6, 7, 8], [9, 4, 3, 2]]
    assert given["labels"].tolist() == [[-100, -100, -100, 8], [-100, 4, 3, -100]]
    assert given["position_ids"].tolist() == [[0, 1, 0, 1], [0, 1, 2, 0]]
    assert given["attention_mask"][0, 0].tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]


@pytest.mark.parametrize("says, row", [
    ("neither seq_lengths nor position_ids", {"input_ids": [1, 2]}),
    ("add up to 3; it has 2 input_ids", {"input_ids": [1, 2], "seq_lengths": [3]}),
    ("must count from 0", {"input_ids": [1, 2], "position_ids": [0, 2]}),
    ("must count from 0", {"input_ids": [1, 2], "position_ids": [1, 2]}),
    ("the column 'loss_mask', which no model reads", {"input_ids": [1, 2], "seq_lengths": [2], "loss_mask": [1, 0]}),
    ("There are 1 labels for 2 tokens", {"input_ids": [1, 2], "seq_lengths": [2], "labels": [0]}),
])  # fmt: skip
def test_rows_that_hide_their_sequences_or_carry_more_are_refused(says, row):
    with pytest.raises(ValueError, match=says):
        TransformersCollator(LlamaForCausalLM(small_config("causal", "llama")))([row])


def test_a_masked_model_does_not_take_the_labels_of_a_causal_one():
    rng = np.random.default_rng(0)
    rows = [{"input_ids": rng.integers(5, 60, n).tolist()} for n in (5, 3, 4)]
    collator = TransformersCollator(BertForMaskedLM(small_config("masked", "bert")))
    with pytest.raises(ValueError, match="a masked one needs pack_dataset"):
        collator(list(pack_dataset(rows, 8, progress=False)))
    assert "labels" not in collator(list(pack_dataset(rows, 8, labels=False, progress=False)))
    labeled = [{**row, "labels": [IGNORED, *row["input_ids"][1:]]} for row in rows[:1]]
    labeled[0]["labels"][2] = IGNORED
    assert "labels" in collator(list(pack_dataset(labeled, 8, progress=False)))


def test_the_first_token_may_be_the_one_that_a_masked_model_predicts():
    model = BertForMaskedLM(small_config("masked", "bert"))
    batch = make_batch("masked")
    assert for_transformers(batch, model)["labels"].equal(batch.labels)


def test_a_model_without_a_cache_is_not_told_of_one():
    given = for_transformers(make_batch("masked"), BertForMaskedLM(small_config("masked", "bert")))
    assert set(given) == {"input_ids", "position_ids", "token_type_ids", "labels", "attention_mask"}
    wide = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    assert for_transformers(make_batch("causal"), wide)["use_cache"] is False


def test_gemma_reads_all_its_arguments():
    """No argument is lost on the way: what is given is what `forward` names, or hands down to its layers."""
    model = GemmaForCausalLM(small_config("causal", "gemma"))
    given = for_transformers(make_batch("causal"), model, "padding_free")
    assert {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"} <= set(given)
