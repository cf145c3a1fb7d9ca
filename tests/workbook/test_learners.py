"""What learners do in chapters 00 to 06: they type lengths of their own, and answer in other forms."""

import importlib
import re
from fractions import Fraction

import ipywidgets as widgets
import nbformat
import numpy as np
import pytest
import torch

from packlib.workbook.explorers import Explorer
from packlib.workbook.running import notebooks

NAMES = [name for name in notebooks() if name < "07"]


def lesson(name):
    return importlib.import_module(f"packlib.workbook.chapters.n{name}.lesson")


def explorer_of(name):
    (kind,) = [
        value
        for value in vars(lesson(name)).values()
        if isinstance(value, type) and issubclass(value, Explorer) and value.__module__ == lesson(name).__name__
    ]
    return kind


def draw_at_the_ends(explorer):
    """What an explorer draws of the reader's own lengths with each control at its ends."""
    assert explorer.error is None, explorer.error
    for control in explorer.widgets.values():
        if "your own" in getattr(control, "options", ()):
            control.value = "your own"
    now = {name: control.value for name, control in explorer.widgets.items()}
    for name, control in explorer.widgets.items():
        if isinstance(control, (widgets.IntSlider, widgets.FloatSlider)):
            ends = control.min, control.max
        elif isinstance(control, widgets.Checkbox):
            ends = False, True
        else:
            ends = control._options_full[0][1], control._options_full[-1][1]
        for end in ends:
            _, words = explorer.draw(**{**now, name: end})
            assert len(words.split()) >= 8


def prose_examples():
    """Calls of explorers that the text of a chapter offers to type."""
    for name in NAMES:
        for cell in nbformat.read(notebooks()[name], as_version=4).cells:
            if cell.cell_type == "markdown":
                for call in re.findall(r"`([A-Z]\w+\(.*?\))`", cell.source):
                    yield pytest.param(name, call, id=call)


@pytest.mark.parametrize(("name", "call"), list(prose_examples()))
def test_an_example_of_the_text_can_be_typed(name, call):
    draw_at_the_ends(eval(call, vars(lesson(name)).copy()))


TYPED = {  # lists as learners write them: few, one, equal, the longest
    "00_tour": [{"lengths": [7]}, {"lengths": [5] * 40}, {"lengths": np.array([128, 1, 64])}],
    "01_padding_waste": [{"own": [8], "slots": 8}, {"own": [1, 2, 3], "slots": 100}, {"own": [5] * 50, "slots": 5}],
    "02_greedy_packing": [{"own": [10], "slots": 10}, {"own": [1] * 12, "slots": 10}, {"own": [9, 1, 5], "slots": 9}],
    "03_nnls_packing": [{"own": [8], "slots": 8}, {"own": [1, 7, 3], "slots": 8}, {"own": [64, 3], "slots": 64}],
    "04_optimal_packing": [{"own": [4], "slots": 4}, {"own": [1] * 9, "slots": 30}, {"own": [20, 9], "slots": 30}],
    "05_packed_attention": [{"lengths": [3]}, {"lengths": [1, 1]}, {"lengths": [32]}],
    "06_unpacking_losses": [{"packs": [[1, 1]]}, {"packs": [[3], [4]]}, {"packs": [[2] * 13, [5] * 13]}],
}


@pytest.mark.parametrize(
    ("name", "given"), [(name, given) for name in NAMES for given in TYPED[name]], ids=lambda value: str(value)[:40]
)
def test_lengths_of_a_learner_can_be_typed_and_moved(name, given):
    draw_at_the_ends(explorer_of(name)(**given))


REFUSED = [
    ("00_tour", {"lengths": [5, 0]}),
    ("01_padding_waste", {"own": [9], "slots": 8}),
    ("02_greedy_packing", {"own": [11], "slots": 10}),
    ("03_nnls_packing", {"own": [9], "slots": 8}),
    ("04_optimal_packing", {"own": [31], "slots": 30}),
    ("05_packed_attention", {"lengths": [30, 3]}),
    *(("06_unpacking_losses", {"packs": packs}) for packs in ([[2]], [3, 4], "abc", [[2.5], [3]], [[0, 2]], None)),
]


@pytest.mark.parametrize(("name", "given"), REFUSED, ids=str)
def test_lengths_that_cannot_be_are_refused_in_one_sentence(name, given):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as refused:
        explorer_of(name)(**given)
    assert re.search(r"\d", str(refused.value)), refused.value


# Other right answers. Where a checker compares with the solution, they differ in their form alone.


def _best_fit(lengths, max_length):
    packs = []
    for length in -np.sort(-np.array(lengths)):
        able = [pack for pack in packs if sum(pack) + length <= max_length]
        (max(able, key=sum) if able else packs.append([]) or packs[-1]).append(int(length))
    return packs


OTHER_ANSWERS = {  # where many are right
    "three_rows": np.array([[12, 7, 5], [11, 9, 4], [10, 8, 6]]),
    "my_packs": _best_fit,
    "fools_lpfhp": np.array([5, 4, 3, 3, 3, 2]),
    "prices": {7: Fraction(1), 6: Fraction(3, 5), 4: Fraction(2, 5)},
    "one_round": ({4: 1 / 3, 5: 1 / 2, 7: 2 / 3}, (5, 7)),
    "broken_trainer": "Isolation, Positions, Mean, Accumulation",
}


def in_another_form(answer):
    """The same answer in tuples, lists in place of tensors, and NumPy's numbers."""
    if isinstance(answer, torch.Tensor):
        return answer.tolist()
    if isinstance(answer, (list, tuple)):
        return tuple(map(in_another_form, answer))
    return np.array(answer)[()] if isinstance(answer, (int, float)) else answer


EXERCISES = [exercise for name in NAMES for exercise in lesson(name).EXERCISES.values()]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_checkers_accept_other_right_answers_and_forms(exercise):
    solve = exercise.solution
    form = (lambda *given: in_another_form(solve(*given))) if callable(solve) else in_another_form(solve)
    for answer in (OTHER_ANSWERS.get(exercise.name, form), form):
        verdict = exercise.judge(answer)
        assert verdict.state == "right", verdict.message
