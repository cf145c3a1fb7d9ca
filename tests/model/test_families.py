"""Other people's models in packs: exact, or refused when the class is made, for every family of transformers."""

import csv
import os

import pytest
import torch
import transformers
from model_survey import MAPPINGS, differences, make_batch, quiet, rows, small_config
from transformers import (
    BertForMaskedLM,
    BigBirdForCausalLM,
    BigBirdForMaskedLM,
    DebertaV2ForMaskedLM,
    FNetForMaskedLM,
    Gemma2ForCausalLM,
    InklingForCausalLM,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaForCausalLM,
    MistralForCausalLM,
    MixtralForCausalLM,
    Qwen3NextForCausalLM,
    RobertaForMaskedLM,
    T5ForConditionalGeneration,
    XLMWithLMHeadModel,
    XLNetLMHeadModel,
)
from transformers.models.bloom import modeling_bloom
from transformers.models.falcon import modeling_falcon

from packlib.model import Causal, Masked, attention, packed
from packlib.model.families import TABLE, families, long_rope_limit
from packlib.model.own_masks import padding_mask

NAMED = [
    ("masked", "bert", {}),
    ("masked", "roberta", {}),
    ("masked", "modernbert", {}),
    ("causal", "gpt2", {}),
    ("causal", "gpt_neox", {}),
    ("causal", "gpt_neox", {"is_decoder": False}),  # its default, which it never reads
    ("causal", "opt", {}),
    ("causal", "llama", {}),
    ("causal", "qwen2", {}),
    ("causal", "qwen2", {"use_sliding_window": False, "layer_types": None}),
    ("causal", "qwen3", {}),
    ("causal", "mistral", {}),
    ("causal", "phi3", {}),
    ("causal", "gemma2", {}),
    ("causal", "gemma3_text", {}),
    ("causal", "mixtral", {}),
    ("causal", "llama4_text", {}),  # chunks of a sequence, counted from its first token
    ("causal", "deepseek_v32", {}),  # it picks keys only where its attention is named sdpa or eager
    ("causal", "openai-gpt", {}),
    ("causal", "xlm", {}),
    ("causal", "xlnet", {}),
    ("masked", "deberta", {}),
    ("masked", "deberta", {"relative_attention": False, "legacy": False}),
    ("masked", "deberta-v2", {}),
    ("masked", "deberta-v2", {"share_att_key": True, "position_biased_input": False, "legacy": False}),
    ("masked", "flaubert", {}),
    ("masked", "layoutlm", {}),
    ("masked", "longformer", {}),
    ("masked", "xlm", {}),
    ("masked", "xlm", {"causal": True}),  # it looks back only, whatever it predicts
    ("causal", "falcon", {"alibi": True}),
    ("masked", "esm", {"token_dropout": True, "mask_token_id": 27}),
    ("masked", "esm", {"token_dropout": True, "mask_token_id": 27, "position_embedding_type": "rotary"}),
]


def compare(kind, model_type, changes, **options):
    own = getattr(transformers, MAPPINGS[kind][model_type])
    with quiet():
        return differences(kind, own, small_config(kind, model_type, **changes), **options)


@pytest.mark.parametrize("kind, model_type, changes", NAMED, ids=lambda value: str(value) if value else "")
def test_packed_equals_each_sequence_alone(kind, model_type, changes):
    for what, difference in compare(kind, model_type, changes).items():
        assert difference < 1e-10, what


@pytest.mark.parametrize("kind, model_type", [
    ("masked", "modernbert"), ("causal", "mistral"), ("causal", "gemma3_text"), ("causal", "opt"),
])  # fmt: skip
def test_windows_are_kept_by_every_backend(kind, model_type):
    assert max(compare(kind, model_type, {}, backend="eager").values()) < 1e-10
    assert max(compare(kind, model_type, {}, backend="flex").values()) < 1e-10


@pytest.mark.parametrize("model_type", ["modernbert", "qwen2", "mistral", "phi3", "gemma2", "gemma3_text", "mixtral"])
def test_the_comparison_sees_a_lost_window(monkeypatch, model_type):
    kind, right = "masked" if model_type == "modernbert" else "causal", attention.allowed_pairs
    monkeypatch.setattr(attention, "allowed_pairs", lambda ids, *_: right(ids, kind == "causal"))
    assert compare(kind, model_type, {})["logits"] > 1e-3


def test_the_table_has_every_family_and_none_is_unexplained():
    found = {(kind, name) for kind, mapping in MAPPINGS.items() for name in mapping}
    assert found == families().keys(), f"run {TABLE.read_text().splitlines()[0]}"
    for row in families().values():
        assert row["result"] in ("exact", "refused", "not tried")
        assert bool(row["reason"]) == (row["result"] != "exact")


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("PACKLIB_ALL"), reason="make test-all compares all families")
def test_the_table_is_what_the_survey_finds():
    with open(TABLE, encoding="utf-8", newline="") as file:
        file.readline()
        assert list(csv.reader(file))[1:] == [list(row) for row in rows()]


