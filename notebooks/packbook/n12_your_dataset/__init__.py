from packbook.parameters import Choice, Dataset, Whole
from packlib.installed import late

PARAMETERS = {
    "dataset": Dataset(),
    "max_length": Whole(1, 1 << 20, optional=True),
    "overlong": Choice(("truncate", "drop", "split")),
    "max_sequences_per_pack": Whole(1, 1 << 20, optional=True),
    "today": Choice(("random", "sorted", "fixed", "packed")),
    "batch_size": Whole(1, 1 << 20),
}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
