from .agreement import RankError
from .balancing import balance_distributed
from .packing import PackShare, deal, pack_distributed
from .ranks import run_ranks
from .sampler import DistributedCurriculumSampler, ordered_bits
from .sorting import SortedRows, exact_sort, interleave, load_imbalance, sort_rows

__all__ = [
    "DistributedCurriculumSampler",
    "PackShare",
    "RankError",
    "SortedRows",
    "balance_distributed",
    "deal",
    "exact_sort",
    "interleave",
    "load_imbalance",
    "ordered_bits",
    "pack_distributed",
    "run_ranks",
    "sort_rows",
]
