"""Figures carry words, wrong parameters get one sentence, stored notebooks do not change by themselves."""

import ast
import base64
import io
import os
import sys
import types
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import nbformat
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.text import Text
from papermill import PapermillExecutionError, execute_notebook
from PIL import Image

from cover import draw_cover
from packbook import figures
from packbook.parameters import Choice, Dataset, Number, ParameterError, Parameters, Whole, check_values
from packbook.run.execution import WIDGET_VIEW, run_async, run_in_place, run_notebook, settle
from packbook.run.running import notebooks
from packbook.shared.pack_drawings import draw_packs
from packlib.tools.exits import NotebookFailedError


@figures.styled()
def small_figure():
    fig, ax = figures.new_figure()
    lines = {ax.plot([1, 2, 3], [1, 2, 4], **figures.series(name))[0]: name for name in ("spfhp", "lpfhp")}
    ax.set(title="Two lines end in one point", xlabel="x", ylabel="y")
    figures.label_ends(lines)
    return fig


# Figures


def test_a_figure_is_sixteen_to_nine_and_the_same_every_time():
    one, two = small_figure(), small_figure()
    assert figures.png(one) == figures.png(two) == figures.png(one)
    assert figures.svg(one, "words") == figures.svg(two, "words") == figures.svg(one, "words")
    assert Image.open(io.BytesIO(figures.png(one, dpi=200))).size == (1600, 900)


def test_a_figure_function_without_the_style_is_refused():
    def forgotten():
        return figures.new_figure()

    with pytest.raises(RuntimeError, match=r"put @styled\(\) above the function that calls it"):
        forgotten()
    figure, _ = figures.styled()(forgotten)()
    assert tuple(figure.get_size_inches()) == (8, 4.5)
    with pytest.raises(RuntimeError):  # the function with the style left none behind
        forgotten()


def test_a_figure_is_written_in_the_typeface_that_is_shipped():
    fig = small_figure()
    with figures.styled():
        texts = [text for text in fig.findobj(Text) if text.get_text()]
        found = {Path(font_manager.findfont(text.get_fontproperties())) for text in texts}
    shipped = Path(figures.__file__).parent / "fonts"
    assert found == {shipped / "Inter-Regular.otf"}
    names = {font.name for font in font_manager.fontManager.ttflist if Path(font.fname).parent == shipped}
    assert names == {"packlib Inter"}, "an Inter that is installed stays that of other figures"


@figures.styled()
def test_no_sign_of_a_figure_is_missing(recwarn):
    fig, ax = figures.new_figure()
    ax.set_title("− ± × ≤ ≥ ≈ √ … → ← ▸ ● ○ λ β Σ ‖ ᵢ ⁻")
    figures.png(fig)
    assert [str(warning.message) for warning in recwarn] == []


def test_show_gives_the_picture_its_words_and_saves_it_when_asked(tmp_path, monkeypatch, displayed):
    figures.show(small_figure(), alt='Lines "a" & <b>', name="two-lines")
    monkeypatch.setenv(figures.FIGURES_FOLDER, str(tmp_path / "figures"))
    figures.show(small_figure(), alt="Two lines & more", name="two-lines")
    first, second = displayed
    assert first["text/plain"] == 'Lines "a" & <b>'
    assert first["metadata"]["image/png"] == {"alt": 'Lines "a" & <b>', "width": 800}
    fields = {"kind": "figure", "name": "two-lines", "alt": 'Lines "a" & <b>'}
    assert first["packlib"] == {**fields, "title": "Two lines end in one point"}
    root = ElementTree.parse(tmp_path / "figures" / "two-lines.svg").getroot()
    assert [part.text for part in root[:2]] == ["Two lines end in one point", "Two lines & more"]
    saved = Image.open(tmp_path / "figures" / "two-lines.png").convert("RGB")
    assert saved.size == (1920, 1080) and saved.getpixel((0, 0)) == (255, 255, 255)
    encoded = base64.b64encode((tmp_path / "figures" / "two-lines.png").read_bytes()).decode()
    assert encoded == second["image/png"]  # drawn once
    assert len(list((tmp_path / "figures").iterdir())) == 2


