"""What other tests rely on: nobody reaches the network unseen; a chapter finds the packages of its extras alone."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from sitecustomize import LACKING, LOG, is_near

ROOT = Path(__file__).parents[2]
ASK = """
import socket
for ask in (
    lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"?", ("192.0.2.1", 53)),
    lambda: socket.getaddrinfo("packlib.invalid", 443),
):
    try:
        ask()
    except PermissionError:
        pass
"""


@pytest.fixture
def hooks(request):
    """The `conftest.py` of the root."""
    return request.config.pluginmanager.get_plugin(str(ROOT / "conftest.py"))


def in_a_process(code):
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("run", [exec, in_a_process])
def test_a_test_that_reaches_out_fails_though_the_refusal_is_caught(run, hooks):
    run(ASK)
    with pytest.raises(pytest.fail.Exception) as failed:
        hooks.fail_if_network_was_touched()
    said = str(failed.value)
    for way in ("socket.connect to '192.0.2.1'", "socket.sendto to '192.0.2.1'", "socket.getaddrinfo to 'packlib.inv"):
        assert said.count(way) == 1
    assert Path(os.environ[LOG]).read_text() == "", "the next test begins anew"


def test_this_machine_may_be_asked():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    assert all(map(is_near, ("localhost", "127.8.0.1", "::1", b"localhost", None, "0.0.0.0", "", "a.localhost")))
    assert not any(map(is_near, ("192.0.2.1", "2001:db8::1", "localhost.packlib.invalid", "10.0.0.1")))


@pytest.mark.parametrize(
    ("notebook", "lacks", "has"),
    [
        ("02_greedy_packing", "torch transformers accelerate datasets sphinx", "numpy matplotlib"),
        ("00_tour", "datasets jupyterlab", "torch transformers"),
        ("10_compilation", "jupyterlab", "torch datasets"),
    ],
)
def test_nbval_starts_the_kernel_of_a_chapter_with_the_packages_of_its_extras_alone(notebook, lacks, has, hooks):
    code = (
        "import importlib, importlib.util\n"
        f"assert all(importlib.util.find_spec(name) for name in {has.split()})\n"
        f"for name in {lacks.split()}:\n"
        "    assert importlib.util.find_spec(name) is None\n"
        "    try: importlib.import_module(name)\n"
        "    except ModuleNotFoundError: continue\n"
        "    raise AssertionError(name)"
    )
    starting = hooks.pytest_runtest_setup(SimpleNamespace(path=Path(f"notebooks/{notebook}.ipynb")))
    next(starting)
    in_a_process(code)
    starting.close()
    assert LACKING not in os.environ
