"""Ring all-reduce: the sum, for any length; bytes counted against 2 (p − 1) / p · n; the steps."""

import pytest
import torch

from packlib.distributed import run_ranks
from packlib.workbook.chapters.n11_scaling_up.ring import ring_all_reduce, ring_steps

SIZES = (1, 2, 11, 12, 1200)


def run_ring(rank):
    out = {}
    for size in SIZES:
        values = torch.arange(size) * 1000 + 7**rank
        out[size] = (ring_all_reduce(values), values)
    grid = torch.full((4, 6), float(rank), dtype=torch.float64)
    out["grid"] = (ring_all_reduce(grid), grid)
    try:
        ring_all_reduce(grid.t())
    except ValueError as error:
        out["error"] = str(error)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2, 4])
def test_it_adds_up_and_sends_what_the_formula_says(p):
    ranks = run_ranks(run_ring, p, timeout=300)
    for size in SIZES:
        whole = p * torch.arange(size) * 1000 + sum(7**rank for rank in range(p))
        assert all(torch.equal(rank[size][1], whole) for rank in ranks)
        assert sum(rank[size][0] for rank in ranks) == 2 * (p - 1) * size * 8  # all ranks together, always
        assert all(rank[size][0] % 8 == 0 for rank in ranks)  # whole numbers only
    assert {rank[1200][0] for rank in ranks} == {2 * (p - 1) * 1200 * 8 // p}  # each rank, where p divides
    assert all((rank["grid"][1] == sum(range(p))).all() for rank in ranks)
    assert ranks[0]["error"] == "A ring all-reduce works in place and needs a contiguous tensor."


@pytest.mark.parametrize("p", range(1, 9))
def test_the_steps(p):
    """In every step each rank sends one chunk and receives one."""
    steps = ring_steps(p)
    assert len(steps) == 2 * (p - 1)
    for transfers in steps:
        for part in ("sender", "receiver", "chunk"):
            assert sorted(getattr(t, part) for t in transfers) == list(range(p))
        assert all(t.receiver == (t.sender + 1) % p for t in transfers)


def test_no_ring_of_nobody():
    with pytest.raises(ValueError, match="world_size must be at least 1, not 0"):
        ring_steps(0)
