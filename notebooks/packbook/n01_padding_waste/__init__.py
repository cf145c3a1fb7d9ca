from packbook.parameters import Dataset, Whole
from packlib.installed import late

PARAMETERS = {"dataset": Dataset(), "batch_size": Whole(1, 4096)}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