def in_packs(kind, own):
    return type("Mine", (Causal if kind == "causal" else Masked, own), {})


@pytest.mark.parametrize("own, reason", [
    (MambaForCausalLM, "it carries a state from token to token"),
    (Qwen3NextForCausalLM, "it carries a state from token to token"),
    (InklingForCausalLM, "it convolves over neighboring tokens"),
    (Lfm2ForCausalLM, "it convolves over neighboring tokens"),
])  # fmt: skip
def test_a_model_that_packs_would_change_is_refused_when_the_class_is_made(own, reason):
    with pytest.raises(TypeError, match=f"Mine cannot be packed: {reason}"):
        in_packs("causal", own)


def test_a_family_that_nobody_compared_is_refused():
    class NewConfig(LlamaConfig):
        model_type = "brand_new"

    class New(LlamaForCausalLM):
        config_class = NewConfig

    with pytest.raises(TypeError, match="'brand_new' is not among the causal models that were compared"):
        in_packs("causal", New)
    with pytest.raises(TypeError, match="'llama' is not among the masked models"):
        in_packs("masked", LlamaForCausalLM)
    with pytest.raises(TypeError, match="it is an encoder-decoder model, and a pack holds no second text"):
        in_packs("masked", T5ForConditionalGeneration)


@pytest.mark.parametrize("kind, model_type, own, changes, reason", [
    ("masked", "deberta-v2", DebertaV2ForMaskedLM, {"conv_kernel_size": 3}, "convolves over neighboring tokens"),
    ("causal", "xlm", XLMWithLMHeadModel, {"causal": False}, "causal=False lets its tokens look ahead"),
    ("causal", "xlnet", XLNetLMHeadModel, {"attn_type": "bi"}, "attn_type='bi' lets its tokens look ahead"),
    ("causal", "xlnet", XLNetLMHeadModel, {"bi_data": True}, "bi_data=True reads half of the packs backward"),
    ("masked", "big_bird", BigBirdForMaskedLM, {"attention_type": "block_sparse"}, "'original_full' can be packed"),
    ("causal", "big_bird", BigBirdForCausalLM, {"attention_type": "block_sparse"}, "'original_full' can be packed"),
    ("causal", "llama", LlamaForCausalLM, {"layer_types": ["conv"] * 4}, "it carries a state"),
])  # fmt: skip
def test_a_setting_that_packs_would_change_is_refused_when_the_model_is_built(kind, model_type, own, changes, reason):
    config = small_config(kind, model_type)
    for name, value in changes.items():
        setattr(config, name, value)
    with pytest.raises(TypeError, match=reason):
        in_packs(kind, own)(config)


def test_a_model_that_makes_its_mask_its_own_way_never_runs(monkeypatch):
    """Should the table be wrong about a family, the run still says so."""
    monkeypatch.setattr(packed, "check_family", lambda *_: None)
    model = in_packs("masked", FNetForMaskedLM)(small_config("masked", "fnet"))
    with pytest.raises(ValueError, match="makes its attention mask its own way"):
        model(**make_batch("masked"))


@pytest.mark.parametrize("kind, model_type, changes", [
    ("masked", "deberta", {}), ("masked", "layoutlm", {}), ("masked", "longformer", {}), ("masked", "esm", {}),
    ("masked", "esm", {"token_dropout": True, "mask_token_id": 27}), ("causal", "falcon", {"alibi": True}),
])  # fmt: skip
def test_a_layer_that_is_computed_again_keeps_sequences_apart_or_stops(kind, model_type, changes):
    own = getattr(transformers, MAPPINGS[kind][model_type])
    torch.manual_seed(0)
    with quiet():
        model, batch = (in_packs(kind, own)(small_config(kind, model_type, **changes)).double(), make_batch(kind))
        model(**batch).loss.backward()
        expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        model.gradient_checkpointing_enable()
        loss = model.train()(**batch).loss
        if model_type == "longformer":
            with pytest.raises(ValueError, match=r"LongformerSelfAttention .* as gradient checkpointing does"):
                loss.backward()
            return
        loss.backward()
    for name, gradient in expected.items():
        assert (model.get_parameter(name).grad - gradient).abs().max() < 1e-10, name


@pytest.mark.parametrize("family, modeling", [("bloom", modeling_bloom), ("falcon", modeling_falcon)])
def test_alibi_is_rounded_as_it_is_for_a_sequence_alone(family, modeling):
    segment_ids = torch.tensor([[1] * 300 + [2] * 600 + [3] + [4] * 90 + [0] * 9])
    packed = modeling.build_alibi_tensor(padding_mask(family, segment_ids), 4, torch.bfloat16)
    for segment in range(1, 5):
        here = segment_ids[0] == segment
        ones = torch.ones(1, int(here.sum()), dtype=torch.int64)
        assert packed[..., here].equal(modeling.build_alibi_tensor(ones, 4, torch.bfloat16))


