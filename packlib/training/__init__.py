"""Training after packing: recipes and what to change in them, LAMB, schedules in sequences, one loop.

What needs torch is loaded where it is first used, so that `packlib advise` answers at once.
"""

from importlib import import_module

_HOME = {
    "Advice": "advice",
    "Autocast": "precision",
    "Bar": "timeline",
    "Buckets": "buckets",
    "CausalObjective": "objective",
    "CompileCounter": "compile_counter",
    "Lamb": "lamb",
    "NonFiniteLossError": "loop",
    "MaskedObjective": "objective",
    "PackTrainer": "trainer",
    "Phase": "calculator",
    "Pipeline": "pipeline",
    "PretrainingObjective": "objective",
    "Recipe": "recipe",
    "SavedActivations": "recomputation",
    "SequenceSchedule": "schedules",
    "Setup": "calculator",
    "ShapeGraphs": "compiling",
    "UpdateStream": "updates",
    "adjust": "advice",
    "against_published": "pod",
    "bubble": "timeline",
    "bubble_and_underflow": "precision",
    "bubble_formula": "timeline",
    "calculate": "calculator",
    "choose_buckets": "buckets",
    "compile_for_shapes": "compiling",
    "evaluate": "objective",
    "fit": "loop",
    "gantt": "timeline",
    "human": "calculator",
    "in_flight": "timeline",
    "largest_loss_scale": "precision",
    "lost_values": "precision",
    "make_optimizer": "lamb",
    "memory_of": "sharding",
    "offload_state": "sharding",
    "onset_schedule": "compiling",
    "parameter_groups": "lamb",
    "rate_at": "schedules",
    "recompute": "recomputation",
    "ring_all_reduce": "ring",
    "ring_states": "ring",
    "ring_steps": "ring",
    "round_weights": "precision",
    "shard_model": "sharding",
    "shard_optimizer": "sharding",
    "split_layers": "pipeline",
    "stochastic_round": "precision",
    "value_of": "calculator",
    "waste_curve": "buckets",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
