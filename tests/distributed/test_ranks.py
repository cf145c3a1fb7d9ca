"""Ranks: results and prints in order; whatever one does, one error says which and why, and nothing stays."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

import pytest
import rank_work as work
from processes import alive, all_end

from packlib.distributed import RankError, run_ranks

PYTHONPATH = os.pathsep.join([str(Path(__file__).parents[1]), os.environ["PYTHONPATH"]])


def pids_written(folder, number):
    """The pids that ranks have printed into their files in `folder`, once there are so many."""
    pids, deadline = [], time.monotonic() + 180
    while len(pids) < number and time.monotonic() < deadline:
        time.sleep(0.05)
        pids = re.findall(r"pid (\d+)\n", "".join(path.read_text() for path in folder.glob("ranks-*/stdout-*")))
    return pids


@pytest.fixture
def nothing_stays(tmp_path, monkeypatch, capfd):
    """After the test no process that printed its pid is left, and no file in the temporary folders."""
    run_ranks(work.introduce, 1, "warm up")  # the server makes a folder of its own
    capfd.readouterr()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    out = []
    yield lambda: out.append(capfd.readouterr()) or out[-1]
    text = "".join(part.out for part in [*out, capfd.readouterr()])
    pids = re.findall(r"pid (\d+)", text)
    assert all_end(pids) and list(tmp_path.iterdir()) == []
    assert not [name for name in os.listdir("/dev/shm") if set(re.findall(r"\d+", name)) & set(pids)]


@pytest.mark.parametrize("world_size", [1, 3])
def test_every_rank_is_called_and_answers_in_order(world_size, nothing_stays):
    total = sum(range(world_size))
    expected = [(rank, world_size, total, "hello", 1) for rank in range(world_size)]
    assert run_ranks(work.introduce, world_size, "hello") == expected
    assert nothing_stays().out.count("pid") == world_size


def test_prints_come_in_the_order_of_the_ranks(nothing_stays):
    run_ranks(work.speak_in_reverse, 3)
    printed = nothing_stays()
    assert printed.out == "".join(f"Python {rank}\nshell {rank}\n" for rank in range(3))
    assert printed.err == "".join(f"complaint {rank}\n" for rank in range(3))


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


def test_wrong_arguments():
    with pytest.raises(ValueError, match="world_size must be at least 1, not 0"):
        run_ranks(work.introduce, 0, "hello")
    with pytest.raises(ValueError, match="timeout must be above 0, not 0"):
        run_ranks(work.introduce, 2, "hello", timeout=0)


def test_an_interrupt_ends_the_ranks(tmp_path, nothing_stays):
    def when_all_run():
        pids_written(tmp_path, 2)
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
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
        pids = pids_written(tmp_path, 2)
        assert len(pids) == 2 and all(map(alive, pids))
    finally:
        parent.kill()
        parent.wait()
    assert all_end(pids) and not list(tmp_path.glob("ranks-*"))


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
