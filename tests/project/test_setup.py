"""The ways in say the same, and say in one sentence what is missing."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import Requirement

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


def test_the_citation_is_valid_and_names_this_version():
    """Else the hosts of the repository show no citation."""
    path = ROOT / "CITATION.cff"
    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", "vendor.citation-file-format", str(path)])
    citation = yaml.safe_load(path.read_text())
    assert done.exit_code == 0, done.output
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])


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
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def sentence(done):
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert done.returncode != 0 and len(lines) == 1, done.stderr
    return lines[0]


def test_make_names_a_missing_and_an_old_python(bare):
    assert "no python-nowhere; install Python 3.11" in sentence(make(bare, "setup", "PYTHON=python-nowhere"))
    old = bare / "python-old"
    old.write_text('#!/bin/sh\ncase "$*" in *version_info*) exit 1;; *--version*) echo Python 3.9.2;; esac\n')
    old.chmod(0o755)
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
