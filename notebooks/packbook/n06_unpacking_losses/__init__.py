from packbook.parameters import Whole
from packlib.installed import late

PARAMETERS = {"max_sequences_per_pack": Whole(1, 128, optional=True), "steps": Whole(0, 1000)}

__getattr__, __dir__ = late(__name__, {f"{__name__}.lesson": ["QUESTIONS", "check"]})
