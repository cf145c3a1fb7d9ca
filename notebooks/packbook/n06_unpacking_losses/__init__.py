"""Notebook 06: the loss, the accuracy and the gradients of the unpacked run."""

from packbook.parameters import Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(max_sequences_per_pack=Whole(1, 128, optional=True), steps=Whole(0, 1000))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "MeansExplorer", "reveal"],
        "packbook.shared.glosses": ["wordnet_texts"],
        "packbook.shared.gradients": ["distance", "gradients", "largest_difference"],
        "packbook.shared.spans": ["span"],
    },
)
