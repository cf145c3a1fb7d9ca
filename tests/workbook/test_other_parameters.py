"""Every notebook runs with other parameters too; what it asserts inside holds, and its figures keep the style.

One run has other data and other numbers, and another the smallest of all: one sequence, one of each. Both try guesses
of all kinds, and read every sentence for a number that is stale, and for a plural of one.

`make test-all` also runs each with `quick=False`.
"""

import ast
import contextlib
import io
import os
import re
import sys
from importlib import import_module

import nbformat
import numpy as np
import pytest
from figure_style import style_faults, touches_the_edge
from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.colors import to_rgb
from PIL import Image
from traitlets.config import Config

from packbook.figures import OKABE_ITO, label_ends, new_figure, png, series, styled, svg
from packbook.pages import PageExporter
from packbook.parameters import Choice, Dataset, Flag, Whole, check_values, parameters_of
from packbook.results import FIGURES_FOLDER, meaning
from packbook.run.running import notebooks

NAMES = list(notebooks())
RUNS = ("other", "smallest", *(["thorough"] if os.environ.get("PACKLIB_ALL") else []))


def committed(name):
    """The values in the notebook's parameters cell."""
    cells = nbformat.read(notebooks()[name], as_version=4).cells
    (source,) = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", ())]
    return {node.target.id: ast.literal_eval(node.value) for node in ast.parse(source).body}


def another(kind, value):
    """Another value of a parameter, not far off."""
    if isinstance(kind, Dataset):
        return "wordnet-pairs" if value != "wordnet-pairs" else "docstrings"
    if isinstance(kind, Choice):
        return next(name for name in kind.names if name != value)
    if isinstance(kind, Flag):
        return not value
    if isinstance(kind, Whole):
        half = (value or 128) // 2
        return half if half >= kind.at_least else value + 1
    return (kind.at_least + value) / 2


def smallest(kind, folder):
    """The least value of a parameter; of data sets a file with one sequence."""
    if isinstance(kind, Dataset):
        (folder / "one.csv").write_text("37\n")
        return str(folder / "one.csv")
    return kind.names[-1] if isinstance(kind, Choice) else kind.at_least


def values_of(name, which, folder):
    """Other data, numbers and choices; the least of each; or all of the data."""
    if which == "thorough":
        return {"quick": False}
    default = committed(name)
    kinds = {key: kind for key, kind in parameters_of(name).items() if key not in ("quick", "seed")}
    if which == "smallest":
        return {"seed": 12345} | {key: smallest(kind, folder) for key, kind in kinds.items()}
    return {"seed": 7} | {key: another(kind, default[key]) for key, kind in kinds.items()}


# shares, decimals, and whole numbers of three digits and more; the others meet by chance
NUMBER = re.compile(r"(?<![\w.,-])(?:\d[\d,]*\.\d+|\d[\d,]*\d\d|\d+(?= %))(?![\w-])")
FIXED = re.compile(  # what the sentence of a number must name if other parameters change the number
    r"settings of the repository|Wikipedia|WordNet|SQuAD|GLUE|docstrings|published|paper|recorded", re.I
)


