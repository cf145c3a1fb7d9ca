"""Inference in packs: the answers of the unpacked model, in the order of the questions."""

from copy import deepcopy
from itertools import count, islice

import numpy as np
import pytest
import torch
from model_cases import bert_config, make_model, tokenizer
from transformers import BertForPreTraining

from packbook.shared.glosses import wordnet_texts
from packlib.model import PackedBert, predict


def test_answers_equal_the_unpacked_models():
    glosses, model = wordnet_texts(), make_model("bert")
    chosen = np.flatnonzero(glosses.pair_tokens > 0)[::150][:60]
    pairs = [(str(glosses.definition[i]), str(glosses.examples[i])) for i in chosen]
    texts = [a if i % 3 == 0 else (a, b) for i, (a, b) in enumerate(pairs)]
    plain = BertForPreTraining(deepcopy(model.config)).double().eval()
    plain.load_state_dict(model.state_dict())
    expected = []
    with torch.no_grad():
        for text in texts:
            inputs = tokenizer()(*([text] if isinstance(text, str) else text), return_tensors="pt")
            expected.append(plain(**inputs).seq_relationship_logits[0].numpy())
    for window in (1, 7, 60, 1000):
        answers = list(predict(model, iter(texts), tokenizer(), window=window, batch_size=3))
        assert len(answers) == 60
        assert max(np.abs(a - e).max() for a, e in zip(answers, expected, strict=True)) < 1e-10


def test_an_endless_stream_is_answered_window_by_window():
    read = count()
    stream = (f"text number {next(read)}" for _ in count())
    answers = predict(make_model("bert", torch.float32), stream, tokenizer(), window=10)
    assert len(list(islice(answers, 12))) == 12
    assert next(read) == 20  # two windows were read, no more


def test_the_model_is_left_as_it_was_and_answers_without_dropout_in_float32():
    model = PackedBert(bert_config(hidden_dropout_prob=0.5))
    for training in (False, True):
        answers = predict(model.train(training), ["one", "two"], tokenizer(), window=1)
        first = [next(answers)]
        assert model.training is training and torch.is_grad_enabled()
        again = [*predict(model, ["one", "two"], tokenizer())]
        assert np.allclose([*first, *answers], again, atol=1e-5) and again[0].dtype == np.float32
        assert model.training is training
    assert list(predict(model, [], tokenizer())) == []
    assert next(predict(model.bfloat16(), ["one"], tokenizer())).dtype == np.float32


def test_bad_input_gets_one_sentence():
    model, long = make_model("bert", torch.float32), "word " * 200
    answers = predict(model, ["short", "short too", "a third", long], tokenizer(), window=2)
    assert len([next(answers), next(answers)]) == 2
    with pytest.raises(ValueError, match="Text 3 has 202 tokens; the maximum is 128"):
        next(answers)
    for name in ("window", "batch_size"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1"):
            next(predict(model, ["a"], tokenizer(), **{name: 0}))
