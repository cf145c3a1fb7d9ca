"""packlib: train on sequences of different lengths without paying for padding.

>>> import packlib
>>> histogram = packlib.load("wikipedia")
>>> packlib.plan(histogram, method="lpfhp").num_packs < histogram.num_sequences
True

The rooms, each building on those before it: `lengths`, `work`, `packing`, `distributed`, `batches`, `model`,
`training`, `rows`, `check`, `auditing`, `advice`, `workbook`. Each says in its `__init__` what to read first. SPFHP is
in `packing/greedy.py`; a new method gets into the table of `packing/methods.py`; `packing/search/bound.py` proves the
bound; and `rows/collator.py` shows what the collator makes of a row.
"""

from typing import TYPE_CHECKING

from packlib import lengths, packing, work
from packlib.installed import __version__, late
from packlib.lengths import LengthHistogram, load
from packlib.packing import PackingPlan, Packs, StreamPacker, balance, plan

if TYPE_CHECKING:
    from packlib import advice, auditing, batches, check, distributed, model, rows, training, workbook
    from packlib.advice import advise
    from packlib.auditing import audit
    from packlib.batches import collate
    from packlib.check import check_packing
    from packlib.rows import pack_dataset
else:  # they load torch, Arrow or Jupyter
    _ROOMS = ("advice", "auditing", "batches", "check", "distributed", "model", "rows", "training", "workbook")
    __getattr__, __dir__ = late(
        __name__,
        {
            **{f"packlib.{room}": [room] for room in _ROOMS},
            "packlib.advice.advising": ["advise"],
            "packlib.auditing.auditing": ["audit"],
            "packlib.batches.collation": ["collate"],
            "packlib.check.checking": ["check_packing"],
            "packlib.rows.packed_rows": ["pack_dataset"],
        },
    )
