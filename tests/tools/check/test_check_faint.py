"""`check_packing` asked about borders that let others through, but faintly."""

import pytest
import torch
from check_cases import SEGMENTS, Tiny, dense, without_gradients
from check_reports import SHORT
from torch.nn import functional as F

from packlib import check_packing


class Faint(Tiny):
    """An attention that hides other sequences, and what lies ahead, with a number that is too small."""

    def __init__(self, hides):
        super().__init__("attention")
        self.hides = hides

    def _attention(self, part, x, segments, same, wrong):
        query, key, value, _ = part(x).chunk(4, -1)
        ahead = torch.full((), -torch.inf, dtype=x.dtype).expand_as(same).triu(1)
        mask = torch.where(same, 0.0, self.hides).to(x.dtype)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask + ahead)


@pytest.mark.parametrize(("dtype", "hides"), [
    (torch.float32, -9.0), (torch.float32, -12.0), (torch.bfloat16, -9.0), (torch.float64, -14.0),
])  # fmt: skip
def test_a_mask_that_hides_with_too_small_a_number_is_named(dtype, hides):
    found = check_packing(Faint(hides).to(dtype), dense(**SEGMENTS), SHORT)
    assert "hides with too small a number" in found["isolation from earlier sequences"].cause, found


def test_no_mask_is_not_called_faint():
    found = check_packing(Tiny("attention", fault="attention"), dense(**SEGMENTS), SHORT)
    assert "no document mask" in found["isolation from earlier sequences"].cause, found


@pytest.mark.parametrize("between", [[], [5, 5, 5]], ids=["no other token", "one other token"])
def test_a_faint_mask_is_found_by_moves_where_sequences_hold_hardly_more_than_their_ends(between):
    """Ends would stay in their place, as the sequences are what they are alone: then no token would change."""
    few = [{"input_ids": [2] * twos + between + [7] * sevens} for twos, sevens in ((2, 3), (3, 2), (4, 1), (1, 5))]
    found = check_packing(without_gradients(Faint(-13.0)), dense(**SEGMENTS), few)
    assert found["same as alone"].verdict == "passed", found
    assert found["isolation from earlier sequences"].verdict == "failed", found
