"""Many ranks: starting them from a notebook or with torchrun, agreeing on errors, sorting and packing across them.

What needs torch is loaded where it is first used.
"""

from importlib import import_module

from packlib.installed import needed_by

_HOME = {
    "DistributedCurriculumSampler": "sampler",
    "PackShare": "packing",
    "RankError": "agreement",
    "SortedRows": "sorting",
    "agree_on_errors": "agreement",
    "check_same": "agreement",
    "deal": "packing",
    "group_device": "agreement",
    "interleave": "ordered",
    "load_imbalance": "sorting",
    "ordered_bits": "sampler",
    "pack_distributed": "packing",
    "packing_traffic": "packing",
    "read_ordered": "ordered",
    "run_ranks": "ranks",
    "exact_sort": "sorting",
    "sort_rows": "sorting",
    "write_ordered": "ordered",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needed_by(f"{__name__}.{name}"):
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
