"""Notebook 02: greedy packing by hand, on a histogram and on a stream."""

from packbook.parameters import Dataset, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(dataset=Dataset(), max_sequences_per_pack=Whole(1, 512, optional=True))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "StepByStep", "reveal"],
        f"{__name__}.runs": ["EIGHT", "SEVEN", "SLOTS"],
        "packbook.shared.glosses": ["wordnet_texts"],
        "packbook.shared.histograms": ["shown_name"],
    },
)
