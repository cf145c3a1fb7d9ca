from packbook.parameters import Choice, Whole
from packlib.installed import late

PARAMETERS = {
    "texts": Choice(("wordnet", "wordnet-pairs")),
    "number": Whole(100, 1300),
    "max_length": Whole(16, 128),
    "updates": Whole(4, 1000),
}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
