from packbook.parameters import Dataset, Whole
from packlib.installed import late

PARAMETERS = {"dataset": Dataset(), "layers": Whole(1, 6)}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
