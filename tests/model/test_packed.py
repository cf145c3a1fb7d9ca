"""Packed BERT as a part of transformers: checkpoints, static shapes, gradient checkpointing; and bad input."""

import pytest
import torch
from model_cases import MAX_LENGTH, bert_config, make_batch, make_model, masking, store
from transformers import BertForPreTraining, Trainer, TrainingArguments

from packlib.batches import IGNORED, PackDataset, PackedBatch, PackingCollator, pack_lengths
from packlib.model import PackedBert


def test_checkpoints_go_both_ways_unchanged(tmp_path):
    model, batch = make_model("bert", torch.float32), make_batch()
    model.save_pretrained(tmp_path / "packed")
    theirs = BertForPreTraining.from_pretrained(tmp_path / "packed")
    theirs.save_pretrained(tmp_path / "plain")
    ours = PackedBert.from_pretrained(tmp_path / "plain", backend="eager", reduction="sequence")
    assert (ours.backend, ours.reduction) == ("eager", "sequence")
    for other in (theirs, ours):
        assert other.state_dict().keys() == model.state_dict().keys()
        assert all(
            torch.equal(a, b) for a, b in zip(other.state_dict().values(), model.state_dict().values(), strict=True)
        )
    again = PackedBert.from_pretrained(tmp_path / "packed")
    with torch.no_grad():
        assert torch.equal(again.eval()(**batch).token_logits, model.eval()(**batch).token_logits)


def test_a_trainer_of_transformers_is_refused(tmp_path):
    data = PackDataset(store(), pack_lengths(store().lengths, MAX_LENGTH))
    arguments = TrainingArguments(tmp_path, max_steps=1, disable_tqdm=True, report_to=[], use_cpu=True)
    collator = PackingCollator(MAX_LENGTH, masking())
    trainer = Trainer(make_model("bert", torch.float32), arguments, collator, data, data)
    with pytest.raises(ValueError, match=r"does not count the sequences .* Use packlib.training.fit"):
        trainer.train()
    with pytest.raises(TypeError, match=r"a row of packs holds several .* use packlib.training.evaluate"):
        trainer.evaluate()


def test_recomputation_gives_the_same_gradients():
    model, batch = make_model("bert"), make_batch(packs=3)
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


def test_positions_are_reset_where_none_are_given():
    model, batch = make_model("bert"), make_batch()
    without = {name: value for name, value in batch.items() if name != "position_ids"}
    assert torch.equal(model(**without).token_logits, model(**batch).token_logits)


def test_a_pack_longer_than_the_position_table_is_refused():
    ids = torch.ones(1, 129, dtype=torch.int64)
    with pytest.raises(ValueError, match="The packs have 129 slots; the model's position table ends at 128"):
        make_model("bert")(**PackedBatch(input_ids=ids, segment_ids=ids))


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
    beyond = batch.input_ids.clone()
    beyond[0, 0] = 4000
    with pytest.raises(ValueError, match=r"^input_ids must be from 0 to 3999, not 4000\.$"):
        make_model("bert")(**{**batch, "input_ids": beyond})
    with pytest.raises(TypeError, match="needs segment_ids"):
        make_model("bert")(input_ids=batch.input_ids)
    with pytest.raises(TypeError, match="attention_mask"):
        make_model("bert")(**batch, attention_mask=batch.segment_ids)
