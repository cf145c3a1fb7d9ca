"""The files that other tools read (citation, hosted tests) are valid, and say what the project says."""

import re
import tomllib
from pathlib import Path

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("schema", "path"),
    [("citation-file-format", ROOT / "CITATION.cff"), *(("github-workflows", path) for path in WORKFLOWS)],
)
def test_it_is_valid_by_the_official_schema(schema, path):
    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", f"vendor.{schema}", str(path)])
    assert done.exit_code == 0, done.output


def test_the_citation_names_this_version_and_every_paper_of_the_references():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "CITATION.cff").read_text()
    citation, page = yaml.safe_load(text), (ROOT / "notebooks/REFERENCES.md").read_text()
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    cited = set(re.findall(r"arxiv\.org/abs/([\d.]+\d)", page))
    assert cited and cited == set(re.findall(r"arxiv\.org/abs/([\d.]+\d)", text))
