"""Notebook 17: how sure a difference between training runs is."""

from packbook.parameters import Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(pairs=Whole(2, 100))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "ExperimentExplorer", "mark", "reveal"],
        "packbook.shared.recorded_experiments": ["baselines", "ends_of", "swept"],
        "packbook.shared.recorded_runs": ["interval", "runs_of"],
    },
)
