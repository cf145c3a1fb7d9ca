from packbook.parameters import Dataset, Whole
from packlib.installed import late

PARAMETERS = {"dataset": Dataset(), "buckets": Whole(2, 16), "ranks": Whole(2, 16)}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
