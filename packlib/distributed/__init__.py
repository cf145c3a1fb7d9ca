"""Many ranks: starting them from a notebook or with torchrun, sorting and packing across them.

Read first `ranks.py`, which runs a function on several ranks, then `sorting.py`: an exact sort by counting.
`packing.py` packs what is spread over ranks.
"""

from packlib.collectives import RankError
from packlib.distributed.packing import PackShare, deal, pack_distributed
from packlib.distributed.ranks import run_ranks
from packlib.distributed.sampler import DistributedCurriculumSampler
from packlib.distributed.sorting import SortedRows, exact_sort, interleave, load_imbalance, sort_rows

__all__ = [
    "DistributedCurriculumSampler",
    "PackShare",
    "RankError",
    "SortedRows",
    "deal",
    "exact_sort",
    "interleave",
    "load_imbalance",
    "pack_distributed",
    "run_ranks",
    "sort_rows",
]
