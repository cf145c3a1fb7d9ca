"""Notebook 07: what packing changes in a training recipe."""

from packbook.parameters import Dataset, Number, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(
    dataset=Dataset(),
    max_length=Whole(8, 8192),
    micro_batch=Whole(1, 64),
    gradient_accumulation_steps=Whole(1, 64),
    beta1=Number(0.01, 0.9999),
    beta2=Number(0.01, 0.9999),
)
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "RecipeExplorer", "mark", "reveal"],
        "packbook.shared.histograms": ["sample_lengths"],
    },
)
