"""Settings of every test, notebooks too: two workers share two cores, and nothing may reach out to the network."""

import functools
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # kernels that notebooks start inherit it too
os.environ.setdefault("HF_HUB_OFFLINE", "1")
cache = tempfile.TemporaryDirectory(prefix="packlib-datasets-")
os.environ["HF_DATASETS_CACHE"] = cache.name
os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # the kernel's debugger warns otherwise

OFFLINE = Path(__file__).parent / "tests" / "offline"  # its `sitecustomize` refuses the network
handle, network = tempfile.mkstemp(prefix="packlib-network-")  # one for each worker of pytest-xdist
os.close(handle)
os.environ["PACKLIB_TEST_NETWORK"] = network
if str(OFFLINE) not in sys.path:  # else Python has loaded it at its start
    sys.path.insert(0, str(OFFLINE))
    import sitecustomize  # noqa: F401
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [str(OFFLINE), os.environ.get("PYTHONPATH")])))

collect_ignore_glob = ["notebooks/solutions/*"]  # tests/workbook/test_notebooks.py runs them
examples = 100 if os.environ.get("PACKLIB_ALL") else 50  # they are the same in each run
settings.register_profile("packlib", deadline=None, derandomize=True, max_examples=examples)
settings.load_profile("packlib")


PACKAGES = {"train": ("torch", "transformers", "accelerate"), "hub": ("datasets",)}  # by the extra that brings them
NO_CHAPTERS = ("jupyterlab", "segno", "trl", "sphinx", "pytest")  # packages that the extras of no chapter bring


@functools.cache
def lacking():
    """Return, by notebook, the packages that a learner of it need not have."""
    from packbook.run import course

    return {
        chapter.notebook: [name for extra in PACKAGES.keys() - {*chapter.extras.split()} for name in PACKAGES[extra]]
        for chapter in course.chapters()
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Let nbval start the kernel of a chapter where no packages are but those that its extras bring."""
    if item.path.suffix != ".ipynb" or item.path.stem not in lacking():
        return (yield)
    os.environ["PACKLIB_TEST_LACKING"] = " ".join([*NO_CHAPTERS, *lacking()[item.path.stem]])
    try:
        return (yield)
    finally:
        del os.environ["PACKLIB_TEST_LACKING"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    yield
    fail_if_network_was_touched()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    yield
    fail_if_network_was_touched()


def fail_if_network_was_touched():
    if said := Path(network).read_text():
        os.truncate(network, 0)
        pytest.fail(f"The network was touched: {said}", pytrace=False)


def pytest_unconfigure():
    Path(network).unlink(missing_ok=True)
    cache.cleanup()
