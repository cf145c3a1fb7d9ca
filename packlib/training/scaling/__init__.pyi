from .buckets import Buckets, choose_buckets, waste_curve
from .calculator import PRECISIONS, Phase, Setup, calculate, value_of
from .compile_counter import CompileCounter
from .compiling import ShapeGraphs, blank_batch, compile_for_shapes, onset_schedule
from .recomputation import recompute

__all__ = [
    "PRECISIONS",
    "Buckets",
    "CompileCounter",
    "Phase",
    "Setup",
    "ShapeGraphs",
    "blank_batch",
    "calculate",
    "choose_buckets",
    "compile_for_shapes",
    "onset_schedule",
    "recompute",
    "value_of",
    "waste_curve",
]
