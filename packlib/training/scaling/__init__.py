"""Scaling: what a run on many processors costs, and how compilers see shapes.

Read first `calculator.py`, which reckons memory and time of a run; `compiling.py` compiles a model for a few shapes.
"""

from typing import TYPE_CHECKING

from packlib.installed import late
from packlib.training.scaling.buckets import Buckets, choose_buckets, waste_curve
from packlib.training.scaling.calculator import PRECISIONS, Phase, Setup, calculate, value_of

if TYPE_CHECKING:
    from packlib.training.scaling.compile_counter import CompileCounter
    from packlib.training.scaling.compiling import ShapeGraphs, blank_batch, compile_for_shapes, onset_schedule
    from packlib.training.scaling.recomputation import recompute
else:  # they load torch
    __getattr__, __dir__ = late(
        __name__,
        {
            "packlib.training.scaling.compile_counter": ["CompileCounter"],
            "packlib.training.scaling.compiling": [
                "ShapeGraphs",
                "blank_batch",
                "compile_for_shapes",
                "onset_schedule",
            ],
            "packlib.training.scaling.recomputation": ["recompute"],
        },
    )
