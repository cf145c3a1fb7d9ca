"""Notebook 10's own parts: graphs for a few shapes, torch's log read, and the onset."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model_cases import bert_config, make_batch, make_model
from transformers import BertForPreTraining

from packlib.workbook.chapters.n10_compilation.runs import (
    Numbered,
    blank_batch,
    compile_for_shapes,
    failed_guards,
    onset,
    torch_log,
)


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def affine(x):
    return torch.relu(2 * x + 1)


@pytest.mark.parametrize("dynamic, graphs", [(False, 3), (None, 2), (True, 1)])
def test_bert_makes_three_graphs_when_static_two_when_automatic_one_when_dynamic(dynamic, graphs):
    backend, model = Numbered(), BertForPreTraining(bert_config(num_hidden_layers=1))
    compiled = torch.compile(model, backend=backend, dynamic=dynamic)
    with torch_log() as said:
        for length in (32, 48, 64, 32):
            ids = torch.ones(2, length, dtype=torch.int64)
            label = torch.tensor([0, 1])
            compiled(input_ids=ids, attention_mask=ids, labels=ids, next_sentence_label=label).loss.backward()
    assert len(backend.operations) == graphs == len(said) + 1


def test_the_log_names_the_guards_that_failed_and_the_limit(capfd):
    backend = Numbered()
    compiled = torch.compile(affine, backend=backend, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2), torch_log() as said:
        for length in (10, 20, 30, 10):
            assert torch.equal(compiled(torch.ones(length)), torch.full((length,), 3.0))
    assert backend.operations == [3, 3] and backend.ran == [1, 2, 1]
    assert failed_guards(said[0]) == ["tensor 'x' size mismatch at index 0. expected 10, actual 20"]
    assert "recompile_limit (2)" in said[-1] and capfd.readouterr().err == ""


@torch._dynamo.config.patch(recompile_limit=2)
def test_all_shapes_are_compiled_at_once_beyond_the_limit_and_train_as_before():
    lengths = range(3, 7)
    model = make_model("bert")
    eager, batches = copy.deepcopy(model), [blank_batch(2, length) for length in lengths]
    before, random, backend = copy.deepcopy(model.state_dict()), torch.get_rng_state(), Numbered()
    assert list(compile_for_shapes(model, batches, backend)) == [(2, length) for length in reversed(lengths)]
    assert len(backend.operations) == len(lengths) and torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    for batch in batches:
        model(**batch).loss.backward()
        eager(**batch).loss.backward()
    assert len(backend.operations) == len(lengths)
    for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        assert torch.allclose(ours.grad, theirs.grad, rtol=0, atol=1e-12)


def test_what_would_compile_again_fails_loudly():
    model = make_model("bert")
    compile_for_shapes(model, [blank_batch(2, 4)], "eager")
    with pytest.raises(ValueError, match=r"A batch has the shape \(2, 5\): graphs were made for \(2, 4\)\."):
        model(**blank_batch(2, 5))
    with torch.no_grad():  # an evaluation may have any shape
        model(**blank_batch(2, 5))
    changed = {**blank_batch(2, 4), "sequence_labels": torch.zeros(2)}
    with pytest.raises(RuntimeError, match=r"(?s)Detected recompile.*(dtype mismatch|fail_on_recompile'$)"):
        model(**changed)


def test_packs_with_static_places_are_one_shape_and_one_graph():
    model, backend = make_model("bert", max_predictions_per_pack=20), Numbered()
    first, second = (make_batch(depth, 4, max_sequences_per_pack=8, max_predictions_per_pack=20) for depth in (8, 3))
    compile_for_shapes(model, [first], backend)
    model(**first).loss.backward()
    model(**second).loss.backward()
    assert len(backend.operations) == 1


@given(st.integers(1, 4), st.data())
def test_each_rank_meets_each_shape_once_at_the_start_and_no_batch_is_lost(ranks, data):
    shapes = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=6, unique=True))
    batches = data.draw(st.permutations(shapes * ranks + data.draw(st.lists(st.sampled_from(shapes), max_size=20))))
    order = onset(batches, ranks)
    assert sorted(order) == list(range(len(batches)))
    for rank in range(ranks):
        assert [batches[i] for i in order[rank::ranks][: len(shapes)]] == sorted(shapes, reverse=True)
    rest = order[len(shapes) * ranks :]
    assert rest == sorted(rest)
