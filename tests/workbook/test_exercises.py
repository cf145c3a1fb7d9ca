"""Exercises accept every right answer in any form, refuse the slips that learners make, and never raise."""

from dataclasses import replace
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
import torch
from scipy import stats

from packbook import exercises
from packbook.run.running import notebooks

CHAPTERS = {name: import_module(f"packbook.n{name}") for name in notebooks()}
EXERCISES = [
    pytest.param(name, exercise, id=f"{name}: {exercise.name}")
    for name, chapter in CHAPTERS.items()
    for exercise in chapter.check.values()
]


@pytest.mark.parametrize(("name", "exercise"), EXERCISES)
def test_checkers_accept_the_solution_and_catch_the_slips(name, exercise):
    assert exercise.judge(exercise.solution).state == "right"
    assert exercise.judge(...).state == "not tried"
    for slip, answer in exercise.slips.items():
        verdict = exercise.judge(answer)
        assert verdict.state == "wrong", f"{exercise.name} accepts the slip {slip!r}"
        assert "raises" not in verdict.message, f"the slip {slip!r} of {exercise.name} is broken: {verdict.message}"
        assert exercise.advice(answer) == slip, "it is told apart from the others"


@pytest.mark.parametrize(("name", "exercise"), EXERCISES)
def test_a_table_is_whole(name, exercise):
    assert exercise.level in (1, 2, 3) and exercise.minutes and exercise.hint and exercise.slips
    if exercise.draw:
        inputs = exercise.inputs()
        written = list(map(repr, inputs))  # tensors among them do not compare
        assert written == list(map(repr, exercise.inputs())), "the same every time"
        assert len(set(written)) > exercises.DRAWN / 2, "they differ"
        assert len(repr(inputs[0])) < 64, "and short ones are among them"
    if callable(exercise.solution):
        assert exercise.draw


def in_another_form(answer):
    """The same answer in tuples, lists in place of tensors, and NumPy's numbers."""
    if isinstance(answer, torch.Tensor):
        return answer.tolist()
    if isinstance(answer, (list, tuple)):
        return tuple(map(in_another_form, answer))
    return np.array(answer)[()] if isinstance(answer, (int, float)) else answer


OTHER_ANSWERS = {  # where many are right
    "three_rows": np.array([[12, 7, 5], [11, 9, 4], [10, 8, 6]]),
    "my_packs": lambda *given: CHAPTERS["00_tour"].check["my_packs"].solution(*given)[::-1],
    "fools_lpfhp": np.array([5, 4, 3, 3, 3, 2]),
    "prices": {7: Fraction(1), 6: Fraction(3, 5), 4: Fraction(2, 5)},
    "one_round": ({4: 1 / 3, 5: 1 / 2, 7: 2 / 3}, (5, 7)),
    "broken_trainer": "Isolation, Positions, Mean, Accumulation",
}


@pytest.mark.parametrize(("name", "exercise"), EXERCISES)
def test_checkers_accept_other_right_answers_and_forms(name, exercise):
    solve = exercise.solution
    form = (lambda *given: in_another_form(solve(*given))) if callable(solve) else in_another_form(solve)
    for answer in (OTHER_ANSWERS.get(exercise.name, form), form):
        verdict = exercise.judge(answer)
        assert verdict.state == "right", verdict.message


def predicting(labels, segments):
    """Count the sequences of a micro-batch that predict a token."""
    sequences = set()
    for row, (tokens, owners) in enumerate(zip(labels, segments, strict=True)):
        after = zip(tokens[1:], owners[1:], owners, strict=False)
        sequences |= {(row, owner) for token, other, owner in after if token != -100 and other == owner > 0}
    return len(sequences)


