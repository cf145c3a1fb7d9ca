from packbook.parameters import Dataset, Number, Whole
from packlib.installed import late

PARAMETERS = {"dataset": Dataset(), "budget": Whole(64, 65_536), "duration": Number(0, 1)}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
