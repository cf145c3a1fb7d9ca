"""Notebook 10: buckets against every choice there is, graphs for a few shapes, and the onset."""

import copy
from itertools import combinations

import nbformat
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model_cases import make_model

from packbook.n10_compilation.buckets import (
    BUCKET_METHODS,
    best_choices,
    choose_buckets,
    edges_and_counts,
)
from packbook.n10_compilation.runs import Numbered, blank_batch, compile_for_shapes, onset
from packbook.run.running import notebooks
from packlib.lengths import LengthHistogram


def slots_of(edges, lengths: list[int]) -> int:
    """Slots by definition: each sequence in the first bucket that it fits into."""
    return sum(min(edge for edge in edges if edge >= length) for length in lengths)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(0, 9), st.integers(1, 9), st.data())
def test_no_choice_of_lengths_wastes_less(lengths, room, pad_to_multiple_of, data):
    top = max(lengths) + room
    histogram = LengthHistogram.from_lengths(lengths, top)
    allowed = sorted(
        {min(edge, top) for edge in range(pad_to_multiple_of, max(lengths) + pad_to_multiple_of, pad_to_multiple_of)}
    )
    used = {min(-(-length // pad_to_multiple_of) * pad_to_multiple_of, top) for length in lengths}
    k = data.draw(st.integers(1, min(len(used), 3)))
    least = min(slots_of(edges, lengths) for edges in combinations(allowed, k) if edges[-1] >= max(lengths))
    best = choose_buckets(histogram, k, pad_to_multiple_of)
    assert best.slots == slots_of(best.lengths, lengths) == least
    assert len(best.lengths) == k and set(best.lengths) <= set(allowed)
    choices = best_choices(*edges_and_counts(histogram, pad_to_multiple_of), 99)
    assert len(choices) == len(used) and tuple(choices[k - 1]) == best.lengths
    for method in BUCKET_METHODS[1:]:
        other = choose_buckets(histogram, k, pad_to_multiple_of, method)
        assert other.slots == slots_of(other.lengths, lengths) >= least
        assert len(other.lengths) <= k and set(other.lengths) <= set(allowed)


def test_bad_input_gets_one_sentence():
    histogram = LengthHistogram.from_lengths([3, 8, 9, 17])
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        choose_buckets(histogram, 0)
    with pytest.raises(ValueError, match=r"k is 4, but .* into 3 multiples of 8: k must be from 1 to 3"):
        choose_buckets(histogram, 4)
    with pytest.raises(ValueError, match=r"not 'best'"):
        choose_buckets(histogram, 2, method="best")
    with pytest.raises(ValueError, match="overflow 64 bits"):
        choose_buckets(LengthHistogram(np.array([0, 2**60]), max_length=100), 1)


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


def test_notebook_10_shows_the_error_that_it_promises():
    cells = nbformat.read(notebooks()["10_compilation"], as_version=4).cells
    (shown,) = [cell for cell in cells if cell.cell_type == "code" and "fail_on_recompile" in cell.source]
    printed = shown.outputs[0].text.splitlines()
    assert "past the limit: no error" in printed
    assert (
        "with one graph: RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile'." in printed
    )


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
