from .exercises import Exercise, Exercises
from .explorers import Explorer
from .figures import INK, OKABE_ITO, PADDING, label_ends, new_figure, percent, series, show, show_source
from .game import PackingGame
from .memory import surprises
from .parameters import check_parameters
from .results import keep, result
from .tables import Points, Table

__all__ = [
    "INK",
    "OKABE_ITO",
    "PADDING",
    "Exercise",
    "Exercises",
    "Explorer",
    "PackingGame",
    "Points",
    "Table",
    "check_parameters",
    "keep",
    "label_ends",
    "new_figure",
    "percent",
    "result",
    "series",
    "show",
    "show_source",
    "surprises",
]
