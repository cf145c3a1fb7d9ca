"""Notebook 13: equal tokens, unequal work."""

from packbook.parameters import Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(max_length=Whole(2048, 131_072), ranks=Whole(2, 64), packs_per_rank=Whole(1, 16))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "WindowsExplorer", "reveal"],
    },
)
