from .advising import advise, lengths_for
from .findings import Advice, Overhead
from .memory import about_memory
from .records import Recorded, recorded
from .risks import Risk, many

__all__ = ["Advice", "Overhead", "Recorded", "Risk", "about_memory", "advise", "lengths_for", "many", "recorded"]
