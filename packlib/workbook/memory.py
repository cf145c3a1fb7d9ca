"""What a learner guessed and solved: kept in one small file on this machine, and told back at the end.

It is kept only while somebody works on a notebook in Jupyter or VS Code; runs by machine and the solutions leave
no trace. `PACKLIB_MEMORY=off` switches it off, and `packlib forget` deletes the file. Nothing leaves the machine.
"""

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packlib.files import write_text
from packlib.reading import read_json
from packlib.workbook.guesses import Judgment, how_many, said
from packlib.workbook.tables import Points

SWITCH = "PACKLIB_MEMORY"
_FIELDS: dict[str, dict[str, Any]] = {  # of an entry, by kind
    "guesses": {"question": str, "guess": (float, int, str), "truth": (float, int, str), "unit": str, "right": bool},
    "exercises": {"right": bool, "tries": int},
}
_NOTHING = "Nothing to tell yet: guess before you reveal, and this cell says what surprised you most."


def memory_path() -> Path:
    """The file: `packlib/learner.json` in `XDG_DATA_HOME`, or in `~/.local/share`."""
    folder = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (folder if folder.is_absolute() else Path.home() / ".local" / "share") / "packlib" / "learner.json"


def open_notebook() -> Path | None:
    """The notebook that a person works on, as Jupyter's server and VS Code tell their kernels; else None."""
    from IPython import get_ipython

    if os.environ.get(SWITCH, "").lower() in ("off", "0", "no") or os.environ.get("CI") or not get_ipython():
        return None
    path = Path(os.environ.get("JPY_SESSION_NAME") or get_ipython().user_ns.get("__vsc_ipynb_file__", ""))
    return path if path.suffix == ".ipynb" and "solutions" not in path.parts else None


def recall() -> dict[str, dict[str, dict]]:
    """All that is remembered, by kind and key; what cannot be read counts as forgotten."""
    try:
        stored = read_json(memory_path(), "a memory")
    except (OSError, ValueError):
        stored = {}
    memory: dict[str, dict[str, dict]] = {kind: {} for kind in _FIELDS}
    for kind, fields in _FIELDS.items():
        for key, entry in _as_dict(stored.get(kind)).items():
            if all(_is_sound(_as_dict(entry).get(name), types) for name, types in fields.items()):
                memory[kind][key] = entry
    return memory


def _as_dict(value: Any) -> dict:
    return value if isinstance(value, dict) else {}


def _is_sound(value: Any, types: Any) -> bool:
    """Whether a stored value has one of the types, and can be computed with if it is a number."""
    return isinstance(value, types) and (isinstance(value, str) or abs(value) <= sys.float_info.max)


def _keep(memory: dict) -> None:
    write_text(memory_path(), json.dumps(memory, indent=1, ensure_ascii=False))


@contextlib.contextmanager
def _never_stops_the_lesson() -> Iterator[None]:
    """Turn whatever a note raises, be it a full disk or a value that JSON does not know, into a warning."""
    try:
        yield
    except Exception as error:
        reason = f"This cannot be kept ({type(error).__name__}: {error}); {SWITCH}=off stops the attempt."
        warnings.warn(reason, stacklevel=5)


@_never_stops_the_lesson()
def note_guess(judged: Judgment, unit: str, question: str, name: str) -> None:
    """Keep a guess that could be judged; of several at one question the first, made before the answer was seen.

    A question is known again by its name or by its words, so either may change.
    """
    if judged.guess is None or (notebook := open_notebook()) is None:
        return
    memory, chapter = recall(), _chapter(notebook)
    key = f"{chapter}: {name}"
    for known, entry in memory["guesses"].items():
        if known == key or (known.startswith(f"{chapter}: ") and entry["question"] == question):
            entry["question"] = question
            break
    else:
        entry = {"question": question, "guess": judged.guess, "truth": judged.truth, "unit": unit}
        memory["guesses"][key] = {**entry, "right": judged.state in ("right", "near")}
    _keep(memory)


@_never_stops_the_lesson()
def note_try(exercise: str, right: bool) -> None:
    """Keep how an exercise went: how many tries until it was right."""
    if (notebook := open_notebook()) is None:
        return
    memory = recall()
    entry = memory["exercises"].setdefault(f"{_chapter(notebook)}: {exercise}", {"right": False, "tries": 0})
    if not entry["right"]:
        entry.update(right=right, tries=entry["tries"] + 1)
        _keep(memory)


def _chapter(notebook: Path) -> str:
    """The chapter of a notebook; "02_greedy_packing (new)" is one of 02_greedy_packing."""
    return notebook.stem.partition(" (")[0]


def surprise(entry: dict) -> float:
    """How far off a guess was: 0 if it was right, 1 for a wrong word, for numbers the distance over the larger one."""
    values = entry["guess"], entry["truth"]
    if entry["right"] or any(isinstance(value, str) for value in values):
        return float(not entry["right"])
    return abs(values[0] - values[1]) / (max(map(abs, values)) or 1)


def tell(number: int = 5) -> list[str]:
    """Sentences about what is remembered: the `number` guesses that were furthest off, the exercises, the file."""
    memory = recall()
    guesses, exercises = memory["guesses"], memory["exercises"]
    if not guesses and not exercises:
        return []
    right = sum(entry["right"] for entry in guesses.values())
    well = f"{right} {'was' if right == 1 else 'were'} right or very close."
    sentences = [f"You made {how_many(len(guesses), 'guess')}; {well}"]
    for key, entry in sorted(guesses.items(), key=lambda item: -surprise(item[1]))[:number]:
        if not entry["right"]:
            guess, truth = said(entry["guess"], entry["unit"]), said(entry["truth"], entry["unit"])
            chapter = key.partition(":")[0]
            sentences.append(f"{chapter}: {entry['question']} You guessed {guess}; it is {truth}.")
    if exercises:
        tried, solved = how_many(len(exercises), "exercise"), sum(entry["right"] for entry in exercises.values())
        hardest = max(exercises, key=lambda key: exercises[key]["tries"])
        most = f"Most tries: {hardest}, {exercises[hardest]['tries']}."
        sentences.append(f"You tried {tried} and solved {solved}. {most}")
    return [*sentences, f"All this is in {memory_path()} and nowhere else; packlib forget deletes it."]


def surprises(number: int = 5) -> None:
    """Show what surprised the learner most, the biggest errors first; for the end of a notebook."""
    from IPython.display import display

    sentences = tell(number) if open_notebook() else []
    page = Points(sentences)._repr_html_() if sentences else f"<p>{_NOTHING}</p>"
    display({"text/html": page, "text/plain": "\n".join(sentences or [_NOTHING])}, raw=True)


def forget() -> str:
    """Delete the file; return a sentence that says what is gone.

    Raises:
        OSError: if it cannot be deleted.
    """
    path, memory = memory_path(), recall()
    if not path.exists():
        return f"There is nothing to forget: {path} does not exist."
    path.unlink()
    with contextlib.suppress(OSError):  # something else is in the folder
        path.parent.rmdir()
    guesses, exercises = (len(memory[kind]) for kind in _FIELDS)
    return f"Deleted {path} with {how_many(guesses, 'guess')} and {how_many(exercises, 'exercise')}."
