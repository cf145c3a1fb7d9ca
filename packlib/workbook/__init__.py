"""What the notebooks share: figures, questions, exercises, explorers, and how notebooks are run.

Read first `figures.py`. A chapter's own code stands in `chapters/`, one folder for each notebook.
"""

from typing import TYPE_CHECKING

from packlib.installed import late
from packlib.workbook.parameters import check_parameters

if TYPE_CHECKING:
    from packlib.workbook.exercises import Exercise, Exercises
    from packlib.workbook.explorers import Explorer
    from packlib.workbook.figures import (
        INK,
        OKABE_ITO,
        PADDING,
        label_ends,
        new_figure,
        percent,
        series,
        show,
        show_source,
    )
    from packlib.workbook.game import PackingGame
    from packlib.workbook.results import keep, result
    from packlib.workbook.tables import Points, Table, show_table
else:  # they load Jupyter
    __getattr__, __dir__ = late(
        __name__,
        {
            "packlib.workbook.exercises": ["Exercise", "Exercises"],
            "packlib.workbook.explorers": ["Explorer"],
            "packlib.workbook.figures": [
                "INK",
                "OKABE_ITO",
                "PADDING",
                "label_ends",
                "new_figure",
                "percent",
                "series",
                "show",
                "show_source",
            ],
            "packlib.workbook.game": ["PackingGame"],
            "packlib.workbook.results": ["keep", "result"],
            "packlib.workbook.tables": ["Points", "Table", "show_table"],
        },
    )