PROMISES = {  # what a notebook says of the arguments of an exercise; an answer may rely on it
    # SPFHP goes from long to short, so each old pack holds a longer sequence
    "move_group": lambda groups, length, copies, slots: all(space + length < slots for space in groups),
    "column": lambda pack, max_length: len(pack) >= 1,
    # different packs that are full
    "rounded_packs": lambda counts, strategies, x: (
        len(set(map(tuple, strategies))) == len(strategies) and len(set(map(sum, strategies))) == 1
    ),
    # the packs of a batch have the same number of slots
    "bounds": lambda packs: len(set(map(len, packs))) == 1,
    # a run with full rows sees so many tokens
    "fair_updates": lambda tokens, rows, duration, lengths: tokens % (rows * lengths[-1]) == 0,
    "slot_weights": lambda labels, segments, sequences: (
        len(set(map(len, labels))) == 1 and predicting(labels, segments) <= sequences
    ),
    "paired_interval": lambda first, second, t: abs(t - stats.t.ppf(0.975, len(first) - 1)) < 0.01,
}


@pytest.mark.parametrize("name", PROMISES)
def test_an_answer_may_rely_on_what_the_notebook_says_of_the_arguments(name):
    exercise = next(chapter.check[name] for chapter in CHAPTERS.values() if name in chapter.check)

    def relies_on_it(*arguments):
        assert PROMISES[name](*arguments), "a promise that is not kept"
        return exercise.solution(*arguments)

    verdict = exercise.judge(relies_on_it)
    assert verdict.state == "right", verdict.message


def test_layers_take_whole_numbers_and_leak_visibly_for_a_count():
    """An exercise gives a layer, and an answer chooses the inputs."""

    def with_a_count(layer, segment_ids):
        def number_of(dtype):
            before = torch.arange(len(segment_ids), dtype=dtype)
            pairs = set()
            for source in set(segment_ids.tolist()) - {0}:
                moved = layer(before + (segment_ids == source)) != layer(before)
                pairs |= {(receiver, source) for receiver in segment_ids[moved].tolist()}
            return sorted((receiver, source) for receiver, source in pairs if 0 != receiver != source)

        assert number_of(torch.int64) == number_of(torch.float32)
        return number_of(torch.int64)

    verdict = CHAPTERS["05_packed_attention"].check["who_sees_whom"].judge(with_a_count)
    assert verdict.state == "right", verdict.message


def test_losses_have_the_precision_of_a_models():
    """An answer may add them to `torch.zeros`."""

    def into_zeros(values, slots, starts):
        sequence = torch.searchsorted(starts, slots, right=True) - 1
        totals = torch.zeros(len(starts)).index_add(0, sequence, values)
        return totals, torch.bincount(sequence, minlength=len(starts))

    verdict = CHAPTERS["06_unpacking_losses"].check["unpack"].judge(into_zeros)
    assert verdict.state == "right", verdict.message


@pytest.mark.parametrize(
    "error",
    [
        lambda rows, steps, factor, sequences: abs(rows * steps * factor - sequences),
        lambda rows, steps, factor, sequences: abs(rows * factor * steps - sequences),
        lambda rows, steps, factor, sequences: abs(steps * factor * rows - sequences),
        lambda rows, steps, factor, sequences: abs(rows * steps - sequences / factor),
    ],
)
def test_rounding_errors_do_not_choose_among_equal_micro_batches(error):
    def first_of_the_nearest(sequences, factor, most):
        pairs = [
            (rows, steps) for rows in range(most, 0, -1) for steps in range(1, int(sequences / (rows * factor)) + 3)
        ]
        return min(pairs, key=lambda pair: error(*pair, factor, sequences))

    verdict = CHAPTERS["12_your_dataset"].check["same_update"].judge(first_of_the_nearest)
    assert verdict.state == "right", verdict.message


@pytest.mark.parametrize("name", ["seen_until", "forced_tokens"])
def test_most_of_the_drawn_trees_have_branches(name):
    inputs = CHAPTERS["16_shared_prompts"].check[name].inputs()
    with_branches = [arguments for arguments in inputs if len(arguments[0]) > 1]
    assert len(with_branches) > 0.7 * len(inputs)


