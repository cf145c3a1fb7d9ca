"""Notebook 10's own parts: graphs for a few shapes, and the onset; how many graphs there are is in its outputs."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model_cases import make_model

from packlib.workbook.chapters.n10_compilation.runs import Numbered, blank_batch, compile_for_shapes, onset


@pytest.fixture(autouse=True)
def nothing_compiled():
    yield
    torch.compiler.reset()


@torch._dynamo.config.patch(recompile_limit=2)
def test_all_shapes_are_compiled_at_once_beyond_the_limit_and_train_as_before():
    lengths = range(3, 7)
    model = make_model("bert")
    eager, batches = copy.deepcopy(model), [blank_batch(2, length) for length in lengths]
    random, backend = torch.get_rng_state(), Numbered()
    assert list(compile_for_shapes(model, batches, backend)) == [(2, length) for length in reversed(lengths)]
    assert len(backend.operations) == len(lengths) and torch.equal(torch.get_rng_state(), random)
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
