"""Every notebook has the form that readers rely on. That the outputs of chapters hold is nbval's part of the same run.

Those of solutions are compared here: their cells need no kernel of their own.
"""

import ast
import copy
import importlib
import inspect
import math
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

from packbook.pages import markdown_to_html
from packbook.parameters import check_values, parameters_of
from packbook.publish.website.building import PAGES
from packbook.results import meaning, questions_of
from packbook.run.copies import make_copies
from packbook.run.execution import WIDGET_VIEW, settle
from packlib.arguments import escaped

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@cache
def read(path):
    """A notebook; tests leave it as it is."""
    return nbformat.read(path, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def text_of(output):
    """What an output says in plain text, an error's message included."""
    return output.get("text") or output.get("data", {}).get("text/plain") or output.get("evalue", "")


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def notebook(name):
    return read(FOLDER / f"{name}.ipynb")


@pytest.fixture
def chapter(name):
    return importlib.import_module(f"packbook.n{name}")


FILES = sorted([*FOLDER.glob("*.ipynb"), *FOLDER.glob("solutions/*.ipynb")])


@pytest.fixture(params=FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def stored(request):
    """Each notebook file, solutions too."""
    return request.param


# What holds for each file


def test_all_cells_ran_in_order_without_an_error(stored):
    notebook = read(stored)
    assert [cell.execution_count for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1))
    for cell in code(notebook):
        assert not [o for o in cell.outputs if o.output_type == "error" or o.get("name") == "stderr"], cell.source
        assert "raises-exception" not in tags(cell) and "nbval-skip" not in tags(cell)


def test_the_file_is_small_and_settled(stored):
    notebook = read(stored)
    assert stored.stat().st_size < 400_000
    assert settle(copy.deepcopy(notebook)) == notebook, "run it with make notebooks"
    assert WIDGET_VIEW not in stored.read_text()


def test_each_picture_has_words_and_comes_once(stored):
    words, drawn = [], []
    for output in [output for cell in code(read(stored)) for output in cell.outputs if "data" in output]:
        assert "<img" not in output.data.get("text/html", ""), "LaTeX, PDF and some viewers would lose it"
        for kind in [kind for kind in output.data if kind.startswith("image/")]:
            alt = output.metadata[kind]["alt"]
            assert kind == "image/png" and meaning(output)["kind"] == "figure", "figures go through show(...)"
            assert len(alt.split()) >= 5 and alt in output.data["text/plain"]
            words.append(alt)
            drawn.append(output.data[kind])
    assert len(set(words)) == len(words) and len(set(drawn)) == len(drawn)


def prose(notebook):
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def words_of(path):
    """What a notebook or a page of Markdown says."""
    return prose(read(path)) if path.suffix == ".ipynb" else path.read_text()


def dead_links(path, root=ROOT):
    """The links of a notebook or a page that lead nowhere, or out of `root`; those to other sites are not followed."""
    text = re.sub(r"```.*?```|`[^`]*`", "", words_of(path), flags=re.S)
    for target in re.findall(r"\]\(((?!https://|mailto:)[^)\s]+)\)", text):
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        if not found.exists() or not found.is_relative_to(root):
            yield target
        heading = re.escape(anchor).replace(r"\-", "[ -]")
        letters = re.I if found.suffix == ".md" else 0  # Jupyter keeps capitals, hosts of Markdown do not
        if anchor and found.exists() and not re.search(f"^#+ {heading}$", words_of(found), re.M | letters):
            yield f"{found.name} has no heading {anchor!r}"


def test_links_lead_somewhere_in_the_folder_of_a_learner_too(tmp_path):
    """`make lab` serves the copies alone, so a link must not lead out of them."""
    make_copies(FOLDER, tmp_path / "lab")
    for copied in (tmp_path / "lab").rglob("*.ipynb"):
        assert not list(dead_links(copied, tmp_path / "lab")), copied.name


@pytest.mark.parametrize("name", [*PAGES, "data/README.md"])
def test_links_of_the_pages_lead_somewhere(name):
    assert not list(dead_links(ROOT / name))


def test_no_cell_of_a_line_or_two_is_folded(stored):
    """A figure is drawn by a line that is seen."""
    for cell in code(read(stored)):
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")
        assert not folded or cell.source.count("\n") > 3, cell.source


def test_formulas_are_understood_without_a_network(stored):
    page = markdown_to_html(prose(read(stored)))
    for formula in re.findall(r"<math.*?</math>", page, re.S):
        assert "\\" not in formula, f"a command that MathML does not know: {formula}"


# What holds for each chapter


def test_parameters_are_typed_literals_that_the_shell_knows(name, notebook):
    (cell,) = [cell for cell in notebook.cells if "parameters" in tags(cell)]
    assert cell is notebook.cells[1]
    nodes = ast.parse(cell.source).body
    assert all(isinstance(node, ast.AnnAssign) for node in nodes)
    kinds = parameters_of(name)
    found = {node.target.id: ast.unparse(node.annotation) for node in nodes}
    typed = {"Whole": "int", "Number": "float", "Flag": "bool", "Choice": "str", "Dataset": "str"}
    optional = {key for key, kind in kinds.items() if getattr(kind, "optional", False)}
    assert found == {key: typed[type(kind).__name__] + " | None" * (key in optional) for key, kind in kinds.items()}
    check_values(name, {node.target.id: ast.literal_eval(node.value) for node in nodes})
    for line in cell.source.splitlines():
        assert re.search(r"  # \S", line), f"`packbook list` shows the comment that is missing: {line}"


def test_solutions_give_what_is_stored(name, capsys, displayed):
    names = {}
    for cell in code(read(FOLDER / "solutions" / f"{name}.ipynb")):
        displayed.clear()
        exec(cell.source, names)
        assert capsys.readouterr().out == "".join(o.text for o in cell.outputs if o.output_type == "stream")
        assert displayed == [o.data for o in cell.outputs if o.output_type == "display_data"]
        assert {o.output_type for o in cell.outputs} <= {"stream", "display_data"}


def test_stubs_fit_their_checkers(name, notebook, chapter):
    solutions = read(FOLDER / "solutions" / f"{name}.ipynb")
    for exercise in chapter.check.values():
        calls = [[cell for cell in code(one) if re.search(rf'^check\("{exercise.name}", \w+\)', cell.source, re.M)]
                 for one in (notebook, solutions)]  # fmt: skip
        (stub,), (solved,) = calls
        assert "not tried yet" in text_of(stub.outputs[-1])
        assert f"{exercise.name}: right" in text_of(solved.outputs[0])
        if callable(exercise.solution):
            for cell in (stub, solved):
                function = next(n for n in ast.parse(cell.source).body if getattr(n, "name", "") == exercise.name)
                assert [a.arg for a in function.args.args] == list(inspect.signature(exercise.solution).parameters)


def test_all_that_the_door_of_a_chapter_names_is_there(chapter):
    assert all(getattr(chapter, one) is not None for one in dir(chapter) if not one.startswith("__"))


def test_a_chapter_calls_in_its_cells_what_it_teaches_of_the_library(name, notebook):
    """So that a learner has lines to copy; 17 teaches no call, but how sure a result is."""
    if name.startswith("17"):
        pytest.skip("17 teaches no call")
    trees = [ast.parse(cell.source) for cell in code(notebook)]
    imports = [node for tree in trees for node in ast.walk(tree)
               if isinstance(node, ast.ImportFrom) and node.module.startswith("packlib")]  # fmt: skip
    offered = {one.asname or one.name for node in imports for one in node.names}
    calls = [ast.unparse(node.func) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert len({call.partition(".")[0] for call in calls} & offered) >= 1, "a chapter calls the library itself"


def words_in(nodes):
    """The texts that are written down in some expressions."""
    inside = [node for one in nodes for node in ast.walk(one) if isinstance(node, ast.Constant)]
    return {node.value for node in inside if isinstance(node.value, str)}


def reveals(notebook):
    """The calls that answer a guess, each with the outputs of its cell that do."""
    for cell in code(notebook):
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.Expr) and ast.unparse(node).startswith("reveal("):
                marked = [output for output in cell.outputs if "packlib" in output.get("metadata", {})]
                yield node.value, [output for output in marked if output.metadata.packlib.kind == "reveal"]


def test_each_guess_has_its_question_in_bold_above_it_and_its_answer_below(notebook, chapter):
    names = [call.args[0].value for call, _ in reveals(notebook)]
    asked = [words for words, _ in questions_of(notebook)]
    assert names == list(chapter.QUESTIONS) and len(asked) == len(names), "each guess is revealed"
    for name, words in zip(names, asked, strict=True):
        question = chapter.QUESTIONS[name]
        assert words, f"no question stands above the guess of {name}"
        assert all(choice in words for choice in question.choices), f"{name} offers what its question does not name"
        assert question.unit != "%" or "percent" in words, f"{name} does not say its unit"


def test_what_is_stored_beside_an_answer_is_what_the_chapter_has(notebook, chapter):
    """The site judges guesses by it, and nbval compares no metadata."""
    for call, (output,) in reveals(notebook):
        question, judging = chapter.QUESTIONS[call.args[0].value], output.metadata.packlib.judging
        assert judging.choices == question.choices and judging.unit == question.unit
        assert judging.by_factor == question.by_factor
        assert tuple(math.inf if bound is None else bound for bound in judging.limits) == (*question.bounds,)
        fixed = re.split(r"\{[^}]*\}", question.why)
        assert re.fullmatch(".*".join(map(re.escape, fixed)), output.metadata.packlib.why, re.S)


def test_no_answer_can_be_read_before_the_guess(notebook, chapter):
    """Neither in the cell, which gives `reveal` values, nor in what is stored beside the fold."""
    for call, (output,) in reveals(notebook):
        choices = {*chapter.QUESTIONS[call.args[0].value].choices}
        words = words_in([*call.args[2:], *call.keywords])
        assert words_in(call.args[2:]) & choices in (set(), choices), "the call names all choices, or none"
        assert all(re.fullmatch(r"\w+", word) for word in words - choices), "no reason"
        means = output.metadata.packlib
        page, _, folded = output.data["text/html"].partition("<details>")
        assert escaped(means.answer) in folded and escaped(means.why) in folded
        seen = f"{page} {output.data['text/plain']}".replace(means.get("question", ""), "")
        assert means.answer not in seen and means.why not in seen


def test_the_level_and_the_minutes_above_an_exercise_are_those_of_the_chapter(notebook, chapter):
    above, section = {}, ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            section = cell.source if re.search("^##", cell.source, re.M) else section + cell.source
        elif asked := re.search(r'^check\("(\w+)"', cell.source, re.M):
            above[asked[1]] = re.findall(r"\*Level (\d) of 3, (\d+) minutes\.\*", section)
    assert above == {one.name: [(str(one.level), str(one.minutes))] for one in chapter.check.values()}


def test_the_prose_above_a_guess_does_not_say_the_answer(notebook):
    """Of numbers with three letters, such as 508 or 0.5, which do not meet by chance; a list only offers some."""
    answers = [output.metadata.packlib.answer for _, (output,) in reveals(notebook)]
    asked = iter(zip(questions_of(notebook), answers, strict=True))
    above = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            above = cell.source if cell.source.startswith("## ") else above + cell.source
        elif cell.source.startswith("guess = ..."):
            (words, _), answer = next(asked)
            number = re.match(r"\d[\d,.]+\d", answer)
            prose = " ".join(above.replace("`", "").split()).replace(words, "")
            said = re.findall(r"\d[\d,.]+\d", re.sub(r"(?:\d[\d.]*, ){2,}\d[\d.]* (?:and|or) \d[\d.]*", "", prose))
            assert not number or number[0] not in said, words


def test_no_output_beside_an_open_question_says_the_answer(notebook):
    for cell in code(notebook):
        for output in cell.outputs:
            means = output.get("metadata", {}).get("packlib", {})
            answer = re.match(r"\d[\d,.]*\d", means.get("answer", ""))
            if means.get("kind") == "reveal" and answer:
                others = " ".join(text_of(other) for other in cell.outputs if other is not output)
                assert answer[0] not in re.findall(r"\d[\d,.]*\d", others), means.question
