"""Notebook 14: documents that are longer than a row, or that stand across the end of one."""

from packbook.parameters import Dataset, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(dataset=Dataset(), max_length=Whole(8, 4096))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "CutDocuments", "reveal"],
        f"{__name__}.runs": ["FIVE", "SLOTS", "SPOKEN"],
        "packbook.shared.histograms": ["sample_lengths", "shown_name"],
        "packbook.shared.recorded_runs": ["at_end", "by_arm", "interval"],
    },
)
