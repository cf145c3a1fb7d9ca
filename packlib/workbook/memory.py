"""What a learner guessed and solved: kept in one small file on this machine, and told back at the end.

It is kept only while somebody works on a notebook in Jupyter or VS Code; runs by machine and the solutions leave
no trace. `PACKLIB_MEMORY=off` switches it off, and `packlib forget` deletes the file. Nothing leaves the machine.
"""

import contextlib
import html
import json
import os
import re
import warnings
from pathlib import Path

from packlib.files import atomic_path

SWITCH = "PACKLIB_MEMORY"
_FIELDS = {  # of an entry, by kind
    "guesses": {
        "question": str,
        "guess": (float, int, str),
        "truth": (float, int, str),
        "unit": str,
        "error": (float, int, type(None)),
        "right": bool,
    },
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
        stored = json.loads(memory_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = None
    memory: dict[str, dict[str, dict]] = {}
    for kind, fields in _FIELDS.items():
        found = stored.get(kind) if isinstance(stored, dict) else None
        memory[kind] = {
            key: entry
            for key, entry in (found.items() if isinstance(found, dict) else ())
            if isinstance(entry, dict)
            and all(isinstance(entry.get(name), types) for name, types in fields.items())
        }
    return memory


def _keep(memory: dict) -> None:
    try:
        with atomic_path(memory_path()) as beside:
            beside.write_text(json.dumps(memory, indent=1, ensure_ascii=False), encoding="utf-8")
    except OSError as error:  # a full or read-only disk must not stop the lesson
        warnings.warn(f"Your guesses cannot be kept ({error}); {SWITCH}=off stops the attempt.", stacklevel=4)


def note_guess(guess: float | str, truth: float | str, unit: str, right: bool, why: str) -> None:
    """Keep a guess; of several at one question the first, which was made before the answer was seen."""
    if (notebook := open_notebook()) is None:
        return
    memory, question = recall(), question_of(notebook) or why
    error = None if isinstance(truth, str) else abs(guess - truth)
    entry = {
        "question": question,
        "guess": guess,
        "truth": truth,
        "unit": unit,
        "error": error,
        "right": right,
    }
    memory["guesses"].setdefault(f"{notebook.stem}: {question}", entry)
    _keep(memory)


def note_try(exercise: str, right: bool) -> None:
    """Keep how an exercise went: how many tries until it was right."""
    if (notebook := open_notebook()) is None:
        return
    memory = recall()
    entry = memory["exercises"].setdefault(f"{notebook.stem}: {exercise}", {"right": False, "tries": 0})
    if not entry["right"]:
        entry.update(right=right, tries=entry["tries"] + 1)
        _keep(memory)


def question_of(notebook: Path) -> str:
    """The question above the cell that is running: the last bold one of the nearest text; "" if it is not found."""
    from IPython import get_ipython

    running = get_ipython().user_ns.get("In", [""])[-1].strip()
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]).strip() for cell in cells]
        kinds = [cell["cell_type"] for cell in cells]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    if running not in sources:
        return ""
    above = [
        s for s, kind in zip(sources[: sources.index(running)], kinds, strict=False) if kind == "markdown"
    ]
    questions = re.findall(r"\*\*([^*]+\?)\*\*", above[-1]) if above else []
    return " ".join(questions[-1].replace("`", "").split()) if questions else ""


def said(value: float | str, unit: str) -> str:
    """A number with its unit, as people write it; a word as it is."""
    text = value if isinstance(value, str) else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{text} {unit}".strip()


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
    sentences = [f"You made {len(guesses)} guesses; {right} were right or very close."]
    for key, entry in sorted(guesses.items(), key=lambda item: -surprise(item[1]))[:number]:
        if not entry["right"]:
            guess, truth = said(entry["guess"], entry["unit"]), said(entry["truth"], entry["unit"])
            sentences.append(f"{key} You guessed {guess}; it is {truth}.")
    if exercises:
        solved = [entry["tries"] for entry in exercises.values() if entry["right"]]
        hardest = max(exercises, key=lambda key: exercises[key]["tries"])
        sentences.append(
            f"You tried {len(exercises)} exercises and solved {len(solved)}. Most tries: {hardest}, "
            f"{exercises[hardest]['tries']}."
        )
    return [*sentences, f"All this is in {memory_path()} and nowhere else; packlib forget deletes it."]


def surprises(number: int = 5) -> None:
    """Show what surprised the learner most, the biggest errors first; for the end of a notebook."""
    from IPython.display import display

    sentences = tell(number) if open_notebook() else []
    text = "\n".join(sentences or [_NOTHING])
    page = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    display({"text/html": f"<ul>{page}</ul>" if page else f"<p>{_NOTHING}</p>", "text/plain": text}, raw=True)


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
    return f"Deleted {path} with {len(memory['guesses'])} guesses and {len(memory['exercises'])} exercises."