@pytest.mark.parametrize(("alt", "name", "says"), [(" ", "a", "needs an alt text"), ("words", "A b", "not 'A b'")])
def test_show_refuses_a_figure_without_words_or_with_a_bad_name(alt, name, says, displayed):
    with pytest.raises(ValueError, match=says):
        figures.show(small_figure(), alt=alt, name=name)
    assert not displayed


@figures.styled()
def test_each_length_of_a_pack_is_written_where_it_fits():
    fig, axes = figures.new_figure(1, 2)
    draw_packs(axes[0], [(10,) * 12], 128)
    fig.draw_without_rendering()
    written = [text.get_window_extent() for text in axes[0].texts]
    assert len(written) == 12 and all(one.x1 < other.x0 for one, other in pairwise(written))


# Parameters

CELL = Parameters(
    dataset=Dataset(), depth=Whole(1, 512, optional=True), rate=Number(0, 1), habit=Choice(("one", "two"))
)


@pytest.fixture
def chapter(monkeypatch):
    """A notebook 90_small with a parameter of every kind."""
    module = types.ModuleType("packbook.n90_small")
    module.PARAMETERS = CELL
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return "90_small"


GOOD = {"dataset": "wikipedia", "depth": None, "rate": 0.5, "habit": "one", "seed": 0, "quick": True}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"depth": 2.5}, "depth must be a whole number from 1 to 512, not 2.5."),
        ({"habit": "tow"}, "not 'tow': did you mean 'two'?"),
        ({"quick": 1}, "quick must be True or False, not 1."),
        ({"dataset": "wikipedai"}, "not 'wikipedai': did you mean 'wikipedia'"),
        ({"sede": 1}, "not 'sede': did you mean 'seed'"),
        ({"seed": 2**32}, "seed must be from 0 to 4294967295, not 4294967296."),
        ({"seed": -1}, "seed must be from 0 to 4294967295, not -1."),
    ],
)
def test_a_wrong_parameter_gets_one_sentence(chapter, changes, says):
    with pytest.raises(ParameterError) as caught:
        check_values(chapter, GOOD | changes)
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value._render_traceback_() == [str(caught.value)]


def test_a_notebook_hands_over_all_its_names_and_gets_its_parameters():
    """`check_parameters(globals())`: imports and what else the notebook holds are no parameters."""
    cell = {**GOOD, "depth": "none", "np": np, "guess": ..., "In": []}
    assert vars(CELL.check(cell)) == {**GOOD, "depth": None}
    assert list(CELL) == ["dataset", "depth", "rate", "habit", "seed", "quick"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"depth": 2.5}, "depth must be a whole number from 1 to 512, not 2.5."),
        ({"rate": ..., "seed": ...}, "The notebook also needs the parameters rate and seed."),
        ({"quick": ...}, "The notebook also needs the parameter quick."),
    ],
)
def test_what_is_wrong_among_the_names_of_a_notebook_gets_one_sentence(changes, says):
    with pytest.raises(ParameterError) as caught:
        CELL.check({name: value for name, value in (GOOD | changes).items() if value is not ...})
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_every_seed_that_is_taken_is_one_for_numpy(chapter):
    most = 2**32 - 1
    assert check_values(chapter, {**GOOD, "seed": most})["seed"] == most
    np.random.RandomState(most)
    with pytest.raises(ValueError, match="Seed must be between"):
        np.random.RandomState(most + 1)


def test_text_is_read_as_from_a_shell(chapter):
    given = {**GOOD, "depth": "none", "quick": "false", "rate": "0.25", "seed": "7"}
    assert check_values(chapter, given) == {**GOOD, "depth": None, "quick": False, "rate": 0.25, "seed": 7}


