"""Text from outside stays text: names and cells in pages, figures, tables and paths."""

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packbook.figures import new_figure, styled, svg
from packbook.run.comparison import compared, table, write_csv
from packbook.run.sweep import Outcome
from packbook.shared.histograms import shown_name
from packbook.tables import Points, Table
from packlib.arguments import escaped, in_html, one_line, one_of
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools.auditing import PackingAudit
from packlib.tools.check import Finding, PackingCheck
from tests.hostile import HOSTILE, Elements

NAMES = pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
IN_FIGURES = pytest.mark.parametrize("name", [HOSTILE[at] for at in (2, 5, 10)], ids=("script", "formula", "long"))


@given(st.text() | st.sampled_from(HOSTILE))
def test_an_element_says_what_the_text_says_and_holds_no_formula(text):
    found = Elements(f"<p>{in_html(text)}</p>")
    assert found.text == text and found.names <= {"p", "span"}
    assert all(not attributes for _, attributes in found.tags)
    assert not re.search(r"[$\\][^<]", in_html(text)), "MathJax looks for these in one piece of text"


@given(st.text() | st.sampled_from(HOSTILE), st.sampled_from("\"'"))
def test_an_attribute_holds_the_text_in_either_quotes(text, quote):
    assert Elements(f"<p title={quote}{escaped(text)}{quote}>").tags == [("p", {"title": text})]


@given(st.text() | st.sampled_from(HOSTILE), st.integers(1, 90))
def test_a_name_is_one_short_line_that_can_be_printed(text, most):
    line = one_line(text, most)
    assert len(line) <= most and line.isprintable() and one_line(line, most) == line
    plain = " ".join(re.findall(r"\w+", text))
    if plain.isprintable() and len(plain) <= most:
        assert one_line(plain, most) == plain


def test_a_long_name_keeps_its_ends_and_a_file_name_that_is_no_text_is_shown_without_the_bytes():
    assert one_line("abcdefghijkl", 8) == "abcde…kl" and one_line("a\udcff\u202eb\tc") == "ab c"
    assert LengthHistogram([0, 1], name="a\nb" * 50).name == one_line("a\nb" * 50, 80)
    made = dataclasses.replace(plan(LengthHistogram.from_lengths([3, 1])), method="\x1b[2Jspf\nhp")
    assert made.method == "[2Jspf hp"


def representations(name):
    """Each class of the library that shows itself as HTML and takes a text, with a hostile one wherever it does."""
    histogram = LengthHistogram([0, 3, 2, 1], name=name)
    return {
        "LengthHistogram": histogram,
        "PackingPlan": plan(histogram, method="lpfhp"),
        "Table": Table((name, name), [(name, 1), (name, None)]),
        "Points": Points([name]),
        "PackingCheck": PackingCheck((Finding(name, "failed", name, name, name),)),
        "PackingAudit": PackingAudit(
            name, name, 1, 1, 1, 1, 9, True, 1, 1, None, None, None, None, (name,), (name,), (name,)
        ),
    }


@NAMES
def test_a_name_makes_no_element_where_an_object_shows_itself(name):
    for kind, shown in representations(name).items():
        found, plain = Elements(shown._repr_html_()), Elements(representations("a")[kind]._repr_html_())
        assert not found.faults(), kind
        assert found.names - {"span"} == plain.names, kind
        if kind not in ("Points", "PackingCheck", "PackingAudit"):
            assert len(found.text) < 3000, f"{kind} is too long to read"


@IN_FIGURES
@styled()
def test_a_figure_draws_a_name_as_it_stands(name):
    fig, ax = new_figure()
    ax.loglog([1, 1000], [1, 1000])
    ax.set(title=name[:60], xlabel=name[:60])
    ax.set_yticks([1, 10], [name[:60], "b"])
    picture = svg(fig, name)
    found = Elements(picture)
    drawn = re.findall(r"<!-- (.*?) -->", picture, re.S)
    assert not found.faults() and name in found.text
    assert "10^{3}" in "".join(drawn), "the powers of ten at log axes are formulas"
    if name.startswith("$x$"):
        assert drawn.count(name) == 3
        assert "DejaVuSans-Oblique" not in picture, "an x in italics is a formula"


def outcomes(name):
    first = {"dataset": name, "how": "a"}
    rows = [first, {**first, "dataset": "b"}, {**first, "how": name + "."}]
    return [Outcome(row, 1.0, {name: at, "packs": at}) for at, row in enumerate(rows)]


@IN_FIGURES
def test_a_sweep_shows_its_values_as_text_and_keeps_them_whole_in_its_csv(name, tmp_path):
    shown = Elements(table(outcomes(name))._repr_html_())
    assert not shown.faults() and shown.names <= {"table", "thead", "tbody", "tr", "th", "td", "span"}
    assert max(map(len, repr(table(outcomes(name))).splitlines())) < 3000
    fig, alt = compared(outcomes(name))
    assert not Elements(svg(fig, alt)).faults() and len(fig.axes[0].get_xticklabels()[0].get_text()) <= 16
    write_csv(outcomes(name), tmp_path / "a.csv")
    assert len((tmp_path / "a.csv").read_text()) > 3 * len(name)


def test_a_table_of_numbers_that_are_texts_stands_right():
    table = Table(("<b>", "packs"), [["LPFHP", "1,234 · 5 %"]], right=True)
    assert repr(table) == "  <b>        packs\nLPFHP  1,234 · 5 %" and table._repr_html_().count("nowrap") == 2


def test_names_are_shortened_where_they_are_listed():
    assert shown_name(LengthHistogram([0, 1], name="a" * 99, kind="synthetic")) == f"{'a' * 19}…{'a' * 10} (synthetic)"
    with pytest.raises(ValueError) as refused:
        one_of("column", "b" * 5000, ["a" * 5000] * 99 + ["b" * 4999])
    assert len(str(refused.value)) < 4000
