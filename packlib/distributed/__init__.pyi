from .agreement import RankError
from .balancing import balance_distributed
from .ordered import interleave, read_ordered, write_ordered
from .packing import PackShare, deal, pack_distributed, packing_traffic
from .ranks import run_ranks
from .sampler import DistributedCurriculumSampler, ordered_bits
from .sorting import SortedRows, exact_sort, load_imbalance, sort_rows

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
    "packing_traffic",
    "read_ordered",
    "run_ranks",
    "sort_rows",
    "write_ordered",
]
