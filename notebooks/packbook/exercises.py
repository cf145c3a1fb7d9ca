"""Exercises that answer: not tried, right, or wrong with the shortest counterexample. They never raise."""

import copy
import inspect
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from numbers import Real
from random import Random
from typing import Any, Literal

from packbook.guesses import as_python
from packlib.arguments import escaped, one_of, shown

# the reply to a stub that is still blank
_BLANK = "Replace the dots with your answer, then run the cell again."


@dataclass(frozen=True)
class Verdict:
    """Hold the reply to an answer, a sentence in `message`."""

    state: Literal["not tried", "right", "wrong"]
    message: str


DRAWN = 50  # inputs on which an answer is compared with the reference


@dataclass(frozen=True)
class Exercise:
    """Hold an exercise, judge answers to it, and find advice for wrong ones.

    >>> from packbook.exercises import Exercise
    >>> exercise = Exercise("double", lambda n: 2 * n, draw=lambda rng: (rng.randint(0, 99),))
    >>> exercise.judge(lambda n: n + n).message
    'double: right. 50 inputs agree.'
    >>> exercise.judge(lambda n: n**2).state
    'wrong'

    Attributes:
        name: of the function or variable that the learner fills in; its stub returns or holds `...`.
        solution: the reference: the right function, or the right value.
        draw: draws the arguments of one call from a `random.Random`; small ones must be among them.
        cases: further arguments to try, a sequence for each call: borders that chance may miss.
        hint: one sentence, which is added from the second wrong answer on.
        slips: wrong answers that learners give, each under the sentence that is said in place of the hint. A wrong
            answer is a value, or a function of the same parameters.
        level: difficulty, from 1 to 3; the notebook states it above the exercise.
        minutes: that it takes; the notebook states them, too.
        fault: for exercises with many right answers: `fault(got, *arguments)` returns a sentence that says what is
            wrong with an answer, or None if it is right. Without it an answer must equal the reference's.
    """

    name: str
    solution: Any
    cases: Sequence[Sequence] = ()
    hint: str = ""
    fault: Callable[..., str | None] | None = None
    level: int | None = None
    minutes: int | None = None
    draw: Callable[[Random], Sequence] | None = None
    slips: Mapping[str, Any] = field(default_factory=dict)

    def inputs(self) -> list[Sequence]:
        """Return the arguments to try, a sequence for each call, from short to long: the same ones every time."""
        if self.draw is None:
            return list(self.cases) or [()]  # a value is compared once, without arguments
        rng = Random(0)
        drawn = [self.draw(rng) for _ in range(DRAWN)]
        return sorted([*self.cases, *drawn], key=lambda arguments: len(repr(arguments)))

    def judge(self, answer: Any) -> Verdict:
        """Return the reply to an answer: not tried, right, or wrong with the shortest input for which it is wrong."""
        is_function = callable(self.solution) and answer is not ...
        if is_function and not callable(answer):
            return self._wrong(f"{self.name} must be a function, not {in_short(answer)}.")
        inputs = self.inputs()
        for arguments in inputs:
            call = f"{self.name}({', '.join(map(in_short, arguments))})" if is_function else self.name
            try:
                got = answer(*copy.deepcopy(arguments)) if is_function else answer
            except Exception as error:  # whatever a learner's function does
                return self._wrong(f"{call} raises {type(error).__name__}: {in_short(error, str)}")
            if got is ...:
                return Verdict("not tried", f"{self.name}: not tried yet. {_BLANK}")
            if got is None and is_function:
                return self._wrong(f"{call} returns None: is a return missing?")
            if sentence := self._fault(call, got, arguments):
                return self._wrong(sentence)
        noun = "inputs" if self.draw else "cases"
        tried = f" {len(inputs)} {noun} agree." if len(inputs) > 1 else ""
        return Verdict("right", f"{self.name}: right.{tried}")

    def advice(self, answer: Any) -> str:
        """Return the reply to a wrong answer: the sentence of the slip with the same results, or the hint."""
        results = self._results(answer)
        if results is None:
            return self.hint
        for sentence, slip in self.slips.items():
            with suppress(Exception):  # results of a form that nobody foresaw
                if same(results, self._results(slip)):
                    return sentence
        return self.hint

    def _results(self, answer: Any) -> list | None:
        """Return an answer's result for each input, while its printed text is dropped; None if it raises."""
        if not callable(self.solution):
            return [answer]
        try:
            with redirect_stdout(io.StringIO()):
                return [answer(*copy.deepcopy(arguments)) for arguments in self.inputs()]
        except Exception:  # whatever a learner's function does
            return None

    def _fault(self, call: str, got: Any, arguments: Sequence) -> str | None:
        """Return a sentence with the fault of an answer to one input; None if it is right.

        Args:
            call: the call or the name of the variable, for the sentence.
            got: what the learner's answer gives.
        """
        expected = self.solution(*copy.deepcopy(arguments)) if callable(self.solution) else self.solution
        try:
            if self.fault is not None:
                sentence = self.fault(got, *copy.deepcopy(arguments))
                return f"{call} gives {in_short(got)}: {sentence}" if sentence else None
            if same(got, expected):
                return None
        except Exception:  # an answer of a form that nobody foresaw
            return f"{call} gives {in_short(got)} ({type(got).__name__}); the form {_form(expected)} is expected."
        if not arguments:  # to say what is expected would give the solution away
            return f"{in_short(got)} is not it."
        return f"{call} gives {in_short(got)}, and should give {in_short(expected)}."

    def _wrong(self, sentence: str) -> Verdict:
        return Verdict("wrong", f"{self.name}: not yet. {sentence}")


