"""Notebook 12: your own lengths, your own decisions, and the advice beside them."""

from packbook.parameters import Choice, Dataset, Parameters, Whole
from packlib.installed import late
from packlib.lengths.overlong import CUT_RULES
from packlib.lengths.waste import HABITS

PARAMETERS = Parameters(
    dataset=Dataset(),
    max_length=Whole(1, 1 << 20, optional=True),
    overlong=Choice(CUT_RULES),
    max_sequences_per_pack=Whole(1, 1 << 20, optional=True),
    today=Choice((*HABITS, "packed")),
    batch_size=Whole(1, 1 << 20),
)
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "MaximumExplorer", "mark", "reveal"],
    },
)
