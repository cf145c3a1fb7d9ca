"""Notebook 12: your own lengths, your own decisions, and the advice beside them."""

from packbook.parameters import Choice, Dataset, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(
    dataset=Dataset(),
    max_length=Whole(1, 1 << 20, optional=True),
    overlong=Choice(("truncate", "drop", "split")),
    max_sequences_per_pack=Whole(1, 1 << 20, optional=True),
    today=Choice(("random", "sorted", "fixed", "packed")),
    batch_size=Whole(1, 1 << 20),
)
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "MaximumExplorer", "mark", "reveal"],
        "packlib.tools.advice": ["cut"],
    },
)
