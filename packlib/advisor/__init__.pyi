from .advising import advise, lengths_for
from .findings import many
from .recordings import recorded

__all__ = [
    "advise",
    "lengths_for",
    "many",
    "recorded",
]
