"""Notebook 08: rows that grow, and the rates that they allow."""

from packbook.parameters import Number, Parameters
from packlib.installed import late

PARAMETERS = Parameters(duration=Number(0.01, 1))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "WarmupExplorer", "mark", "reveal"],
        f"{__name__}.runs": ["definitions"],
        "packbook.shared.recorded_runs": ["at_end", "best_rates", "by_rate", "runs_of"],
        "packbook.shared.small_models": ["small_gpt"],
        "packbook.shared.wordnet": ["tokenized_pairs"],
    },
)
