"""Training after packing: recipes and what to change in them, LAMB, schedules in sequences, one loop.

What needs torch is loaded where it is first used, so that `packlib adjust` answers at once.
"""

from importlib import import_module

from packlib.installed import needed_by

_HOME = {
    "Adjustment": "adjustment",
    "Autocast": "precision",
    "Bar": "scaling.timeline",
    "Buckets": "scaling.buckets",
    "CausalObjective": "objective",
    "CompileCounter": "scaling.compile_counter",
    "Lamb": "lamb",
    "NonFiniteLossError": "loop",
    "MaskedObjective": "objective",
    "Phase": "scaling.calculator",
    "Pipeline": "scaling.pipeline",
    "PretrainingObjective": "objective",
    "Recipe": "recipe",
    "SavedActivations": "scaling.recomputation",
    "SequenceSchedule": "schedules",
    "Setup": "scaling.calculator",
    "ShapeGraphs": "scaling.compiling",
    "UpdateStream": "updates",
    "adjust": "adjustment",
    "against_published": "scaling.pod",
    "bubble": "scaling.timeline",
    "bubble_and_underflow": "precision",
    "bubble_formula": "scaling.timeline",
    "calculate": "scaling.calculator",
    "choose_buckets": "scaling.buckets",
    "compile_for_shapes": "scaling.compiling",
    "evaluate": "objective",
    "fit": "loop",
    "gantt": "scaling.timeline",
    "human": "scaling.calculator",
    "in_flight": "scaling.timeline",
    "largest_loss_scale": "precision",
    "lost_values": "precision",
    "make_optimizer": "lamb",
    "memory_of": "scaling.sharding",
    "offload_state": "scaling.sharding",
    "onset_schedule": "scaling.compiling",
    "parameter_groups": "lamb",
    "rate_at": "schedules",
    "recompute": "scaling.recomputation",
    "ring_all_reduce": "scaling.ring",
    "ring_states": "scaling.ring",
    "ring_steps": "scaling.ring",
    "round_weights": "precision",
    "shard_model": "scaling.sharding",
    "shard_optimizer": "scaling.sharding",
    "split_layers": "scaling.pipeline",
    "stochastic_round": "precision",
    "value_of": "scaling.calculator",
    "waste_curve": "scaling.buckets",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needed_by(f"{__name__}.{name}"):
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
