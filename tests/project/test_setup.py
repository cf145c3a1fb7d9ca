"""The ways in say the same, and say in one sentence what is missing."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALLED = ("train", "lab", "site", "test", "hub")  # extras of `make setup`


def pairs(lines):
    """Requirements as a set of (name, specifier)."""
    return {(r.name.lower(), str(r.specifier)) for r in map(Requirement, lines)}


@pytest.fixture(scope="module")
def wanted():
    extras = PROJECT["optional-dependencies"]
    return pairs(PROJECT["dependencies"] + [line for name in INSTALLED for line in extras[name]])


@pytest.fixture(scope="module")
def pins():
    lines = (ROOT / "constraints.txt").read_text().split()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line) for line in lines), "exact public versions only"
    return {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines)}


def test_environment_yml_says_the_same_as_pyproject(wanted):
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert f"python{PROJECT['requires-python']}" in conda
    lines = next(part["pip"] for part in conda if isinstance(part, dict))
    assert [line for line in lines if line.startswith("-")] == ["--constraint constraints.txt", "--editable ."]
    assert pairs(line for line in lines if not line.startswith("-")) == wanted


def test_constraints_pin_every_package_within_its_range(wanted, pins):
    for line in PROJECT["optional-dependencies"]["bench"]:
        wanted = wanted | pairs([line])
    for name, specifier in wanted:
        assert name in pins, f"constraints.txt does not pin {name}"
        assert pins[name] in Requirement(f"{name}{specifier}").specifier


def test_the_lowest_versions_are_those_of_pyproject(pins):
    """Without a package installed, as before `make test-library CONSTRAINTS=lowest.txt`."""
    run = [sys.executable, "-S", "-m", "tests.lowest_versions"]
    lowest = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    lines = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    assert lowest == [line.replace(">=", "==") for line in lines]
    for name, version in (line.split("==") for line in lowest):
        assert Version(version) <= Version(pins[name.lower()])


def make(folder, *arguments, **environment):
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=folder, env={**os.environ, "MAKEFLAGS": "", "MAKELEVEL": "0", **environment},  # as if typed
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def bare(tmp_path):
    """A folder with what `make setup` reads, and no .venv."""
    for name in (
        "Makefile",
        "pyproject.toml",
        "setup.py",
        "packlib_command.py",
        "constraints.txt",
        "README.md",
        "LICENSE",
    ):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "packlib").mkdir()
    return tmp_path


def sentence(done):
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert done.returncode != 0 and len(lines) == 1, done.stderr
    return lines[0]


def fake_python(folder, body):
    path = folder / "python-fake"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


def test_make_names_a_missing_python(bare):
    assert "no python-nowhere; install Python 3.11" in sentence(make(bare, "setup", "PYTHON=python-nowhere"))


def test_make_refuses_an_old_python(bare):
    old = fake_python(bare, 'case "$*" in *version_info*) exit 1;; *--version*) echo Python 3.9.2;; esac')
    assert "Python 3.9.2 is too old: Python 3.11 or newer is needed" in sentence(make(bare, "lab", f"PYTHON={old}"))


@pytest.mark.slow
def test_make_says_that_there_is_no_network(bare):
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", bare / ".venv"], check=True
    )
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
    done = make(bare, "setup", PIP_CONFIG_FILE=os.devnull, PIP_RETRIES="0", **nowhere)
    assert "no network: pip cannot reach its package index" in sentence(done)
    assert not (bare / ".venv" / ".ready").exists(), "a failed set-up must not look done"


def test_nothing_is_installed_twice(bare):
    (bare / ".venv").mkdir()
    (bare / ".venv" / ".ready").touch()
    assert make(bare, "setup", "PYTHON=python-nowhere").returncode == 0
