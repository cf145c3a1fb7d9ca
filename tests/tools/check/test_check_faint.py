"""`check_packing` asked about borders that let others through, but faintly."""

import pytest
import torch
from check_cases import SEGMENTS, Tiny, dense
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
