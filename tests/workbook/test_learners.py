"""What learners do in chapters 00 to 06: they type lengths of their own, and solve an exercise in their own way."""

import importlib
import itertools
import math
import re
from collections import Counter
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


# Other ways to solve the exercises


def _best_fit(lengths, max_length):
    packs = []
    for length in -np.sort(-np.array(lengths)):
        able = [pack for pack in packs if sum(pack) + length <= max_length]
        (max(able, key=sum) if able else packs.append([]) or packs[-1]).append(int(length))
    return packs


def _width_from_chances(lengths, size):
    """The sum of the chances that the longest has at least a length."""
    total, number = 0, len(lengths)
    for at_least in range(1, max(lengths) + 1):
        shorter = sum(length < at_least for length in lengths)
        total += 1 - Fraction(math.comb(shorter, size), math.comb(number, size))
    return total


def _place_by_groups(spaces, length, copies, slots):
    spaces = sorted(spaces)
    while copies and spaces and spaces[-1] >= length:
        spaces = sorted([*spaces[:-1], spaces[-1] - length])
        copies -= 1
    return np.array(sorted(spaces + [slots - length] * copies), dtype=int)


def _lpfhp_by_spaces(lengths, max_length, depth):
    open_packs = []  # (space, sequences that may still come)
    for length in sorted(lengths)[::-1]:
        able = [pack for pack in open_packs if pack[0] >= length and pack[1]]
        space, more = min(able, key=lambda pack: pack[0]) if able else (max_length, depth)
        if able:
            open_packs.remove((space, more))
        open_packs.append((space - length, more - 1))
    return np.int64(len(open_packs))


def _pairs_two_pointers(lengths, max_length):
    ordered, low, packs = sorted(lengths), 0, 0
    high = len(ordered) - 1
    while low <= high:
        low += low < high and ordered[low] + ordered[high] <= max_length
        high, packs = high - 1, packs + 1
    return packs


def _rounded_by_matrix(counts, strategies, x):
    matrix = np.array([[list(s).count(length) for s in strategies] for length in range(len(counts))])
    repeats = np.rint(x)
    return int(repeats.sum() + np.maximum(np.array(counts) - matrix @ repeats, 0).sum())


def _filled_in_place(places, lengths):
    left, taken = Counter(lengths), []
    for place in sorted(places)[::-1]:
        length = max((n for n, count in left.items() if count and n <= place), default=None)
        if length:
            left[length] -= 1
            taken.append(length)
    return tuple(taken)


def _bounds_by_change(packs):
    starts, slots = [], 0
    for pack in packs:
        for _, group in itertools.groupby(pack):
            starts.append(slots)
            slots += len(list(group))
    return np.array([*starts, slots])


def _next_by_tensor(input_ids, segment_ids):
    ids, segments = torch.tensor(input_ids), torch.tensor(segment_ids)
    labels = torch.full_like(ids, -100)
    same = (segments[1:] == segments[:-1]) & (segments[1:] > 0)
    labels[:-1][same] = ids[1:][same]
    return labels


def _window_by_loops(segment_ids, window):
    s = segment_ids.tolist()
    return [[s[q] == s[k] and 0 <= q - k < window for k in range(len(s))] for q in range(len(s))]


def _hears_by_change(layer, segment_ids):
    ids = torch.as_tensor(segment_ids)
    names = [name for name in sorted(set(ids.tolist())) if name]
    x = torch.linspace(1, 2, len(ids), dtype=torch.float64)
    found = []
    for source in names:
        moved = (layer(torch.where(ids == source, x + 1, x)) - layer(x)).abs() > 1e-9
        found += [(to, source) for to in names if to != source and bool(moved[ids == to].any())]
    return sorted(found)


def _unpack_by_loop(values, slots, starts):
    sums, counts = [0.0] * len(starts), [0] * len(starts)
    for value, slot in zip(values.tolist(), slots.tolist(), strict=True):
        mine = sum(start <= slot for start in starts.tolist()) - 1
        sums[mine], counts[mine] = sums[mine] + value, counts[mine] + 1
    return sums, counts


def _may_use(pack, counts, prices, best, packs):
    """With one pack chosen, what is left must still fit into the others."""
    rest = sum(n * prices[length] for length, n in counts.items()) - sum(prices[length] for length in pack)
    return rest <= (packs - 1) * best


OTHER_WAYS = {  # by exercise; where many answers are right, another one of them
    "three_rows": np.array([[12, 7, 5], [11, 9, 4], [10, 8, 6]]),
    "strangers": lambda x: np.mean(np.repeat(range(len(x)), x)[:, None] != np.repeat(range(len(x)), x)),
    "my_packs": _best_fit,
    "padding_share": lambda x, top: Fraction(sum(top - n for n in x), top * len(x)),
    "best_factor": lambda counts: (len(counts) - 1) / np.average(range(len(counts)), weights=counts),
    "slots_of_batches": lambda x, size: sum(
        len(b) * np.max(b) for b in np.split(np.array(x), range(size, len(x), size))
    ),
    "mean_width": _width_from_chances,
    "tightest_space": lambda spaces, n: next((s for s in sorted(spaces) if s >= n), 0),
    "place_copies": _place_by_groups,
    "lpfhp_packs": _lpfhp_by_spaces,
    "fools_lpfhp": np.array([5, 4, 3, 3, 3, 2]),
    "column": lambda x, top: np.bincount(x, minlength=top + 1)[1:],
    "fewest_pairs": _pairs_two_pointers,
    "rounded_packs": _rounded_by_matrix,
    "filled_lengths": _filled_in_place,
    "simple_bound": lambda x, top, depth: np.max([-(-np.sum(x) // top), -(-len(x) // depth)]),
    "prices": {7: Fraction(1), 6: Fraction(3, 5), 4: Fraction(2, 5)},
    "one_round": ({4: 1 / 3, 5: 1 / 2, 7: 2 / 3}, (5, 7)),
    "may_use": _may_use,
    "bounds": _bounds_by_change,
    "next_tokens": _next_by_tensor,
    "window_mask": _window_by_loops,
    "who_hears_whom": _hears_by_change,
    "sequence_mean": lambda packs: torch.stack(
        [torch.tensor(x).double().mean() for p in packs for x in p if x]
    ).mean(),
    "loss_factor": lambda counts: Fraction(len(counts), sum(n for replica in counts for n in replica)),
    "unpack": _unpack_by_loop,
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
def test_checkers_accept_other_right_ways_and_forms(exercise):
    solve = exercise.solution
    form = (lambda *given: in_another_form(solve(*given))) if callable(solve) else in_another_form(solve)
    for way in (OTHER_WAYS[exercise.name], form):
        verdict = exercise.judge(way)
        assert verdict.state == "right", verdict.message
