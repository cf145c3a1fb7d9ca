"""Notebook 04: the best packing, and the proof."""

from packbook.parameters import Dataset, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(dataset=Dataset(), max_sequences_per_pack=Whole(1, 512, optional=True))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["DEPTHS", "PATIENCE", "QUESTIONS", "GapExplorer", "mark", "reveal"],
        "packbook.shared.histograms": ["in_blocks", "shown_name"],
        "packbook.shared.pack_drawings": ["spoken"],
    },
)
