"""Notebook 01: what padding costs."""

from packbook.parameters import Dataset, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(dataset=Dataset(), batch_size=Whole(1, 4096))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "WasteExplorer", "reveal"],
        "packbook.shared.glosses": ["wordnet_texts"],
        "packbook.shared.habits": ["HABIT_NAMES", "make_batches"],
        "packbook.shared.histograms": ["sample_lengths", "shown_name"],
    },
)
