"""Sorting across real gloo ranks, against NumPy's lexsort: exact, stable, even, and with one error for all."""

import os
import resource
import signal

import numpy as np
import pytest
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packbook.n09_distributed_sorting import one_file
from packbook.n09_distributed_sorting.one_file import write_ordered
from packlib.distributed import RankError, exact_sort, interleave, load_imbalance, run_ranks, sort_rows

LOW, HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max
VALUES = st.sampled_from([LOW, LOW + 1, HIGH]) | st.integers(LOW, HIGH)


def lexsorted(rows, by):
    return rows[np.lexsort(rows[:, :by].T[::-1])]


def table(rows, columns):
    return np.array(rows, np.int64).reshape(-1, columns)


@st.composite
def tables(draw, parts):
    """Rows for each of so many ranks, of 1 to 3 columns, and how many columns to compare."""
    columns = draw(st.integers(1, 3))
    kinds = st.sampled_from([st.integers(0, 1), st.integers(-9, 9), VALUES])
    row = st.tuples(*[draw(kinds) for _ in range(columns)])
    return [table(draw(st.lists(row, max_size=7)), columns) for _ in range(parts)], draw(st.integers(1, columns))


@given(tables(1))
def test_a_local_sort_is_numpys_lexsort(case):
    (rows,), by = case
    np.testing.assert_array_equal(sort_rows(rows, by), lexsorted(rows, by))


@pytest.mark.parametrize("columns, spread", [(1, 0), (2, 9), (3, 40), (2, 64), (3, 64)])
def test_a_local_sort_of_many_rows_takes_digits_of_any_width(columns, spread):
    rng = np.random.default_rng(spread)
    rows = rng.integers(LOW, HIGH, (5000, columns), endpoint=True) >> (64 - spread if spread else 63)
    rows[::3] = rows[0]
    for by in range(1, columns + 1):
        np.testing.assert_array_equal(sort_rows(rows, by), lexsorted(rows, by))


def check_sort(parts, by):
    """Sort `parts` across the ranks; every rank checks the whole, so that all of them fail together."""
    rank, size = dist.get_rank(), dist.get_world_size()
    origin = np.concatenate([np.full(len(part), r) for r, part in enumerate(parts)])
    tagged = np.column_stack([np.concatenate(parts), origin])
    mine = exact_sort(tagged[origin == rank], by=by)
    everyone = [None] * size
    dist.all_gather_object(everyone, mine)
    np.testing.assert_array_equal(np.concatenate([one.rows for one in everyone]), lexsorted(tagged, by))
    sizes = [len(one.rows) for one in everyone]
    assert max(sizes) - min(sizes) <= 1
    for r, one in enumerate(everyone):
        assert one.start == sum(sizes[:r])
        assert one.load_after.tolist() == sizes
        assert one.rows_sent == sum((other.rows[:, -1] == r).sum() for other in everyone if other is not one)
        assert one.bytes_sent >= one.rows_sent * tagged[:1].nbytes
    dealt = [None] * size
    dist.all_gather_object(dealt, interleave(mine.rows))
    for r, share in enumerate(dealt):
        np.testing.assert_array_equal(share, lexsorted(tagged, by)[r::size])


def sort_drawn_tables(rank):
    """Every rank draws the same examples, for the draws are not random."""

    @settings(derandomize=True, deadline=None, max_examples=30, suppress_health_check=HealthCheck, database=None)
    @given(tables(dist.get_world_size()))
    def every_example_is_sorted(case):
        check_sort(*case)

    every_example_is_sorted()


def skewed(ranks, n=2_000):
    """A spike as in Wikipedia, ties alone, falling rows, and all rows on one rank."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 513, n)
    lengths[rng.random(n) < 0.234] = 512
    for column in (lengths, np.full(n, 7), -np.sort(lengths)):
        rows = np.stack([column, rng.permutation(n)], axis=1)
        yield np.split(rows, np.sort(rng.choice(n, ranks - 1)))
    yield [rows if rank == 1 else rows[:0] for rank in range(ranks)]


def sort_skewed_tables(rank):
    for by in (1, 2):
        for parts in skewed(dist.get_world_size()):
            check_sort(parts, by)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_sort_as_numpy_does_and_evenly(ranks):
    run_ranks(sort_drawn_tables, ranks)
    run_ranks(sort_skewed_tables, ranks)


def test_alone_a_process_needs_no_group():
    rows = table([[2, 1], [1, 5], [2, 0]], 2)
    alone = exact_sort(rows, by=1)
    assert alone.rows.tolist() == [[1, 5], [2, 1], [2, 0]] and alone.start == alone.bytes_sent == 0
    assert interleave(rows).tolist() == rows.tolist()


def sort_to_file(rank, path):
    rows = np.split(np.random.default_rng(0).integers(0, 9, (1000, 2)), 4)
    mine = np.concatenate(rows[rank :: dist.get_world_size()])
    write_ordered(path, exact_sort(mine).rows)


def test_any_number_of_ranks_writes_the_same_file(tmp_path):
    rows = lexsorted(np.random.default_rng(0).integers(0, 9, (1000, 2)), 2)
    np.save(tmp_path / "whole.npy", rows)
    for ranks in (1, 2, 3):
        run_ranks(sort_to_file, ranks, tmp_path / "sorted")
        np.testing.assert_array_equal(np.load(tmp_path / "sorted"), rows)
        assert (tmp_path / "sorted").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["sorted", "whole.npy"]
    write_ordered(tmp_path / "sorted", rows[:0])
    assert np.load(tmp_path / "sorted").shape == (0, 2)


def fill_the_disk(rank, path):
    if rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    with pytest.raises(RankError) as raised:
        write_ordered(path, np.zeros((1000, 2), np.int64))
    return str(raised.value)


def die_while_writing(rank, path, victim):
    if rank == victim:
        one_file.open = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    write_ordered(path, np.zeros((1000, 2), np.int64))


def test_a_failed_write_leaves_no_file(tmp_path):
    first, *others = run_ranks(fill_the_disk, 3, tmp_path / "rows")
    assert first.startswith("Rank 1 of 3 raised OSError: [Errno 27]") and others == [first] * 2
    assert os.listdir(tmp_path) == []
    for victim in (0, 1):
        with pytest.raises(RankError, match=f"Rank {victim} of 3 was ended by SIGKILL"):
            run_ranks(die_while_writing, 3, tmp_path / "rows", victim)
        assert os.listdir(tmp_path) == []


def test_the_imbalance_is_the_slowest_over_the_mean():
    assert load_imbalance([5, 5, 5]) == 1 and load_imbalance([4, 0]) == 2
    assert load_imbalance([[1, 3], [3, 1]]) == 1.5  # even in the sum, but every step waits
    assert load_imbalance([[1, 3], [10, 10]]) == 13 / 12  # and a step counts by its time
