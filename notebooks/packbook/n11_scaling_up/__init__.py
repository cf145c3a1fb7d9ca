from packbook.parameters import Dataset, Whole
from packlib.installed import late

PARAMETERS = {
    "dataset": Dataset(),
    "stages": Whole(2, 24),
    "micro_batch": Whole(1, 512),
    "gradient_accumulation_steps": Whole(1, 65_536),
    "replicas": Whole(1, 4096),
}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
