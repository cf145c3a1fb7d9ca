from . import scaling
from .adjustment import Adjustment, adjust
from .lamb import Lamb, make_optimizer, parameter_groups
from .loop import NonFiniteLossError, fit
from .objective import CausalObjective, MaskedObjective, PretrainingObjective, evaluate
from .precision import Autocast, round_weights, stochastic_round
from .recipe import Recipe
from .schedules import SequenceSchedule, rate_at
from .updates import UpdateStream

__all__ = [
    "Adjustment",
    "Autocast",
    "CausalObjective",
    "Lamb",
    "MaskedObjective",
    "NonFiniteLossError",
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
    "scaling",
    "stochastic_round",
]
