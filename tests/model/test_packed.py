"""Packed models as parts of transformers: checkpoints, Trainer, gradient checkpointing; and bad input."""

import pytest
import torch
from model_cases import MAX_LENGTH, bert_config, make_batch, make_model, masking, store
from transformers import BertForPreTraining, GPT2LMHeadModel, Trainer, TrainingArguments

from packlib.batches import IGNORED, PackDataset, PackedBatch, PackingCollator, pack_lengths
from packlib.model import PackedBert, PackedCausal
from packlib.model.packed import next_tokens


@pytest.mark.parametrize("kind, packed, plain", [
    ("bert", PackedBert, BertForPreTraining), ("causal", PackedCausal, GPT2LMHeadModel),
])  # fmt: skip
def test_checkpoints_go_both_ways_unchanged(tmp_path, kind, packed, plain):
    model, batch = make_model(kind, torch.float32), make_batch(masked=kind == "bert")
    model.save_pretrained(tmp_path / "packed")
    theirs = plain.from_pretrained(tmp_path / "packed")
    theirs.save_pretrained(tmp_path / "plain")
    ours = packed.from_pretrained(tmp_path / "plain", backend="eager", reduction="sequence")
    assert (ours.backend, ours.reduction) == ("eager", "sequence")
    for other in (theirs, ours):
        assert other.state_dict().keys() == model.state_dict().keys()
        assert all(
            torch.equal(a, b) for a, b in zip(other.state_dict().values(), model.state_dict().values(), strict=True)
        )
    again = packed.from_pretrained(tmp_path / "packed")
    with torch.no_grad():
        assert torch.equal(again.eval()(**batch).token_logits, model.eval()(**batch).token_logits)


def test_a_plain_trainer_trains_on_packs_and_saves_them(tmp_path):
    packs = pack_lengths(store().lengths, MAX_LENGTH)
    data, collator = PackDataset(store(), packs), PackingCollator(MAX_LENGTH, masking())
    model = make_model("bert", torch.float32)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    arguments = TrainingArguments(
        output_dir=tmp_path, per_device_train_batch_size=8, max_steps=3, save_steps=3, learning_rate=1e-3,
        lr_scheduler_type="constant", logging_steps=1, disable_tqdm=True, report_to=[], use_cpu=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, data_collator=collator, train_dataset=data)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert trainer.state.global_step == 3 and len(losses) == 3 and losses[-1] < losses[0] < 12
    assert all((p != before[name]).any() for name, p in model.named_parameters() if "position" not in name)
    saved = PackedBert.from_pretrained(tmp_path / "checkpoint-3")
    assert all(
        torch.equal(a, b) for a, b in zip(saved.state_dict().values(), model.state_dict().values(), strict=True)
    )


@pytest.mark.slow
def test_static_shapes_compile_to_one_graph():
    graphs = []

    def counting(graph, _):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    model = make_model("bert", max_predictions_per_pack=24).eval()
    compiled = torch.compile(model, backend=counting, fullgraph=True, dynamic=False)
    with torch.no_grad():
        for depth in (8, 3, None):
            batch = make_batch(depth, max_sequences_per_pack=12, max_predictions_per_pack=24)
            expected = model(**batch)
            output = compiled(**batch)
            assert (output.token_logits - expected.token_logits).abs().max() < 1e-10
            assert abs(output.loss - expected.loss) < 1e-10
    assert len(graphs) == 1
    with torch.no_grad(), pytest.raises(RuntimeError):  # too many masked tokens: loud when compiled, too
        compiled(**{**batch, "labels": torch.ones_like(batch.input_ids)})


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_recomputation_gives_the_same_gradients(kind):
    model, batch = make_model(kind), make_batch(masked=kind == "bert", packs=3)
    gradients = []
    for recompute in (False, True):
        model.zero_grad()
        if recompute:
            model.train()
            enable = getattr(model, "activation_checkpointing_enable", None)  # since transformers 5.20
            (enable or model.gradient_checkpointing_enable)()
        model(**batch).loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert all((a - b).abs().max() < 1e-12 for a, b in zip(*gradients, strict=True))


def test_an_empty_mlm_slot_counts_nothing_where_the_first_token_is_predicted():
    batch, model = make_batch(packs=2), make_model("bert").eval()
    labels = batch.labels.clone()
    labels[0, 0] = batch.input_ids[0, 0]
    batch = PackedBatch({**batch, "labels": labels})
    expected = model(**batch)
    model.max_predictions_per_pack = int(
        (labels != IGNORED).sum()
    )  # for each of the two packs, so half of them stay empty
    output = model(**batch)
    empty = output.token_positions == -1
    assert int(empty.sum()) == model.max_predictions_per_pack and output.token_labels[empty].eq(IGNORED).all()
    torch.testing.assert_close(output.loss, expected.loss, rtol=1e-12, atol=0)


def test_next_tokens_stop_at_the_end_of_a_sequence():
    ids, segments = (
        torch.tensor([[5, 6, 7, 8, 9, 0], [4, 3, 2, 1, 5, 6]]),
        torch.tensor([[1, 1, 2, 3, 3, 0], [1] * 6]),
    )
    assert next_tokens(ids, segments).tolist() == [[6, -100, -100, 9, -100, -100], [3, 2, 1, 5, 6, -100]]


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_positions_are_reset_where_none_are_given(kind):
    model, batch = make_model(kind), make_batch(masked=kind == "bert")
    without = {name: value for name, value in batch.items() if name != "position_ids"}
    assert torch.equal(model(**without).token_logits, model(**batch).token_logits)


@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_a_pack_longer_than_the_position_table_is_refused(kind):
    model = make_model(kind)
    ids = torch.ones(1, 129, dtype=torch.int64)
    with pytest.raises(ValueError, match="The packs have 129 slots; the model's position table ends at 128"):
        model(**PackedBatch(input_ids=ids, segment_ids=ids))


def test_bad_input_gets_one_sentence():
    batch = make_batch()
    one, model = make_batch(packs=1), make_model("bert")
    count = int((one.labels != IGNORED).sum())
    model.max_predictions_per_pack = count
    assert model(**one).loss.isfinite()
    model.max_predictions_per_pack = count - 1
    with pytest.raises(ValueError, match=f"has {count} masked tokens; there are places for {count - 1}"):
        model(**one)
    with pytest.raises(ValueError, match="max_predictions_per_pack must be at least 1, not 0"):
        PackedBert(bert_config(), max_predictions_per_pack=0)
    with pytest.raises(ValueError, match="not 'batch'"):
        PackedBert(bert_config(), reduction="batch")
    with pytest.raises(ValueError, match=r"backend must be .*, not 'flash'"):
        PackedBert(bert_config(), backend="flash")
    for kind in ("bert", "causal"):
        model, beyond = make_model(kind), batch.input_ids.clone()
        beyond[0, 0] = model.config.vocab_size
        for name, least in (("input_ids", 0), ("labels", -100)):
            says = rf"^{name} must be from {least} to {model.config.vocab_size - 1}, not {model.config.vocab_size}\.$"
            with pytest.raises(ValueError, match=says):
                model(**{**batch, name: beyond})
    with pytest.raises(TypeError, match="needs segment_ids"):
        make_model("bert")(input_ids=batch.input_ids)
    with pytest.raises(TypeError, match="attention_mask"):
        make_model("bert")(**batch, attention_mask=batch.segment_ids)
