"""A plugin of pytest that reports what notebooks cost in CPU seconds, how long explorers take to answer, and what
the whole run cost.

nbval runs every notebook as it is stored, with `quick=True`, so the cost of its kernels is what a reader pays.
The limits are what we promise; a run fails only at three times as much, since machines differ.

`python -m tests.cpu_seconds COMMAND …` reports what any command cost: `make test` of an earlier commit, say.
"""

import ctypes
import os
import subprocess
import sys

import psutil
import pytest

EACH, TOGETHER, ANSWER = 30, 240, 0.5  # seconds: one notebook, all but the solutions, one move of a control
SLACK = 3
COST, SLOWEST = "CPU seconds", "slowest answer"  # the names under which tests report


def spent(pid: int) -> float:
    """CPU seconds of a process and of the processes that it started."""
    process = psutil.Process(pid)
    return sum(sum(part.cpu_times()[:4]) for part in [process, *process.children(recursive=True)])


def adopt_orphans() -> None:
    """Linux makes processes whose parent ends children of this one, so that `spent` finds them: rank servers do so."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def judge(cost: dict[str, float], answers: dict[str, float]) -> tuple[list[str], list[str]]:
    """What to report, and what of it is too much: the cost of notebooks by path, the answers by explorer."""
    rows = [(path, seconds, EACH) for path, seconds in sorted(cost.items())]
    if cost:
        chapters = [seconds for path, seconds in cost.items() if "solutions" not in path]
        rows.append(("all without solutions", sum(chapters), TOGETHER))
    rows += [(f"a move in {name}", seconds, ANSWER) for name, seconds in sorted(answers.items())]
    lines = [
        f"{seconds:7.2f} s  {name}{f', more than {limit} s' * (seconds > limit)}" for name, seconds, limit in rows
    ]
    return lines, [name for name, seconds, limit in rows if seconds > SLACK * limit]


class Seconds:
    """Collects from the reports of all tests, and so from all workers of pytest-xdist."""

    def __init__(self):
        self.found = {COST: {}, SLOWEST: {}}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item):
        kernel = getattr(item.parent, "kernel", None)  # nbval's; it stops after the last cell's teardown
        if kernel is not None and kernel.is_alive():
            path = item.nodeid.partition("::")[0]
            item.user_properties.append((COST, (path, spent(kernel.km.provisioner.pid))))

    def pytest_runtest_logreport(self, report):
        for kind, value in report.user_properties:
            if kind in self.found:
                name, seconds = value
                self.found[kind][name] = max(seconds, self.found[kind].get(name, 0))

    def pytest_terminal_summary(self, terminalreporter):
        lines, faults = judge(self.found[COST], self.found[SLOWEST])
        terminalreporter.section("CPU seconds")
        lines.append(f"{spent(os.getpid()):7.2f} s  the whole run")
        terminalreporter.write("\n".join(lines) + "\n")
        for name in faults:
            terminalreporter.write_line(f"FAILED: {name} takes more than {SLACK} times its limit", red=True)

    def pytest_sessionfinish(self, session):
        if judge(self.found[COST], self.found[SLOWEST])[1] and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        adopt_orphans()
    config.pluginmanager.register(Seconds())


if __name__ == "__main__":
    adopt_orphans()
    status = subprocess.run(sys.argv[1:]).returncode
    print(f"{spent(os.getpid()):.0f} CPU seconds: {' '.join(sys.argv[1:])}")
    sys.exit(status)
