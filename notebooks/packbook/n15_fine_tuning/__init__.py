from packbook.parameters import Whole
from packlib.installed import late

PARAMETERS = {"max_length": Whole(256, 32_768), "answers_per_prompt": Whole(2, 64), "ranks": Whole(2, 64)}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
