"""Notebook 18: batches of equally many tokens, rates that follow them, and rows with two budgets."""

from packbook.parameters import Dataset, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(dataset=Dataset(), budget=Whole(64, 65_536), max_tiles=Whole(13, 1000))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["BudgetExplorer", "QUESTIONS", "mark", "reveal"],
        "packbook.shared.histograms": ["sample_lengths"],
        "packbook.shared.recorded_runs": ["at_end", "interval", "runs_of"],
        "packbook.shared.spans": ["span"],
        "packbook.shared.wordnet": ["tokenized_pairs"],
    },
)
