"""A batch of a check: tokens that are put in others' place."""

import numpy as np
from check_cases import SEGMENTS, Tiny, dense

from packlib.tools.check.called_model import CalledModel
from packlib.tools.check.collated_batch import CheckedBatch


def test_moved_tokens_are_others_though_all_but_one_end_sequences():
    """Where but one token is left that may move, each would become itself, so those that end sequences move too."""
    rows = [{"input_ids": [7, end], "labels": [7, end]} for end in (8, 9)]
    called = CalledModel(Tiny("attention"), None)
    with called.mode(train=False):
        checked = CheckedBatch(called, dense(**SEGMENTS), rows, rows, None)
        checked.called.ends = [8, 9]
        slots = np.concatenate([piece.slots for piece in checked.pieces])
        before = checked.ids.flatten()[slots]
        after = checked.moved(checked.batch, slots)["input_ids"].flatten()[slots]
    assert (after != before).all()
