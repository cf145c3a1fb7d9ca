"""Notebook 03: packing by least squares."""

from packbook.parameters import Dataset, Number, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(
    dataset=Dataset(), max_sequences_per_pack=Whole(2, 4), cutoff=Whole(0, 512), weight=Number(0.001, 1.0)
)
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "WeightExplorer", "mark", "reveal"],
        f"{__name__}.runs": ["about"],
        "packbook.shared.histograms": ["in_blocks", "shown_name"],
    },
)
