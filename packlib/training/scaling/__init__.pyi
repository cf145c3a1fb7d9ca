from .buckets import Buckets, choose_buckets, waste_curve
from .calculator import PRECISIONS, Phase, Setup, calculate, value_of
from .compile_counter import CompileCounter
from .compiling import ShapeGraphs, blank_batch, compile_for_shapes, onset_schedule
from .pipeline import BertStage, Pipeline, split_layers
from .recomputation import SavedActivations, recompute
from .sharding import memory_of, offload_state, shard_model, shard_optimizer
from .timeline import Bar, bubble, bubble_formula, gantt, in_flight

__all__ = [
    "PRECISIONS",
    "Bar",
    "BertStage",
    "Buckets",
    "CompileCounter",
    "Phase",
    "Pipeline",
    "SavedActivations",
    "Setup",
    "ShapeGraphs",
    "blank_batch",
    "bubble",
    "bubble_formula",
    "calculate",
    "choose_buckets",
    "compile_for_shapes",
    "gantt",
    "in_flight",
    "memory_of",
    "offload_state",
    "onset_schedule",
    "recompute",
    "shard_model",
    "shard_optimizer",
    "split_layers",
    "value_of",
    "waste_curve",
]
