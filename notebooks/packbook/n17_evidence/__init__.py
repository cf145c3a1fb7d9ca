from packbook.parameters import Number, Whole
from packlib.installed import late

PARAMETERS = {"confidence": Number(0.5, 0.999), "pairs": Whole(2, 100)}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
