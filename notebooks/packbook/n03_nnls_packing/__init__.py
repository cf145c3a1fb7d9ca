from packbook.parameters import Dataset, Number, Whole
from packlib.installed import late

PARAMETERS = {
    "dataset": Dataset(),
    "max_sequences_per_pack": Whole(2, 4),
    "cutoff": Whole(0, 512),
    "weight": Number(0.001, 1.0),
}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
