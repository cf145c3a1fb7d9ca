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
        assert all(torch.equal(value, model.state_dict()[name]) for name, value in other.state_dict().items())
    again = PackedBert.from_pretrained(tmp_path / "packed")
    with torch.no_grad():
        assert torch.equal(again.eval()(**batch).token_logits, model.eval()(**batch).token_logits)


def test_a_trainer_of_transformers_is_refused(tmp_path):
    data = PackDataset(store(), pack_lengths(store().lengths, MAX_LENGTH))
    arguments = TrainingArguments(tmp_path, max_steps=1, disable_tqdm=True, report_to=[], use_cpu=True)
    collator = PackingCollator(MAX_LENGTH, masking())
    trainer = Trainer(make_model("bert", torch.float32), arguments, collator, data, data)
    with pytest.raises(ValueError, match=r"does not count the sequences .* Use packlib.fit"):
        trainer.train()
    with pytest.raises(TypeError, match=r"a row of packs holds several .* use packlib.evaluate"):
        trainer.evaluate()


def test_recomputation_gives_the_same_gradients():
    model, batch = make_model("bert"), make_batch(packs=3)
    gradients = []
    for recompute in (False, True):
        model.zero_grad()
        if recompute:
            model.train().activation_checkpointing_enable()
        model(**batch).loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert all((a - b).abs().max() < 1e-12 for a, b in zip(*gradients, strict=True))


def test_positions_are_reset_where_none_are_given():
    model, batch = make_model("bert"), make_batch()
    without = {name: value for name, value in batch.items() if name != "position_ids"}
    assert torch.equal(model(**without).token_logits, model(**batch).token_logits)


def test_bad_input_gets_one_sentence():
    batch, model = make_batch(packs=1), make_model("bert")
    long = PackedBatch(input_ids=torch.ones(1, 129).long(), segment_ids=torch.ones(1, 129).long())
    with pytest.raises(ValueError, match="The packs have 129 slots; the model's position table ends at 128"):
        model(**long)
    count = int((batch.labels != IGNORED).sum())
    model.max_predictions_per_pack = count
    assert model(**batch).loss.isfinite()
    model.max_predictions_per_pack = count - 1
    with pytest.raises(ValueError, match=f"has {count} masked tokens; there are places for {count - 1}"):
        model(**batch)
    for match, options in {
        "max_predictions_per_pack must be at least 1, not 0": {"max_predictions_per_pack": 0},
        "not 'batch'": {"reduction": "batch"},
        "backend must be .*, not 'flash'": {"backend": "flash"},
    }.items():
        with pytest.raises(ValueError, match=match):
            PackedBert(bert_config(), **options)
    with pytest.raises(ValueError, match=r"^input_ids must be from 0 to 3999, not 4000\.$"):
        model(**{**batch, "input_ids": batch.input_ids.clone().fill_(4000)})
    with pytest.raises(TypeError, match="needs segment_ids"):
        model(input_ids=batch.input_ids)
    with pytest.raises(TypeError, match="attention_mask"):
        model(**batch, attention_mask=batch.segment_ids)
