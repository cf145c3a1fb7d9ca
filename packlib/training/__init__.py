"""Training: a recipe and how packing changes it, LAMB, schedules, and a loop of a page.

Read first `adjustment.py`: what changes in a recipe when rows are packs. `loop.py` has `fit`.
"""

from typing import TYPE_CHECKING

from packlib.installed import late
from packlib.training.adjustment import Adjustment, adjust
from packlib.training.recipe import Recipe

if TYPE_CHECKING:
    from packlib.training.lamb import Lamb, make_optimizer, parameter_groups
    from packlib.training.loop import fit
    from packlib.training.objective import CausalObjective, MaskedObjective, PretrainingObjective, evaluate
    from packlib.training.precision import round_weights, stochastic_round
    from packlib.training.schedules import SequenceSchedule, rate_at
    from packlib.training.updates import UpdateStream
else:  # they load torch
    __getattr__, __dir__ = late(
        __name__,
        {
            "packlib.training.lamb": ["Lamb", "make_optimizer", "parameter_groups"],
            "packlib.training.loop": ["fit"],
            "packlib.training.objective": ["CausalObjective", "MaskedObjective", "PretrainingObjective", "evaluate"],
            "packlib.training.precision": ["round_weights", "stochastic_round"],
            "packlib.training.schedules": ["SequenceSchedule", "rate_at"],
            "packlib.training.updates": ["UpdateStream"],
        },
    )

__all__ = [
    "Adjustment",
    "CausalObjective",
    "Lamb",
    "MaskedObjective",
    "PretrainingObjective",
    "Recipe",
    "SequenceSchedule",
    "UpdateStream",
    "adjust",
    "evaluate",
    "fit",
    "make_optimizer",
    "parameter_groups",
    "rate_at",
    "round_weights",
    "stochastic_round",
]