# The class


def total(lengths):
    return sum(lengths)


def test_no_pack_of_the_drawn_prices_is_worth_more_than_the_best():
    """The notebook says so, and an answer may rely on it."""
    exercise = CHAPTERS["04_optimal_packing"].check["may_use"]

    def relies_on_it(pack, counts, prices, best, packs):
        is_possible = sum(prices[length] for length in pack) <= best
        return is_possible and exercise.solution(pack, counts, prices, best, packs)

    assert exercise.judge(relies_on_it).state == "right"


@pytest.fixture
def check():
    return exercises.Exercises(
        [
            exercises.Exercise("total", total, (([1],), ([2, 1],), ([3, 1, 1],)), hint="Add them all.", level=1),
            exercises.Exercise("factor", 2.0),
            exercises.Exercise("round", ({7: 0.5, "by": "a"}, (7, 5), [True]), fault=lambda got: got[0][7][0]),
            exercises.Exercise(
                "halves", solution=lambda n: [n // 2, n - n // 2], cases=((4,), (5,)),
                fault=lambda got, n: None if sum(got) == n else f"it adds up to {sum(got)}.",
            ),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("total", ..., "total: not tried yet"),
        ("total", total, "total: right. 3 cases agree."),
        ("total", lambda lengths: sum(lengths.pop() for _ in range(len(lengths))), "total: right."),
        ("total", max, "total: not yet. total([2, 1]) gives 2, and should give 3.\n"),
        ("total", lambda lengths: 1 / 0, "total([1]) raises ZeroDivisionError: division by zero"),
        ("total", 7, "total must be a function, not 7."),
        ("total", lambda lengths: "x" * 1000, "..., and should give 1."),
        ("factor", 2, "factor: right."),
        ("factor", np.zeros(3), "array([0., 0., 0.]) is not it."),
        ("factor", (np.float64(0.5), [np.int64(1)]), "(0.5, [1]) is not it."),
        ("halves", lambda n: [n], "halves: right."),
        ("halves", lambda n: [n // 2] * 2, "halves(5) gives [2, 2]: it adds up to 4."),
        ("round", None, "None (NoneType); the form ({7: number, 'by': text}, (number, …), [True or False, …])"),
    ],
)
def test_check_answers_and_never_raises(name, answer, says, check, capsys, displayed):
    check(name, answer)
    said = capsys.readouterr().out
    assert says in said and said.count("\n") == 1
    assert len(displayed) == (name == "total" and ": right" in said), "a solution where there are levels"


def table(**changes):
    """An exercise as a chapter writes it down: a reference, a generator of inputs, a hint, and slips."""
    fields = {
        "name": "total",
        "solution": total,
        "draw": lambda rng: ([rng.randint(1, 9) for _ in range(rng.randint(0, 6))],),
        "hint": "Add them all.",
        "slips": {"You took the largest.": lambda lengths: max(lengths, default=0), "One too many.": sum_and_one},
        "level": 2,
        "minutes": 9,
    }
    return exercises.Exercise(**{**fields, **changes})


def sum_and_one(lengths):
    return sum(lengths) + 1


def test_an_answer_is_compared_on_drawn_inputs_the_same_every_time():
    exercise = table()
    assert exercise.inputs() == exercise.inputs() and len(exercise.inputs()) == exercises.DRAWN == 50
    sizes = [len(repr(given)) for given in exercise.inputs()]
    assert sizes == sorted(sizes) and len(set(map(repr, exercise.inputs()))) > 30
    assert exercise.judge(total).message == "total: right. 50 inputs agree."
    with_cases = table(cases=[([0] * 40,), ([],)])
    assert with_cases.inputs()[-1] == ([0] * 40,) and len(with_cases.inputs()) == 52


def test_an_answer_that_is_wrong_now_and_then_is_caught_and_the_smallest_input_shown():
    wrong = [lengths for (lengths,) in table().inputs() if len(lengths) == 4 and 9 in lengths]
    assert wrong, "some are drawn"

    def now_and_then(lengths):
        return 7 if len(lengths) >= 4 and 9 in lengths else sum(lengths)

    smallest = min(wrong, key=lambda lengths: len(repr(lengths)))
    assert table().judge(now_and_then).message.startswith(f"total: not yet. total({smallest}) gives 7")


def test_a_known_slip_is_named_in_place_of_the_hint(capsys, displayed):
    check = exercises.Exercises([table()])
    for answer in (sum_and_one, sum_and_one, lambda lengths: len(lengths), lambda lengths: 1 // len(lengths)):
        check("total", answer)
    said = capsys.readouterr().out.splitlines()
    assert "Hint" not in said[0] and "Hint: One too many. check" in said[1]
    assert "Hint: Add them all. check" in said[2] and "raises ZeroDivisionError" in said[3] and "Add them" in said[3]


def test_what_an_answer_prints_is_seen_once_and_not_while_slips_are_looked_for(capsys):
    check = exercises.Exercises([table()])

    def answer(lengths):
        print("adding", lengths)
        return sum(lengths) + 1

    for _ in range(2):
        check("total", answer)
    said = capsys.readouterr().out.splitlines()
    assert said[0::2] == ["adding []"] * 2 and said[3].startswith("total: not yet.") and "One too many." in said[3]


def test_the_verdict_stands_there_before_slips_are_looked_for(capsys):
    """An answer that never ends on a longer input is interrupted by its author, who still sees what was wrong."""
    check = exercises.Exercises([table()])

    def answer(lengths):
        if len(lengths) > 1:
            raise KeyboardInterrupt
        return 7

    check("total", answer)
    with pytest.raises(KeyboardInterrupt):
        check("total", answer)
    assert capsys.readouterr().out.count("total([]) gives 7, and should give 0.") == 2


def test_a_slip_of_a_value_is_named_too(capsys):
    fault = exercises.Exercise("pair", [1, 2], fault=lambda got: None if sum(got) == 3 else "it adds up to more.")
    check = exercises.Exercises([replace(fault, slips={"Those are three.": [1, 1, 2]}, hint="Two.")])
    for answer in ([3, 4], [3, 4], (1, 1, 2)):
        check("pair", answer)
    said = capsys.readouterr().out.splitlines()
    assert [line.partition("Hint: ")[2].partition(" check")[0] for line in said] == ["", "Two.", "Those are three."]


def test_a_hint_comes_after_the_second_miss(check, capsys):
    for answer in (max, lambda lengths: ..., max, max):
        check("total", answer)
    check("factor", 3.0)
    said = capsys.readouterr().out.splitlines()
    help = ' Hint: Add them all. check.solution("total") shows a solution.'
    assert [line.endswith(help) for line in said] == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("got", "expected", "agree"),
    [
        (0.1 + 0.2, 0.3, True),
        (0.3001, 0.3, False),
        ("1", 1, False),
        (1, True, False),
        (True, True, True),
        (np.array([1, 2]), (1, 2), True),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({1, 2}, {2, 1}, True),
    ],
)
def test_same_compares_like_a_teacher(got, expected, agree):
    assert exercises.same(got, expected) is agree


def test_the_next_cells_go_on_with_the_answer_once_it_is_right_and_with_the_reference_before(check):
    def mine(lengths):
        return sum(lengths)

    def blank(lengths):
        return ...

    assert check.or_reference("total", mine) is mine
    assert [check.or_reference("total", one) for one in (max, blank, ..., 7)] == [total] * 4
    assert check.or_reference("factor", ...) == 2.0
    with pytest.raises(ValueError, match="exercise must be"):
        check.or_reference("totals", mine)