class Exercises(dict[str, Exercise]):
    """Hold the exercises of one notebook by name; a call checks an answer. The notebook imports it as `check`."""

    def __init__(self, exercises: Iterable[Exercise]) -> None:
        super().__init__((exercise.name, exercise) for exercise in exercises)
        self._misses = dict.fromkeys(self, 0)  # wrong answers so far

    def __call__(self, name: str, answer: Any) -> None:
        """Print feedback on the learner's `answer`: a hint from the second miss on.

        Once the answer is right, a solution is shown too, if the exercise has a level.
        """
        exercise = self[one_of("exercise", name, self)]
        verdict = exercise.judge(answer)
        self._misses[name] += verdict.state == "wrong"
        if verdict.state == "wrong" and self._misses[name] > 1:
            print(verdict.message, end=" ", flush=True)  # before the answer is run on further inputs
            hint = exercise.advice(answer)
            print(f"Hint: {hint} " * bool(hint) + f'check.solution("{name}") shows a solution.')
        else:
            print(verdict.message)
        if verdict.state == "right" and exercise.level:
            self.solution(name)

    def or_reference(self, name: str, answer: Any) -> Any:
        """Return the learner's `answer` if it is right, and otherwise the solution, so that later cells can use it."""
        exercise = self[one_of("exercise", name, self)]
        return answer if exercise.judge(answer).state == "right" else exercise.solution

    def solution(self, name: str) -> None:
        """Show the reference of an exercise, folded."""
        from IPython.display import display

        solution = self[one_of("exercise", name, self)].solution
        source = inspect.getsource(solution) if callable(solution) else f"{name} = {solution!r}"
        page = f"<details><summary>One solution</summary><pre>{escaped(source)}</pre></details>"
        display({"text/html": page, "text/plain": source}, raw=True)


def in_short(value: Any, form: Callable[[Any], str] = shown) -> str:
    """Return a value in one line of at most 100 characters, all of them printable; never raises.

    Args:
        form: turns the value into text.
    """
    try:
        text = " ".join(form(_plain(value)).split())
    except Exception:
        text = f"something of type {type(value).__name__}"
    if not text.isprintable():
        text = repr(text)[1:-1]
    return text if len(text) <= 100 else f"{text[:97]}..."


def _plain(value: Any) -> Any:
    """Turn single numbers into Python's own, to ten digits, also in lists: 0.6561, not 0.6561000000000001."""
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    is_array = getattr(value, "ndim", 0) > 0
    value = value if is_array else as_python(value)
    return float(f"{value:.10g}") if isinstance(value, float) else value


def _form(answer: Any) -> str:
    """Return the form of an answer, such as "[number, …]": types and keys, without other content."""
    if isinstance(answer, (list, tuple)):
        is_list = isinstance(answer, list)
        forms = list(dict.fromkeys(map(_form, answer)))  # each once
        has_more = is_list or len(forms) < len(answer)
        items = ", ".join([*forms, "…"] if has_more else forms)
        return f"[{items}]" if is_list else f"({items})"
    if isinstance(answer, Mapping):
        return f"{{{', '.join(f'{key!r}: {_form(item)}' for key, item in answer.items())}}}"
    words = {bool: "True or False", Real: "number", str: "text"}
    return next((word for kind, word in words.items() if isinstance(answer, kind)), type(answer).__name__)


def same(got: Any, expected: Any, error: float = 1e-9) -> bool:
    """Return True if two answers agree: numbers to nine digits, arrays, lists and tuples item by item.

    Args:
        error: relative difference of two numbers that is allowed. Tensors and arrays in single precision, which torch
            makes of Python's numbers, may differ by a millionth.
    """
    if str(getattr(got, "dtype", "")).endswith("float32"):
        error = 1e-6
    got, expected = as_python(got), as_python(expected)
    if isinstance(expected, Mapping):
        same_form = isinstance(got, Mapping) and got.keys() == expected.keys()
        return same_form and all(same(got[name], expected[name], error) for name in expected)
    if isinstance(expected, (list, tuple)):
        same_form = isinstance(got, (list, tuple)) and len(got) == len(expected)
        return same_form and all(same(*items, error) for items in zip(got, expected, strict=True))
    if isinstance(expected, (bool, str, set, frozenset)) or expected is None:
        both_or_neither_bool = isinstance(got, bool) is isinstance(expected, bool)  # 1 == True, but is no answer
        return both_or_neither_bool and bool(got == expected)
    try:
        return math.isclose(got, expected, rel_tol=error, abs_tol=1e-12)
    except (TypeError, ValueError):
        return False
