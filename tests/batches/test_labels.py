"""Data keeps what it came with: labels of tokens and of sequences, through every way into a batch and the models."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import MAX_LENGTH, assert_equals_unpacked, bert_config, make_model, reference, store
from transformers import BertForMaskedLM

from packlib.batches import (
    IGNORED,
    PackDataset,
    PackedBatch,
    PackingCollator,
    TokenStore,
    batch_by_tokens,
    collate,
    pack_lengths,
    pack_loader,
    pad,
)
from packlib.model import packed_output, token_loss
from packlib.packing import Packs
from packlib.training import CausalObjective, Recipe, fit
from packlib.training.updates import join_packs, take_packs


def instruction(index: int) -> dict:
    """A sample whose prompt has no labels; its labels are not its tokens, as for a masked model."""
    ids = store()[index]["input_ids"].astype(np.int64)
    rng = np.random.default_rng(index)
    labels = np.where(rng.random(len(ids)) < 0.7, rng.integers(0, 4000, len(ids)), IGNORED)
    labels[: rng.integers(0, len(ids) + 1)] = IGNORED
    if index % 5 == 0:
        labels[0] = 7  # a label before the first token: nothing predicts it
    return {"input_ids": ids.tolist(), "labels": labels.tolist(), "next_sentence_label": index % 2}


@cache
def instructions() -> list[dict]:
    return [instruction(i) for i in range(0, 400, 16)]


def packed(depth: int | None, packs: int = 4) -> PackedBatch:
    samples = instructions()
    groups = pack_lengths([len(sample["input_ids"]) for sample in samples], MAX_LENGTH, "lpfhp", depth)
    data = PackDataset(samples, groups)
    return PackingCollator(MAX_LENGTH)([data[i] for i in range(len(data))][-packs:])


@pytest.mark.parametrize("depth", [1, None])
@pytest.mark.parametrize("kind", ["bert", "causal"])
def test_loss_and_gradients_equal_the_unpacked_ones_with_the_same_labels(kind, depth):
    """By token, sequence and pack, to 1e-10, against transformers' model on each sequence alone."""
    model, batch = make_model(kind), packed(depth)
    assert 0 < int((batch.labels != IGNORED).sum()) < batch.useful_tokens
    assert_equals_unpacked(model, batch, reference(model, batch))
    assert_equals_unpacked(model, pad(batch), reference(model, pad(batch)))


def tokens_of(batch: PackedBatch) -> dict[int, tuple]:
    """What a batch says of each sample, by its id."""
    useful = batch.segment_ids > 0
    names = ("input_ids", "token_type_ids", "labels")
    rows = [batch[name][useful].split(batch.lengths.tolist()) for name in names]
    ids, labels = (batch[name][: batch.num_sequences].tolist() for name in ("sample_ids", "sequence_labels"))
    fields = ([row.tolist() for row in found] for found in rows)
    return dict(zip(ids, zip(*fields, labels, strict=True), strict=True))


@st.composite
def samples(draw):
    found = []
    names = draw(st.sampled_from(["label", "labels", "next_sentence_label", "sentence_order_label"]))
    per_token = names == "labels" or draw(st.booleans())
    for _ in range(draw(st.integers(1, 12))):
        row = st.lists(st.integers(0, 9), min_size=(n := draw(st.integers(1, 7))), max_size=n)
        sample = {"input_ids": draw(row), "token_type_ids": draw(row)}
        if per_token:
            sample["labels"] = [value if value < 6 else IGNORED for value in draw(row)]
        if names != "labels":
            sample[names] = draw(st.sampled_from([0, 1, 5, IGNORED]))
        found.append(sample)
    return found


@settings(max_examples=60, deadline=None, derandomize=True)
@given(samples(), st.randoms(use_true_random=False), st.integers(0, 5), st.booleans())
def test_what_goes_in_comes_out_of_any_packs(given_samples, random, spare, as_store):
    order = list(range(len(given_samples)))
    random.shuffle(order)
    packs, held = [], {}
    while order:
        packs.append([order.pop() for _ in range(min(len(order), random.randint(1, 4)))])
    lengths = [len(given_samples[i]["input_ids"]) for ids in packs for i in ids]
    top = max(sum(len(given_samples[i]["input_ids"]) for i in ids) for ids in packs) + spare
    ends = np.cumsum([0, *map(len, packs)])
    data = TokenStore.from_samples(given_samples) if as_store else given_samples
    loader = pack_loader(data, Packs(np.concatenate(packs), ends, lengths, top), batch_size=3, seed=spare)
    for batch in loader:
        again = join_packs([take_packs(batch, i, i + 1) for i in range(batch.num_packs)])
        for same in (batch, pad(batch), again):
            if "labels" not in batch:
                assert "labels" not in same
                same = PackedBatch({**same, "labels": torch.full_like(same.input_ids, IGNORED)})
            found = tokens_of(same)
            assert held.keys().isdisjoint(found)
        held |= found
    for i, sample in enumerate(given_samples):
        ids, types, labels, label = held.pop(i)
        assert (ids, types) == (sample["input_ids"], sample["token_type_ids"])
        assert labels == sample.get("labels", [IGNORED] * len(ids))
        names = ("label", "next_sentence_label", "sentence_order_label")
        assert label == next((sample[name] for name in names if name in sample), IGNORED)
    assert not held