def outputs_of(notebook):
    """All that the outputs of a notebook say, in the words of its answers and alt texts too."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            yield output.get("text") or output.get("data", {}).get("text/plain", "")
            meant = meaning(output)
            yield f"{meant.get('answer', '')} {meant.get('why', '')}"


def stale_sentences(stored, executed):
    """Sentences with a number that the stored outputs compute, other outputs do not, and nothing fixed explains."""
    shown, now = (set(NUMBER.findall(" ".join(outputs_of(notebook)))) for notebook in (stored, executed))
    given = set(NUMBER.findall(" ".join(cell.source for cell in stored.cells if cell.cell_type == "code")))
    for cell in stored.cells:
        text = re.sub(r"```.*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)|\*Level.*?\*", "", cell.source, flags=re.S)
        if cell.cell_type == "markdown" and "**Time**" not in text:
            for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z*])|\n\n|\n- |\n\|", text):
                numbers = set(NUMBER.findall(sentence)) & (shown - now - given)
                if numbers and not FIXED.search(sentence):
                    yield f"{sorted(numbers)}: {sentence}"


NOUNS = (
    "answers arms batches blocks bytes chats chunks columns deviations documents edges examples experiments graphs "
    "groups images labels layers lengths messages packs pairs pieces places processes prompts ranks rounds rows runs "
    "samples seeds sentences sequences shapes slots stages steps strategies texts tiles tokens turns updates "
    "widths words"
)
PLURAL_OF_ONE = re.compile(  # "1 packs", "1 micro-batches", "1 open packs", and "1 pack fit"
    rf"(?<![\w.,:+×−/-])(?<![+×−,] )1 (?:(?:micro|open|full|other|different|further|more|empty|useful|short|long)[ -])?"
    rf"(?:{'|'.join(NOUNS.split())})\b"
)


def test_a_plural_of_one_is_seen():
    said = "1 sequences of up to 37; 1 micro-batches. In 1 open packs"
    assert PLURAL_OF_ONE.findall(said) == ["1 sequences", "1 micro-batches", "1 open packs"]
    for right in ("1 sequence", "11 packs", "0.1 tokens", "8 × 1 packs", "0, 1 rows", "1,001 rows", "1 has packs"):
        assert not PLURAL_OF_ONE.search(right)


@pytest.fixture
def shell():
    """IPython in this process: what loads torch need not do so for each notebook."""
    main = sys.modules["__main__"]
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.display_pub = CapturingDisplayPublisher()
    shell.display_trap.hook = CapturingDisplayHook(shell=shell, outputs=shell.display_pub.outputs)
    yield shell
    InteractiveShell.clear_instance()
    sys.modules["__main__"] = main


def run_here(name, values, shell):
    """A notebook after its cells ran with these parameters, as `packbook.run.execution` sets them."""
    notebook, outputs = nbformat.read(notebooks()[name], as_version=4), shell.display_pub.outputs
    for cell in [cell for cell in notebook.cells if cell.cell_type == "code"]:
        outputs.clear()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            shell.run_cell(cell.source, store_history=True).raise_error()
        if "parameters" in cell.metadata.get("tags", ()):
            shell.user_ns.update(values)
        streams = [nbformat.v4.new_output("stream", text=said.getvalue())]
        shown = [{"data": output["data"], "metadata": output["metadata"] or {}} for output in outputs]
        cell.outputs = streams + [nbformat.v4.new_output("display_data", **output) for output in shown]
    return notebook


def try_guesses(lesson, monkeypatch):
    """Have guesses of all kinds judged at each question of a lesson, with what the notebook computed for it."""
    asked = lesson.QUESTIONS

    def reveal(name, guess, *truth, **values):
        asked.reveal(name, guess, *truth, **values)
        question, judged = asked[name], asked._judged[name]
        if isinstance(judged.truth, str):
            other = next((choice for choice in question.choices if choice != judged.truth), "5 + 5")
            wrong = {"yes": "no", "no": True}.get(judged.truth, other)
        else:
            wrong = 2 * abs(judged.truth) + 10
        states = [
            question.judge(one, judged.truth).state for one in (judged.answer, np.array(judged.truth)[()], wrong)
        ]
        assert states == ["right", "right", "wrong"], f"{name}: {judged.answer}"
        assert question.judge("plenty", judged.truth).state in ("unclear", "wrong")

    monkeypatch.setattr(lesson, "reveal", reveal)


@pytest.mark.slow
@pytest.mark.parametrize("which", RUNS)
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_with_other_parameters(name, which, tmp_path, monkeypatch, shell):
    values = check_values(name, values_of(name, which, tmp_path))
    assert values != {key: committed(name)[key] for key in values}
    try_guesses(import_module(f"packbook.n{name}.lesson"), monkeypatch)
    monkeypatch.chdir(notebooks()[name].parent)
    monkeypatch.setenv(FIGURES_FOLDER, str(tmp_path))
    executed = run_here(name, values, shell)
    if name < "09":  # the later chapters tell of recorded runs
        assert not list(stale_sentences(nbformat.read(notebooks()[name], as_version=4), executed))
    assert not [text for text in outputs_of(executed) if PLURAL_OF_ONE.search(text)]
    assert list(tmp_path.glob("*.svg"))
    for drawing in tmp_path.glob("*.svg"):
        assert not style_faults(drawing.read_text(encoding="utf-8")), drawing.stem
        picture = Image.open(drawing.with_suffix(".png"))
        assert picture.size == (1920, 1080) and not touches_the_edge(picture.convert("L")), drawing.stem
    for cell in executed.cells if which != RUNS[0] else ():
        cell.source = ""  # which is that of the first run, and takes most of the time of a page
    page, _ = PageExporter().from_notebook_node(executed)
    assert "<script" not in page and not re.search(r'src="(?!data:)', page), "a report opens offline"


# The style itself


@styled()
def test_axes_set_off_thousands_and_keep_what_else_they_say():
    fig, axes = new_figure(columns=2)
    axes[0].plot([-5000, 4000], [0, 0.5])
    axes[1].plot([0, 90_000], [1, 2])
    axes[1].xaxis.set_major_formatter("{x:.0f} s")
    texts = re.findall(r"<!-- (.*?) -->", svg(fig, "two lines"))
    assert {"−4,000", "2,000", "0.2", "20000 s"} <= set(texts)


@styled()
def test_the_color_of_the_smallest_mark_is_kept():
    """Among the many colors of a map, a mark of a few pixels keeps its own, to four of 255 steps."""
    fig, ax = new_figure()
    ax.imshow([[x * y for x in range(40)] for y in range(40)])
    for at, color in enumerate(OKABE_ITO):
        ax.plot(3 + 5 * at, 10, marker="o", markersize=2, color=color)
    drawn = np.asarray(Image.open(io.BytesIO(png(fig))).convert("RGB")).reshape(-1, 3)
    for color in OKABE_ITO:
        assert np.abs(drawn - 255 * np.array(to_rgb(color))).max(1).min() <= 4


@styled()
def test_small_letters_and_other_colors_are_seen():
    fig, ax = new_figure()
    label_ends({ax.plot([0, 1], **series("spfhp") | {"color": "#ff0000"})[0]: "SPFHP"})
    ax.set_title("tiny & small", fontsize=9)
    assert style_faults(svg(fig, "A line.")) == [
        "'tiny & small' has 9.0 points",
        "#ff0000 is not in the palette",
        "SPFHP is not drawn in its color #d55e00",
    ]
