"""What the notebooks share: figures, questions, exercises, explorers, and how notebooks are run.

Read first `figures.py`. The notebook `01_padding_waste` belongs to the folder `n01_padding_waste`, a package with

    PARAMETERS   names and kinds of its parameters, but `seed` and `quick`, which every notebook has

Its `lesson`, which loads what the lesson needs, defines

    check        an `Exercises` with solutions
    QUESTIONS    a `Questions`: what is to be guessed; `reveal = QUESTIONS.reveal`

and its `Explorer` classes, each of which can be made without arguments. The words of exercises and questions stand
beside it in `exercises.toml` and `questions.toml`. `figures` draws, `runs` computes and trains.
What several chapters use is in `shared`, in files named for their idea; no chapter imports another.
"""

from typing import TYPE_CHECKING

from packbook.parameters import check_parameters
from packlib.checks import percent as percent
from packlib.installed import late

if TYPE_CHECKING:
    from packbook.figures import show_source
    from packbook.game import PackingGame
    from packbook.results import result
else:  # they load Jupyter
    __getattr__, __dir__ = late(
        __name__,
        {
            "packbook.figures": ["show_source"],
            "packbook.game": ["PackingGame"],
            "packbook.results": ["result"],
        },
    )

__all__ = ["PackingGame", "check_parameters", "percent", "result", "show_source"]
