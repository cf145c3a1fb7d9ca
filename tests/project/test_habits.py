"""The files that other tools read (citation, hosted tests, hooks) are valid, and say what the project says."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import check_jsonschema
import commit_message
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
    page = (ROOT / "REFERENCES.md").read_text()
    cited = set(re.findall(r"arxiv\.org/abs/([\d.]+\d)", page))
    assert cited and cited == set(re.findall(r"arxiv\.org/abs/([\d.]+\d)", (ROOT / "CITATION.cff").read_text()))
    table = page.partition("| idea | cite |")[2].partition("```")[0]
    for paper in CITATION["references"]:
        assert paper["authors"][0]["family-names"] in table and str(paper["year"]) in table, paper["title"]


def test_the_hosted_tests_are_ours_on_the_oldest_python_and_a_newer_one():
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    assert "make test" in (ROOT / ".ci/run").read_text() and job["steps"][-1] == {"run": "make test"}
    oldest, newer = job["strategy"]["matrix"]["python"]
    assert PROJECT["requires-python"] == f">={oldest}" and newer == "3.13"


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


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (f"{'x' * 71}\n\nBecause.\n", ""),
        ("Fix a thing\n\nBecause.\n# On branch main\n", ""),
        ("Merge branch 'other'\n", ""),
        (f"{'x' * 72}\n\nBecause.\n", "The subject must have 1 to 71 characters, not 72: 'xxx"),
        ("# all is git's\n", "The subject must have 1 to 71 characters, not 0: ''"),
        ("Fix a thing\nbecause.\n", "The line below the subject must be empty, not 'because.'"),
        ("Fix a thing\n\n# On branch main\n", "The message must say in its body why: 'Fix a thing' has none"),
    ],
)
def test_a_commit_says_what_in_a_short_subject_and_why_below(message, said, tmp_path, capsys):
    (tmp_path / "message").write_text(message)
    assert commit_message.main(str(tmp_path / "message")) == bool(said)
    assert capsys.readouterr().err.startswith(said) and commit_message.fault(message).startswith(said)
