from .agreement import RankError, agree_on_errors, check_same, group_device
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
    "agree_on_errors",
    "balance_distributed",
    "check_same",
    "deal",
    "exact_sort",
    "group_device",
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
