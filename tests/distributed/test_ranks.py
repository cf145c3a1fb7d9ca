"""Ranks: results and prints in order; whatever one does, one error says which and why, and nothing stays."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest
import rank_work as work
from processes import alive, all_end

from packlib.distributed import RankError, run_ranks

PYTHONPATH = os.pathsep.join([str(Path(__file__).parents[1]), os.environ["PYTHONPATH"]])


def pids_told(folder, number):
    """The pids that ranks have printed into their files in `folder`, once there are so many."""
    pids, deadline = [], time.monotonic() + 180
    while len(pids) < number and time.monotonic() < deadline:
        time.sleep(0.05)
        pids = re.findall(r"pid (\d+)\n", "".join(path.read_text() for path in folder.glob("ranks-*/stdout-*")))
    return pids


@pytest.mark.parametrize("world_size", [1, 3])
def test_every_rank_is_called_and_answers_in_order(world_size, nothing_stays):
    total = sum(range(world_size))
    expected = [(rank, world_size, total, "hello", 1) for rank in range(world_size)]
    assert run_ranks(work.introduce, world_size, "hello") == expected
    assert nothing_stays().out.count("pid") == world_size


def test_large_results_come_back():
    for rank, (many, tensor) in enumerate(run_ranks(work.return_much, 2)):
        assert many.shape == (3_000_000,) and (many == rank).all() and tensor.item() == rank


def test_prints_come_in_the_order_of_the_ranks(nothing_stays):
    run_ranks(work.speak_in_reverse, 3)
    told = nothing_stays()
    assert told.out == "".join(f"Python {rank}\nshell {rank}\n" for rank in range(3))
    assert told.err == "".join(f"complaint {rank}\n" for rank in range(3))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("raise", "Rank 1 of 3 raised KeyError: 'no such gloss'"),
        ("kill", "Rank 1 of 3 was ended by SIGKILL before it returned."),
        ("_exit", "Rank 1 of 3 left with exit code 3 before it returned."),
    ],
)
def test_a_rank_that_fails_ends_all_with_one_error(how, says, nothing_stays):
    with pytest.raises(RankError) as raised:
        run_ranks(work.fail, 3, how, 1, timeout=3600)  # which would not be waited for
    assert str(raised.value) == says and raised.value.rank == 1
    trace = "\n".join(getattr(raised.value, "__notes__", []))
    assert ("rank_work.py" in trace) == (how == "raise")
    out = nothing_stays().out
    assert out.count("pid") == 6 and out.count("last words\n") == (how == "raise")


def test_a_rank_that_hangs_is_named_with_its_place(nothing_stays):
    with pytest.raises(RankError, match=r"Rank 2 of 3 did not return within 12 s: it is in _hang, line \d+ of .*work"):
        run_ranks(work.fail, 3, "hang", 2, timeout=12)
    with pytest.raises(RankError, match=r"Rank 0 of 2 .* it waits for other ranks in wait_for_each_other, line"):
        run_ranks(work.wait_for_each_other, 2, timeout=12)


def test_a_rank_that_leaves_its_peers_alone():
    gone = "closed by peer|reset by peer|Broken pipe"  # as the system puts it, by the moment
    with pytest.raises(RankError, match=rf"Rank 0 of 2 raised .*({gone}).*\(Had returned by then: rank 1\.\)"):
        run_ranks(work.leave_early, 2)


def test_what_pickle_cannot_send():
    with pytest.raises(TypeError, match=r"<lambda> and its arguments must be such that pickle can send"):
        run_ranks(lambda rank: rank, 2)
    with pytest.raises(TypeError, match="introduce and its arguments must be such"):
        run_ranks(work.introduce, 2, lambda: 0)
    with pytest.raises(RankError, match=r"Rank 0 of 1 raised .*pickle"):
        run_ranks(work.return_what_pickle_refuses, 1)


def test_what_a_notebook_defines(monkeypatch):
    notebook = types.ModuleType("__main__")
    exec("def work(rank): pass\nclass Settings: pass", notebook.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    with pytest.raises(TypeError, match=r"cannot see work, which is defined in the notebook: put it into a \.py file"):
        run_ranks(notebook.work, 2)
    with pytest.raises(RankError, match=r"Rank 0 of 1 raised AttributeError: .*'Settings'"):
        run_ranks(work.introduce, 1, notebook.Settings())


@pytest.mark.parametrize(
    ("world_size", "timeout", "says"),
    [(0, 60, "world_size must be at least 1, not 0"), (2, 0, "timeout must be above 0, not 0")],
)
def test_wrong_arguments(world_size, timeout, says):
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        run_ranks(work.introduce, world_size, "hello", timeout=timeout)


def test_an_interrupt_ends_the_ranks(tmp_path, nothing_stays):
    def interrupt(*_):
        raise KeyboardInterrupt

    def when_all_run():
        pids_told(tmp_path, 2)
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Thread(target=when_all_run).start()
            run_ranks(work.sleep, 2)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert nothing_stays().out.count("pid") == 2


@pytest.mark.slow
def test_ranks_end_with_a_parent_that_is_killed(tmp_path):
    code = "import rank_work as work; from packlib.distributed import run_ranks; run_ranks(work.sleep, 2)"
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    try:
        pids = pids_told(tmp_path, 2)
        assert len(pids) == 2 and all(map(alive, pids))
    finally:
        parent.kill()
        parent.wait()
    assert all_end(pids) and not list(tmp_path.glob("ranks-*"))


def test_in_a_group_already_no_rank_is_started():
    expected = [(rank, 2, 1, "inner", 1) for rank in range(2)]
    assert run_ranks(work.call_again, 2) == [expected, expected]


def test_all_ranks_learn_of_an_error_on_one():
    (told, total), *others = run_ranks(work.disagree, 3)
    assert total == 3 and others == [(told, 3)] * 2
    wrong = "Rank 1 of 3 raised TypeError: the lengths of 1 are wrong"
    assert told[:3] == [(None, None), (wrong, 1), (wrong, 1)] and told[3][1] == 0
    assert told[4:] == [
        (None, None),
        ("max_length must be the same on all ranks, but is 9 on rank 2 and 8 on rank 0.", 2),
        ("method must be the same on all ranks, but is 'spfhp' on rank 1 and 'lpfhp' on rank 0.", 1),
    ]


TORCHRUN = """
import sys
import rank_work as work
from processes import alive, all_end
from packlib.distributed import run_ranks
first = run_ranks(work.introduce, None, "hello")
assert run_ranks(work.introduce, 2, "hello") == first
assert first == [(rank, 2, 1, "hello", 1) for rank in range(2)], first
try:
    run_ranks(work.introduce, 3, "hello")
except ValueError as error:
    open(sys.argv[1] + f"/{first[0][3]}-{work.os.environ['RANK']}", "w").write(str(error))
run_ranks(work.raise_on_one, 2)
"""


@pytest.mark.slow
def test_the_same_function_under_torchrun(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TORCHRUN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, script, tmp_path],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=300,
    )
    says = "world_size is 3, but 2 ranks were started; None takes them all."
    assert [(tmp_path / f"hello-{rank}").read_text() for rank in range(2)] == [says] * 2
    assert done.returncode != 0 and "RankError: Rank 1 of 2 raised KeyError: 'no such gloss'" in done.stderr