def test_labels_stay_through_files_and_token_batches(tmp_path):
    data = TokenStore.from_samples(instructions(), range(1000, 1000 + len(instructions())))
    data.save(tmp_path / "labeled.tokens")
    loaded = TokenStore.load(tmp_path / "labeled.tokens")
    for name in data.__dataclass_fields__:
        assert np.array_equal(getattr(loaded, name), getattr(data, name))
    store().take([3]).save(tmp_path / "bare.tokens")
    bare = TokenStore.load(tmp_path / "bare.tokens")
    assert bare.labels is None and bare.sample_ids.tolist() == [3]
    found = {}
    for samples in batch_by_tokens(data.lengths, 200, order="random", seed=0):
        batch = collate(loaded.take(samples), [1] * len(samples), int(data.lengths[samples].max()))
        found |= {i: labels for i, (_, _, labels, _) in tokens_of(batch).items()}
    assert found == {1000 + i: sample["labels"] for i, sample in enumerate(instructions())}


@pytest.mark.parametrize("mean", ["token", "sequence"])
def test_a_causal_update_is_one_mean_over_its_labels(mean):
    """`fit` on micro-batches of 2 packs, accumulated, as on one big one; the gradient is autograd's over the whole."""
    batches, gradients = [packed(None, packs=6)], []
    batches.append([take_packs(batches[0], at, at + 2) for at in (0, 2, 4)])
    for rows, loader in ((6, batches[:1]), (2, batches[1])):
        model = make_model("causal")
        steps = torch.optim.SGD(model.parameters(), lr=0.0)
        one = Recipe(rows, 1e-3, 1, gradient_accumulation_steps=len(loader), optimizer="adamw")
        (record,) = fit(model, loader, one, CausalObjective(mean), optimizer=steps, progress=False)
        gradients.append([p.grad.clone() for p in model.parameters()])
    loss = token_loss(packed_output(model, batches[0]), batches[0], mean).mean
    gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    assert record["loss"] == record["token_loss"] == pytest.approx(float(loss.detach()), abs=1e-10)
    for other in gradients[:2]:
        assert all((a - b).abs().max() < 1e-10 for a, b in zip(other, gradients[2], strict=True))


def test_fit_takes_the_objective_of_the_model():
    model, batch = make_model("causal"), packed(None, 2)
    (record,) = fit(model, [batch], Recipe(2, 1e-3, 1, optimizer="adamw"), progress=False)
    assert record["loss"] == record["token_loss"] and 0 <= record["token_accuracy"] <= 1 and "nsp_loss" not in record
    encoder = BertForMaskedLM(bert_config())
    (record,) = fit(encoder, [batch], Recipe(2, 1e-3, 1, optimizer="adamw", warmup_sequences=1), progress=False)
    with torch.no_grad():  # an update at the rate 0 has changed nothing
        loss = float(packed_output(encoder, batch).loss)
    assert record["loss"] == record["mlm_loss"] == pytest.approx(loss, abs=1e-5)


TOKENS = {"input_ids": [4, 5, 6]}


def test_an_attention_mask_of_ones_may_stay():
    ones = torch.ones(3, dtype=torch.bool)
    assert TokenStore.from_samples([{**TOKENS, "attention_mask": ones}]).lengths.tolist() == [3]


@pytest.mark.parametrize(
    "sample, sentence",
    [
        ({**TOKENS, "start_positions": 1}, "sample 1 has the column 'start_positions', which no batch can"),
        ({**TOKENS, "attention_mask": [True, False, True]}, "attention_mask of sample 1 hides tokens"),
        ({**TOKENS, "label": 1, "next_sentence_label": 1}, "sample 1 has label and next_sentence_label"),
        ({**TOKENS, "labels": [1, 2]}, "sample 1 has 2 labels for 3 input_ids"),
        ({**TOKENS, "label": -7}, "sequence_labels must be from 0 up, or -100 for none, not -7"),
        ({"input_ids": [4, 10**400]}, "input_ids of sample 1 must be whole numbers of 64 bits"),
        ({"text": "a"}, "sample 1 must be a mapping with input_ids, not {'text': 'a'}"),
        ([4, 5], r"sample 1 must be a mapping with input_ids, not \[4, 5\]"),
    ],
)
def test_what_cannot_be_carried_is_refused_by_name(sample, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        TokenStore.from_samples([TOKENS, sample])
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_labels_of_a_part_of_the_samples_are_refused():
    labeled = {**TOKENS, "labels": [4, 5, 6]}
    with pytest.raises(ValueError, match="1 of 2 samples have labels for their tokens; all must, or none"):
        TokenStore.from_samples([TOKENS, labeled])
    stores = [TokenStore.from_samples([sample]) for sample in (TOKENS, labeled)]
    with pytest.raises(ValueError, match="Store 0 has no labels, and store 1 has some"):
        PackingCollator(8)([(0, some) for some in stores])
    for ids, sentence in (
        ([3, 3], "must be different for each"), ([3, -3], "sample_ids must be at least 0"), ([3], "1 sample_ids for 2"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            TokenStore.from_samples([TOKENS, TOKENS], ids)
    for fields in ({"input_ids": [1, 2.5]}, {"labels": [1, 2.5]}, {"sequence_labels": [0.5]}, {"input_ids": None}):
        with pytest.raises(TypeError, match=f"{next(iter(fields)).removesuffix('s')}.*whole number"):
            TokenStore(
                **{"input_ids": [1, 2], "token_type_ids": [0, 0], "offsets": [0, 2], "sequence_labels": [0], **fields}
            )
    lists = TokenStore([1, 2], [0, 0], [0, 2], [IGNORED])
    assert collate(lists, [1], 3).input_ids.tolist() == [[1, 2, 0]]
