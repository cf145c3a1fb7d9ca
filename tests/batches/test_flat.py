"""Sequences end to end: the same tokens, positions, labels and bounds as the rectangle of packs holds."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from packlib.batches import IGNORED, FlatBatch, PackingCollator, flatten_packs, flatten_rows
from packlib.model.unmodified import causal_labels

LENGTHS = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), min_size=1, max_size=4)


def rows_of(packs, seed, labeled):
    """Rows with random tokens, for packs that are lists of lengths."""
    rng = np.random.default_rng(seed)
    rows = []
    for lengths in packs:
        ids = rng.integers(1, 99, sum(lengths))
        row = {"input_ids": ids.tolist(), "seq_lengths": lengths, "token_type_ids": (ids % 2).tolist()}
        rows.append(row | ({"labels": np.where(ids % 3, ids, IGNORED).tolist()} if labeled else {}))
    return rows


@given(packs=LENGTHS, seed=st.integers(0, 9), labeled=st.booleans(), by_positions=st.booleans())
def test_rows_give_what_their_rectangle_gives(packs, seed, labeled, by_positions):
    rows = rows_of(packs, seed, labeled)
    if by_positions:
        for row in rows:
            row["position_ids"] = [at for length in row.pop("seq_lengths") for at in range(length)]
    batch = PackingCollator()(rows)
    flat, taken_out = flatten_rows(rows), flatten_packs(batch)
    assert flat.lengths.tolist() == [length for lengths in packs for length in lengths]
    useful = batch.segment_ids > 0
    for found in (flat, taken_out):
        assert torch.equal(found.lengths, batch.lengths)
        assert torch.equal(found.input_ids, batch.input_ids[useful])
        assert torch.equal(found.token_type_ids, batch.token_type_ids[useful])
        assert torch.equal(found.position_ids, batch.position_ids[useful])
        assert torch.equal(found.causal_labels(), causal_labels(batch)[useful])
        assert found.bounds.tolist() == [0, *np.cumsum(flat.lengths.numpy())]


@given(packs=LENGTHS, padding=st.lists(st.integers(1, 5), max_size=3), labeled=st.booleans())
def test_padding_is_sequences_of_its_own_that_predict_nothing(packs, padding, labeled):
    flat = flatten_rows(rows_of(packs, 0, labeled))
    longer = flat.with_padding(padding, pad_id=77)
    tokens = len(flat.input_ids)
    assert longer.lengths.tolist() == [*flat.lengths.tolist(), *padding]
    assert longer.is_padding.tolist() == [False] * tokens + [True] * sum(padding)
    assert (longer.input_ids[tokens:] == 77).all() and (longer.causal_labels()[tokens:] == IGNORED).all()
    assert longer.position_ids[tokens:].tolist() == [at for length in padding for at in range(length)]
    for name in ("input_ids", "position_ids", "token_type_ids"):
        assert torch.equal(getattr(longer, name)[:tokens], getattr(flat, name))
    assert torch.equal(longer.causal_labels()[:tokens], flat.causal_labels())


@pytest.mark.parametrize(
    ("rows", "kind", "says"),
    [
        ([], ValueError, "A batch needs at least one row"),
        ([{"input_ids": [1, 2], "seq_lengths": [2, 0]}], ValueError, "seq_lengths of a row must be at least 1, not 0"),
        ([{"input_ids": [1.5], "seq_lengths": [1]}], TypeError, "'input_ids' of a row must hold whole numbers"),
        ([{"input_ids": [-1], "seq_lengths": [1]}], ValueError, "input_ids must be at least 0, not -1"),
        ([{"input_ids": [1], "seq_lengths": [1], "labels": [-5]}], ValueError, "labels must be from 0 up, or -100"),
        (
            [{"input_ids": [1], "seq_lengths": [1], "labels": [1]}, {"input_ids": [1], "seq_lengths": [1]}],
            ValueError,
            "The column 'labels' is in some rows only",
        ),
    ],
)
def test_what_no_batch_can_be_made_of_is_refused(rows, kind, says):
    with pytest.raises(kind, match=says):
        flatten_rows(rows)


def test_without_labels_all_but_the_first_tokens_are_predicted():
    flat = FlatBatch(lengths=torch.tensor([3, 2]), input_ids=torch.tensor([7, 8, 6, 4, 5]))
    assert flat.causal_labels().tolist() == [IGNORED, 8, 6, IGNORED, 5]
