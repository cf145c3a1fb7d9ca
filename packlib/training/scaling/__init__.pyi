from .buckets import Buckets, choose_buckets, waste_curve
from .calculator import PRECISIONS, Phase, Setup, calculate, value_of
from .compile_counter import CompileCounter
from .compiling import ShapeGraphs, blank_batch, compile_for_shapes, onset_schedule
from .pipeline import BertStage, Pipeline, split_layers
from .recomputation import recompute
from .timeline import Bar, bubble, bubble_formula, gantt, in_flight

__all__ = [
    "PRECISIONS",
    "Bar",
    "BertStage",
    "Buckets",
    "CompileCounter",
    "Phase",
    "Pipeline",
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
    "onset_schedule",
    "recompute",
    "split_layers",
    "value_of",
    "waste_curve",
]
