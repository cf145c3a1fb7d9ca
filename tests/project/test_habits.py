"""The files that other tools read (citation, hosted tests, hooks) are valid, and say what the project says."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
WORKFLOW = ROOT / ".github/workflows/test.yml"
HOOKS = ROOT / ".pre-commit-config.yaml"


def check(schema, path):
    """What `check-jsonschema` says; it brings the official schemas along."""
    return CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", f"vendor.{schema}", str(path)])


@pytest.mark.parametrize(
    ("schema", "path", "wrong"),
    [
        ("citation-file-format", ROOT / "CITATION.cff", ("type: article", "type: paper")),
        ("github-workflows", WORKFLOW, ("runs-on:", "runs_on:")),
    ],
)
def test_it_is_valid_by_the_official_schema(schema, path, wrong, tmp_path):
    assert check(schema, path).exit_code == 0, check(schema, path).output
    broken = tmp_path / path.name
    broken.write_text(path.read_text().replace(*wrong, 1))
    assert check(schema, broken).exit_code == 1


def test_the_citation_names_this_version_and_every_paper_of_the_references():
    assert (CITATION["version"], CITATION["license"]) == (PROJECT["version"], PROJECT["license"])
    page = (ROOT / "notebooks/REFERENCES.md").read_text()
    cited = set(re.findall(r"arxiv\.org/abs/([\d.]+\d)", page))
    assert cited and cited == set(re.findall(r"arxiv\.org/abs/([\d.]+\d)", (ROOT / "CITATION.cff").read_text()))
    table = page.partition("| idea | cite |")[2].partition("```")[0]
    for paper in CITATION["references"]:
        assert paper["authors"][0]["family-names"] in table and str(paper["year"]) in table, paper["title"]


def test_the_hosted_tests_are_ours_and_begin_with_the_oldest_python():
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["test"]
    assert "make test" in (ROOT / ".ci/run").read_text() and job["steps"][-1] == {"run": "make test"}
    assert PROJECT["requires-python"] == f">={job['strategy']['matrix']['python'][0]}"


def test_the_hosted_tests_run_no_code_of_others_that_can_change():
    """A tag can be moved; a commit cannot."""
    used = re.findall(r"uses: (.*)", WORKFLOW.read_text())
    assert used and all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v[0-9.]+", action) for action in used), used
    assert yaml.safe_load(WORKFLOW.read_text())["permissions"] == {"contents": "read"}


def test_the_hooks_are_local_and_run_what_make_test_runs_before_the_tests():
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", HOOKS], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    (repository,) = yaml.safe_load(HOOKS.read_text())["repos"]
    assert repository["repo"] == "local"
    hooks = {hook["id"]: hook["entry"] for hook in repository["hooks"]}
    recipe = (ROOT / "Makefile").read_text().partition("\ntest: ")[2].partition("\n\n")[0]
    linters = [line for line in re.findall(r"\$\(PY\) -m (\S+)", recipe) if line != "pytest"]
    assert {"ruff", "codespell_lib"} <= set(linters)
    for linter in linters:
        assert any(entry.startswith(f".venv/bin/python -m {linter}") for entry in hooks.values()), linter
