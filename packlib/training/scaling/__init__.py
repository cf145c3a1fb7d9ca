"""Scaling: few shapes for compilers, and a count of what they compile.

Read first `compiling.py`, which compiles a model for a few shapes; `buckets.py` chooses them.
"""

from typing import TYPE_CHECKING

from packlib.installed import late
from packlib.training.scaling.buckets import Buckets, choose_buckets, waste_curve

if TYPE_CHECKING:
    from packlib.training.scaling.compile_counter import CompileCounter
    from packlib.training.scaling.compiling import ShapeGraphs, blank_batch, compile_for_shapes, onset_schedule
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
        },
    )
