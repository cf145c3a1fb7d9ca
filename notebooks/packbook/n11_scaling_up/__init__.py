"""Notebook 11: many devices train one model on packs."""

from packbook.parameters import Choice, Dataset, Parameters, Whole
from packlib.installed import late

MODELS = ("8B", "70B", "8x7B", "BERT-Large")  # as `devices.MODELS` has them
PARAMETERS = Parameters(
    dataset=Dataset(),
    model=Choice(MODELS),
    stages=Whole(2, 16),
    micro_batches=Whole(2, 32),
)
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.devices": ["bill", "parameters"],
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["DevicesExplorer", "QUESTIONS", "mark", "reveal"],
        f"{__name__}.timeline": ["gantt"],
        "packbook.shared.gradients": ["distance"],
        "packbook.shared.small_models": ["small_bert"],
        "packbook.shared.wordnet": ["pair_loaders"],
    },
)