def test_papermill_itself_is_answered_as_the_shell_is(tmp_path):
    whole = nbformat.read(notebooks()["02_greedy_packing"], as_version=4)
    call = "from packbook.n02_greedy_packing import check_parameters\ncheck_parameters(globals())"
    whole.cells = [whole.cells[1], nbformat.v4.new_code_cell(call)]  # the parameters come first
    nbformat.write(whole, tmp_path / "in.ipynb")

    def papermill(**given):
        paths = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
        ran = execute_notebook(*paths, given, kernel_name="python3", progress_bar=False)
        return ran.cells[-1].outputs[-1].data["text/plain"]

    with pytest.raises(PapermillExecutionError, match="'seed' or 'quick', not 'depht'"):
        papermill(depht="8")
    shown = papermill(max_sequences_per_pack="none", quick="false")
    wanted = dict(dataset="wikipedia", max_sequences_per_pack=None, seed=0, quick=False)
    assert vars(eval(shown, {"namespace": types.SimpleNamespace})) == wanted


def test_a_cell_of_a_learner_that_begins_as_that_of_papermill_sets_no_parameter(monkeypatch):
    """papermill sets its values right after the cell with the parameters, the first that runs."""
    shell = types.SimpleNamespace(user_ns={"In": ["", "seed: int = 0", "import numpy", "# Parameters\nwidth = 3"]})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("packbook.figures.show_dark_style", lambda: None)
    assert CELL.check(GOOD).seed == 0
    shell.user_ns["In"][2] = "# Parameters\nwidth = 3"
    with pytest.raises(ParameterError, match=r"a parameter must be 'dataset', .* not 'width'"):
        CELL.check(GOOD)


# Stored notebooks


def notebook(*sources):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def test_settle_drops_what_changes_and_what_dies():
    cells = notebook("1", "1", "2")
    cells.metadata["widgets"] = {"state": {}}
    kept = {"tags": ["nbval-ignore-output"], "jupyter": {"source_hidden": True}, "packlib": {"slide": {"skip": True}}}
    lost = {"execution": {"iopub.execute_input": "now"}, "papermill": {"duration": 1}, "ExecuteTime": {}}
    cells.cells[1].metadata = nbformat.from_dict(kept | lost)
    live = nbformat.v4.new_output("display_data", {WIDGET_VIEW: {"model_id": "x"}, "text/html": "still"})
    cells.cells[2].outputs = [live]
    once = settle(cells)
    assert "widgets" not in once.metadata and once.cells[1].metadata == kept
    assert once.cells[2].outputs[0].data == {"text/html": "still"}
    assert len({cell.id for cell in once.cells}) == 3
    nbformat.validate(once)


def test_a_notebook_runs_in_its_folder_with_what_it_is_given(tmp_path, capfd):
    path = tmp_path / "90_small.ipynb"
    cells = notebook("n, name = 1, 'a'", "import os\n(n, name, os.environ['GIVEN'], os.getcwd())")
    cells.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(cells, path)
    values, before = {"n": None, "name": 'a"\n'}, dict(os.environ)
    done = run_async(run_notebook(path, values, {"GIVEN": "x"}, progress=True))
    assert ast.literal_eval(done.cells[2].outputs[0].data["text/plain"]) == (*values.values(), "x", str(tmp_path))
    assert done.cells[1].metadata.tags == ["injected-parameters"] and len(done.cells) == 3
    assert before == os.environ and "100%" in capfd.readouterr().err
    with pytest.raises(NotebookFailedError, match=r"^cell \[1\] of 90_small took longer than 1 seconds\.$"):
        nbformat.write(notebook("import time; time.sleep(600)"), path)
        run_async(run_notebook(path, seconds=1))
    nbformat.write(notebook("1 / 0"), path)
    stored = path.read_bytes()
    with pytest.raises(NotebookFailedError, match=r"^cell \[1\] of 90_small failed: ZeroDivisionError"):
        run_in_place(path)
    assert path.read_bytes() == stored and list(tmp_path.iterdir()) == [path]


def test_the_cover_is_what_its_command_draws():
    assert Path(__file__).parents[2].joinpath("README.svg").read_text() == draw_cover()
