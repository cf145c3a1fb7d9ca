"""What the notebooks share: figures, questions, exercises, explorers, and how notebooks are run.

Read `figures.py` first. The notebook `02_greedy_packing` belongs to the folder `n02_greedy_packing`. Its `__init__` is
the door of the chapter: the notebook imports from `packlib`, from `packbook` and from this door, which has

    PARAMETERS         a `Parameters`: the kinds of the notebook's parameters; `check_parameters = PARAMETERS.check`
    QUESTIONS          a `Questions`; `reveal = QUESTIONS.reveal`, `mark = QUESTIONS.mark`
    check              an `Exercises`

and all other names that the notebook imports from its chapter; each is loaded when it is used.

Behind the door, `exercises.py` has the exercises.
`lesson.py` has the questions and the `Explorer` classes, which can be made without arguments; `questions.toml` has the
choices, replies and reasons. `figures.py` draws, and `runs.py` computes and trains. Notebooks 02 and 13 are the models.
What several chapters use is in `shared`, in files named for their idea; no chapter imports another.
"""

from typing import TYPE_CHECKING

from packlib.arguments import percent as percent
from packlib.arguments import plural as plural
from packlib.installed import late

if TYPE_CHECKING:
    from packbook.figures import show_source
    from packbook.game import PackingGame
    from packbook.questions import compare
    from packbook.results import result, show_recorded
    from packbook.tables import Points, Table
else:  # they load Jupyter
    __getattr__, __dir__ = late(
        __name__,
        {
            "packbook.figures": ["show_source"],
            "packbook.game": ["PackingGame"],
            "packbook.questions": ["compare"],
            "packbook.results": ["result", "show_recorded"],
            "packbook.tables": ["Points", "Table"],
        },
    )

__all__ = [
    "PackingGame",
    "Points",
    "Table",
    "compare",
    "percent",
    "plural",
    "result",
    "show_recorded",
    "show_source",
]
