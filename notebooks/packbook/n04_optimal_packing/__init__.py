from packbook.parameters import Dataset, Whole
from packlib.installed import late

PARAMETERS = {"dataset": Dataset(), "max_sequences_per_pack": Whole(1, 512, optional=True)}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
