"""Training after packing: recipes and what to change in them, LAMB, schedules in sequences, one loop.

What needs torch is loaded where it is first used, so that `packlib advise` answers at once.
"""

from importlib import import_module

_HOME = {
    "Advice": "advice",
    "Lamb": "lamb",
    "NonFiniteLossError": "loop",
    "PretrainingObjective": "objective",
    "Recipe": "recipe",
    "SequenceSchedule": "schedules",
    "UpdateStream": "updates",
    "adjust": "advice",
    "evaluate": "objective",
    "fit": "loop",
    "make_optimizer": "lamb",
    "parameter_groups": "lamb",
    "rate_at": "schedules",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
