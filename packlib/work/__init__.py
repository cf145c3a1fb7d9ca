"""Work: how long a pack takes, and how long ranks wait for the slowest one.

Read first `cost.py`: what a pack costs. `windows.py` deals packs so that ranks wait little, and says how little is
possible, `idle_time.py` says how long they wait, and `context_parallel.py` and `rank_groups.py` are about several
ranks on one sequence.
"""

from packlib.work.context_parallel import SHARDINGS, ContextShards, context_shards
from packlib.work.cost import Work
from packlib.work.idle_time import Waiting, waiting
from packlib.work.rank_groups import RankGroups, share_sequences

__all__ = [
    "SHARDINGS",
    "ContextShards",
    "RankGroups",
    "Waiting",
    "Work",
    "context_shards",
    "share_sequences",
    "waiting",
]
