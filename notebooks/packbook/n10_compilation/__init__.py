"""Notebook 10: few lengths to pad to, all compiled at the start."""

from packbook.parameters import Dataset, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(dataset=Dataset(), buckets=Whole(2, 16), ranks=Whole(2, 16))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "ShapesExplorer", "mark", "reveal"],
    },
)
