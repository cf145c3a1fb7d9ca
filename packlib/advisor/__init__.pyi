from .advising import advise, lengths_for
from .findings import Advice, Overhead, many
from .records import Recorded, recorded
from .risks import Risk

__all__ = ["Advice", "Overhead", "Recorded", "Risk", "advise", "lengths_for", "many", "recorded"]
