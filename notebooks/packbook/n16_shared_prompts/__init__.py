"""Notebook 16: what sequences share, computed once."""

from packbook.parameters import Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(
    turns=Whole(4, 32),
    answers=Whole(2, 64),
    prompt_tokens=Whole(16, 1 << 16),
    answer_tokens=Whole(4, 1 << 16),
    max_length=Whole(64, 1 << 17),
)
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "SharedTree", "mark", "reveal"],
    },
)
