from packbook.parameters import Dataset, Number, Whole
from packlib.installed import late

PARAMETERS = {
    "dataset": Dataset(),
    "max_length": Whole(8, 8192),
    "micro_batch": Whole(1, 64),
    "gradient_accumulation_steps": Whole(1, 64),
    "beta1": Number(0.01, 0.9999),
    "beta2": Number(0.01, 0.9999),
}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
