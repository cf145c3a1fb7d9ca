"""Notebook 15: which tokens of chats count, and how much."""

from packbook.parameters import Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(
    max_length=Whole(256, 32_768),
    answers_per_prompt=Whole(2, 64),
    ranks=Whole(2, 64),
)
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "WeightsExplorer", "mark", "reveal"],
        "packbook.shared.recorded_runs": ["interval"],
    },
)
