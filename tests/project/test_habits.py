"""The files that other tools read (citation, hosted tests, hooks) are valid, and say what the project says."""

import re
import tomllib
from pathlib import Path

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
WORKFLOWS = ROOT / ".github/workflows"


def check(schema, path):
    """What `check-jsonschema` says; it brings the official schemas along."""
    return CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", f"vendor.{schema}", str(path)])


@pytest.mark.parametrize(
    ("schema", "path", "wrong"),
    [
        ("citation-file-format", ROOT / "CITATION.cff", ("type: article", "type: paper")),
        *(("github-workflows", path, ("runs-on:", "runs_on:")) for path in sorted(WORKFLOWS.glob("*.yml"))),
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
