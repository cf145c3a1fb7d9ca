"""Notebook 05: attention that keeps the sequences of a pack apart."""

from packbook.parameters import Dataset, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(dataset=Dataset(), layers=Whole(1, 6))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "LeakExplorer", "reveal"],
        "packbook.shared.glosses": ["wordnet_texts"],
        "packbook.shared.histograms": ["sample_lengths", "shown_name"],
        "packbook.shared.segments": ["spoiled"],
        "packbook.shared.two_words": ["two_word_batch", "two_words"],
    },
)
