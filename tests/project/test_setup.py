"""The ways in say the same, and say in one sentence what is missing."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LEARNERS = ("train", "lab", "hub")  # extras of `make setup`, and of the environment for conda
INSTALLED = (*LEARNERS, "site", "test")  # extras of `make test`
OLDEST, NEWEST = "3.11.2", "3.14"  # Python: that of Debian 12, and the last that all pinned packages have wheels for
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def pairs(lines):
    """Requirements as a set of (name, specifier)."""
    return {(r.name.lower(), str(r.specifier)) for r in map(Requirement, lines)}


def with_extras(names):
    extras, lines, waiting = PROJECT["optional-dependencies"], list(PROJECT["dependencies"]), list(names)
    while waiting:
        for line in extras[waiting.pop()]:
            wanted = Requirement(line)
            if wanted.name == "packlib":  # an extra within an extra
                waiting += wanted.extras
            else:
                lines.append(line)
    return pairs(lines)


@pytest.fixture(scope="module")
def wanted():
    return with_extras(INSTALLED)


@pytest.fixture(scope="module")
def pins():
    lines = (ROOT / "constraints.txt").read_text().split()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line) for line in lines), "exact public versions only"
    return {name.lower().replace("_", "-"): version for name, version in (line.split("==") for line in lines)}


def test_environment_yml_says_the_same_as_pyproject():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert f"python{PROJECT['requires-python']}" in conda
    lines = next(part["pip"] for part in conda if isinstance(part, dict))
    assert [line for line in lines if line.startswith("-")] == ["--constraint constraints.txt", "--editable ."]
    assert pairs(line for line in lines if not line.startswith("-")) == with_extras(LEARNERS)


def test_the_oldest_and_the_newest_python_are_promised_and_tested():
    after = f"3.{int(NEWEST.partition('.')[2]) + 1}"
    assert PROJECT["requires-python"] == f">={OLDEST},<{after}"
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    tested = jobs["test"]["strategy"]["matrix"]["python"]
    assert (tested[0], tested[-1]) == (OLDEST, NEWEST)
    assert f"Python {OLDEST} to {NEWEST}" in (ROOT / "README.md").read_text()
    image = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())["image"]
    assert image.rpartition(":")[2] in SpecifierSet(PROJECT["requires-python"])


def test_every_pinned_package_that_is_here_takes_the_oldest_and_the_newest_python(pins):
    seen, refused = 0, []
    for package in distributions():
        name = package.name.lower().replace("_", "-")
        if pins.get(name) == package.version:
            seen += 1
            takes = SpecifierSet(package.metadata.get("Requires-Python") or "")
            refused += [f"{name} {takes}"] * (not all(takes.contains(version) for version in (OLDEST, NEWEST)))
    assert not refused
    assert seen > 50, "this test sees the pinned packages"


def test_no_link_of_the_readme_is_dead_on_a_package_index(tmp_path):
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    step = next(step for step in release["jobs"]["build"]["steps"] if "README" in step.get("name", ""))
    (tmp_path / "README.md").write_text((ROOT / "README.md").read_text() + "[a](b.md#c) [d](#e)\n")
    values = {"GITHUB_REPOSITORY": "someone/packing", "GITHUB_SHA": "0" * 40}
    subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=os.environ | values, check=True)
    links = re.findall(r"\]\(([^)]+)\)", (tmp_path / "README.md").read_text())
    assert links[-2:] == [f"https://github.com/someone/packing/blob/{'0' * 40}/b.md#c", "#e"]
    assert all(link.startswith("https://") for link in links[:-1])
    picture = next(link for link in links if link.endswith("README.svg"))
    assert picture == f"https://raw.githubusercontent.com/someone/packing/{'0' * 40}/README.svg"


def test_a_release_tells_the_index_where_its_source_is(tmp_path):
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    step = next(step for step in release["jobs"]["build"]["steps"] if "[project.urls]" in step.get("run", ""))
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    here = os.environ | {"GITHUB_REPOSITORY": "someone/packing"}
    subprocess.run(["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=here, check=True)
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]
    assert urls == {
        "Repository": "https://github.com/someone/packing",
        "Issues": "https://github.com/someone/packing/issues",
        "Changelog": "https://github.com/someone/packing/blob/main/CHANGELOG.md",
        "Documentation": "https://someone.github.io/packing/",
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=[path.stem for path in WORKFLOWS])
def test_a_workflow_is_valid(path):
    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", "vendor.github-workflows", str(path)])
    assert done.exit_code == 0, done.output


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
    assert citation["version"] == PROJECT["version"]
    assert citation["authors"] == PROJECT["authors"]
    released = f"## {citation['version']} ({citation['date-released']}"
    assert released in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert citation["license"] == PROJECT["license"].split(" AND ")[0], (
        "of the code; letters and glosses have their own"
    )


@pytest.mark.parametrize(
    ("schema", "place"),
    [("vendor.dependabot", "dependabot.yml"), ("vendor.github-issue-forms", "ISSUE_TEMPLATE/*.yml")],
)
def test_what_else_the_host_reads_is_valid(schema, place):
    paths = [str(path) for path in (ROOT / ".github").glob(place)]
    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", schema, *paths])
    assert paths and done.exit_code == 0, done.output


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


def test_the_first_make_lab_opens_the_tour_and_later_ones_what_was_open(bare):
    for is_first in (True, False):
        assert ("default_url=/lab/tree/00_tour.ipynb" in make(bare, "-n", "lab").stdout) == is_first
        (bare / "lab").mkdir(exist_ok=True)
        (bare / "lab" / "00_tour.ipynb").touch()


def sentence(done):
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert done.returncode != 0 and len(lines) == 1, done.stderr
    return lines[0]


def python_of(version, folder):
    """A command that is this Python, but for the version that it says of itself."""
    command = folder / f"python-{version}"
    told = tuple(map(int, version.split(".")))
    command.write_text(f"""#!/bin/sh
    case "$1" in
        --version) echo Python {version};;
        -c) exec {sys.executable} -c "import sys; sys.version_info = {(*told, "final", 0)}
