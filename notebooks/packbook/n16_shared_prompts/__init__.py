from packbook.parameters import Whole
from packlib.installed import late

PARAMETERS = {
    "answers": Whole(2, 64),
    "prompt_tokens": Whole(16, 1 << 16),
    "answer_tokens": Whole(4, 1 << 16),
    "max_length": Whole(64, 1 << 17),
}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
