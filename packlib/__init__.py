"""packlib: train on sequences of different lengths without paying for padding.

>>> import packlib
>>> histogram = packlib.load("wikipedia")
>>> packlib.plan(histogram, method="lpfhp").num_packs < histogram.num_sequences
True

The ideas are in `lengths`, `packing`, `work`, `batches`, `model`, `training` and `distributed`, each building on those
before it. Each subpackage says in its `__init__` what to read first. SPFHP is in `packing/greedy.py`, a new method gets
into the table of `packing/methods.py`, and `packing/proofs.py` says why a lower bound holds: by sums, or by prices, as
`packing/search/bound.py` proves. The tools for data, models and trainers of your own are in `packlib.tools` and build
on the ideas. The notebooks share a package of their own, `packbook`.
"""

from typing import TYPE_CHECKING

from packlib import lengths, packing, work
from packlib.installed import __version__, late
from packlib.lengths import LengthHistogram, load
from packlib.packing import PackingPlan, Packs, StreamPacker, pack_trees, plan
from packlib.work import balance, balance_step, share_sequences

if TYPE_CHECKING:
    from packlib import batches, distributed, model, tools, training
    from packlib.batches import pack_loader
    from packlib.model import predict
    from packlib.tools.advice import advise
    from packlib.tools.auditing import audit
    from packlib.tools.check import check_packing
    from packlib.tools.loaders import check_loader
    from packlib.tools.rows import (
        PackedStream,
        TransformersCollator,
        TreeCollator,
        lay_trees,
        pack_dataset,
    )
    from packlib.training import Lamb, Recipe, adjust, evaluate, fit
else:  # they load torch or Arrow
    __getattr__, __dir__ = late(
        __name__,
        {
            **{f"packlib.{room}": [room] for room in ("batches", "distributed", "model", "tools", "training")},
            "packlib.batches.loader": ["pack_loader"],
            "packlib.model.prediction": ["predict"],
            "packlib.tools.advice.advising": ["advise"],
            "packlib.tools.auditing.auditing": ["audit"],
            "packlib.tools.check.checking": ["check_packing"],
            "packlib.tools.loaders.checking": ["check_loader"],
            "packlib.tools.rows.collator": ["TransformersCollator"],
            "packlib.tools.rows.packed_rows": ["pack_dataset"],
            "packlib.tools.rows.row_stream": ["PackedStream"],
            "packlib.tools.rows.trees": ["TreeCollator", "lay_trees"],
            "packlib.training.adjustment": ["adjust"],
            "packlib.training.lamb": ["Lamb"],
            "packlib.training.loop": ["fit"],
            "packlib.training.objective": ["evaluate"],
            "packlib.training.recipe": ["Recipe"],
        },
    )

__all__ = [
    "Lamb",
    "LengthHistogram",
    "PackedStream",
    "PackingPlan",
    "Packs",
    "Recipe",
    "StreamPacker",
    "TransformersCollator",
    "TreeCollator",
    "__version__",
    "adjust",
    "advise",
    "audit",
    "balance",
    "balance_step",
    "batches",
    "check_loader",
    "check_packing",
    "distributed",
    "evaluate",
    "fit",
    "lay_trees",
    "lengths",
    "load",
    "model",
    "pack_dataset",
    "pack_loader",
    "pack_trees",
    "packing",
    "plan",
    "predict",
    "share_sequences",
    "tools",
    "training",
    "work",
]