exec(sys.argv[1])" "$2";;
        *) echo went on: "$@" >&2; exit 1;;
    esac
    """)
    command.chmod(0o755)
    return command


@pytest.mark.parametrize("version", ["2.7.18", "3.9.2", "3.11.1", "3.15.0"])
@pytest.mark.parametrize("target", ["lab", "test"])
def test_make_refuses_another_python_before_anything_is_made(bare, target, version):
    said = sentence(make(bare, target, f"PYTHON={python_of(version, bare)}"))
    promised = PROJECT["requires-python"]
    assert said == f"make: Python {version} does not fit: packlib needs Python {promised}; name one with make PYTHON=…"
    assert not (bare / ".venv").exists()


@pytest.mark.parametrize("version", ["3.11.2", "3.11.15", "3.12.0", "3.14.99"])
def test_make_takes_every_python_that_is_promised(bare, version):
    assert "went on: -m venv" in make(bare, "setup", f"PYTHON={python_of(version, bare)}").stderr


def test_make_names_a_missing_python(bare):
    promised = PROJECT["requires-python"]
    said = sentence(make(bare, "setup", "PYTHON=python-nowhere"))
    assert said == f"make: there is no python-nowhere: packlib needs Python {promised}; name one with make PYTHON=…"


@pytest.fixture
def without_network(bare):
    """`make setup` with a pip that reaches no index; it takes more arguments."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", bare / ".venv"], check=True
    )
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
    nowhere |= {"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0"}
    return lambda *arguments: make(bare, "setup", *arguments, **nowhere)


@pytest.mark.slow
def test_make_says_that_there_is_no_network(bare, without_network):
    assert "no network: pip cannot reach its package index" in sentence(without_network())
    assert not (bare / ".venv" / ".ready").exists(), "a failed set-up must not look done"


@pytest.mark.slow
def test_an_index_of_pytorch_that_does_not_answer_stops_nothing(without_network):
    done = without_network("TORCH=cpu", "TORCH_INDEX=http://127.0.0.1:9/whl/cpu")
    first, second, *_ = done.stderr.splitlines()
    assert first == (
        "make: pip got no PyTorch from http://127.0.0.1:9/whl/cpu (see .venv/torch.log): "
        "it takes the usual build, which on Linux brings several GB for CUDA."
    )
    assert "no network: pip cannot reach its package index" in second


@pytest.mark.slow
def test_one_word_takes_the_build_for_a_cpu(bare, without_network, pins):
    index, name = bare / "whl" / "cpu" / "torch", f"torch-{pins['torch']}+cpu"
    index.mkdir(parents=True)
    with zipfile.ZipFile(index / f"{name}-py3-none-any.whl", "w") as wheel:
        about = f"{name}.dist-info"
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {pins['torch']}+cpu\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    (index / "index.html").write_text(f'<a href="{name}-py3-none-any.whl">{name}</a>')
    done = without_network("TORCH=cpu", f"TORCH_INDEX={index.parent.as_uri()}")
    assert "no network: pip cannot reach its package index" in sentence(done), "what else is needed comes from there"
    assert list((bare / ".venv").glob(f"lib/*/site-packages/{about}"))


def test_the_build_for_a_cpu_comes_from_pytorch():
    makefile = (ROOT / "Makefile").read_text()
    assert "\nTORCH_INDEX ?= https://download.pytorch.org/whl/$(TORCH)\n" in makefile
    assert "make setup TORCH=cpu" in (ROOT / "README.md").read_text().split("```")[1]
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert container["postCreateCommand"] == "make setup TORCH=cpu"


def test_nothing_is_installed_twice(bare):
    (bare / ".venv").mkdir()
    (bare / ".venv" / ".ready").touch()
    assert make(bare, "setup", "PYTHON=python-nowhere").returncode == 0