@pytest.mark.parametrize("name, value, allowed", [
    ("input_ids", 64, "0 to 63"), ("input_ids", -1, "0 to 63"), ("labels", 64, "-100 to 63"),
])  # fmt: skip
def test_a_token_outside_the_vocabulary_is_named(name, value, allowed):
    model, batch = in_packs("masked", BertForMaskedLM)(small_config("masked", "bert")), make_batch("masked")
    batch[name][1, 3] = value
    with pytest.raises(ValueError, match=f"^{name} must be from {allowed}, not {value}.$"):
        model(**batch)


def test_what_a_backend_cannot_do_exactly_it_refuses(monkeypatch):
    batch = make_batch("causal")
    for backend, reason in {"sdpa": "has its own attention", "flex": "knows no softcap"}.items():
        model = in_packs("causal", Gemma2ForCausalLM)(small_config("causal", "gemma2"), backend=backend)
        with torch.no_grad(), pytest.raises(ValueError, match=reason):
            model(**batch)
    monkeypatch.setattr(attention, "_refusal", lambda *_: None)  # as on a GPU
    model = in_packs("causal", MistralForCausalLM)(small_config("causal", "mistral"), backend="varlen")
    with pytest.raises(ValueError, match="varlen backend knows no windows"):
        model(**batch)
    model.backend = "auto"
    assert model(**batch).loss.isfinite() and model.config._attn_implementation == "packlib_sdpa"


def long_rope(limit):
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    return {"rope_parameters": rope, "original_max_position_embeddings": limit}


def test_long_rope_goes_by_the_longest_sequence_and_not_by_the_rows(monkeypatch):
    """In rows of 14 slots, sequences of 1 to 13."""
    assert max(compare("causal", "phi3", long_rope(13)).values()) < 1e-10
    with pytest.raises(ValueError, match=r"at most 12 tokens \(original_max_.*, or only longer ones, not of 1 to 13"):
        compare("causal", "phi3", long_rope(12))
    by_layer = small_config("causal", "phi3", **long_rope(12))
    by_layer.rope_parameters = {"sliding_attention": None, "full_attention": by_layer.rope_parameters}
    assert long_rope_limit(by_layer) == 12
    monkeypatch.setattr(packed, "check_long_rope", lambda *_: None)
    assert max(compare("causal", "phi3", long_rope(12)).values()) > 1e-3, "it would have been wrong"


def test_positions_of_roberta_begin_after_padding():
    model = in_packs("masked", RobertaForMaskedLM)(small_config("masked", "roberta", max_position_embeddings=15))
    with pytest.raises(ValueError, match="The packs have 14 slots; the model's position table ends at 13"):
        model(**make_batch("masked"))


def test_the_loss_that_balances_experts_is_that_of_the_padded_batch():
    """It depends on which sequences share the batch: packed or padded, all their tokens are counted alike."""
    torch.manual_seed(0)
    config = small_config("causal", "mixtral", output_router_logits=True)
    model = in_packs("causal", MixtralForCausalLM)(config).double().eval()
    batch, plain = make_batch("causal"), MixtralForCausalLM(config).double().eval()
    plain.load_state_dict(model.state_dict())
    own = batch.segment_ids.flatten() + 10 * torch.arange(3).repeat_interleave(14)
    pieces = [batch.input_ids.flatten()[own == n] for n in own[batch.segment_ids.flatten() > 0].unique()]
    ids = torch.nn.utils.rnn.pad_sequence(pieces, batch_first=True)
    padded = plain(ids, attention_mask=(ids > 0).long(), labels=ids.where(ids > 0, -100), use_cache=False)
    output = model(**batch)
    assert abs(output.aux_loss - padded.aux_loss) < 1e-6  # transformers counts in float32
    assert abs(output.loss - padded.loss) < 1e-6
    alone = [plain(piece[None], use_cache=False).aux_loss for piece in pieces]
    assert abs(output.aux_loss - sum(alone) / len(alone)) > 1e-3


def make_wrong_classes():
    yield "another head than", lambda: type("P", (Causal, transformers.LlamaForTokenClassification), {})
    yield "another head than", lambda: type("P", (Causal, transformers.BertForMaskedLM), {})
    yield "another head than", lambda: type("P", (Masked, transformers.BertLMHeadModel), {})
    yield "another head than", lambda: type("P", (Masked, transformers.RobertaForSequenceClassification), {})
    yield "bases in this order: Causal", lambda: type("P", (transformers.LlamaForCausalLM, Causal), {})
    tiny = transformers.BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    yield "look ahead", lambda: type("P", (Causal, transformers.BertLMHeadModel), {})(tiny)


@pytest.mark.parametrize("says, make", make_wrong_classes())
def test_a_class_with_another_head_or_order_is_refused(says, make):
    with pytest.raises(TypeError, match=says):
        make()
