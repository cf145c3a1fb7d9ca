"""What the notebooks share: figures, questions, exercises, explorers, and how notebooks are run.

Read first `figures.py`. A chapter's own code stands in `chapters/`, one folder for each notebook.
"""

from typing import TYPE_CHECKING

from packlib.checks import percent as percent
from packlib.installed import late
from packlib.workbook.parameters import check_parameters

if TYPE_CHECKING:
    from packlib.workbook.figures import show_source
    from packlib.workbook.game import PackingGame
    from packlib.workbook.results import result
else:  # they load Jupyter
    __getattr__, __dir__ = late(
        __name__,
        {
            "packlib.workbook.figures": ["show_source"],
            "packlib.workbook.game": ["PackingGame"],
            "packlib.workbook.results": ["result"],
        },
    )
