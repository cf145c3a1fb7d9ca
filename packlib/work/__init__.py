"""Work: how long a pack takes, and schedules whose ranks wait little for the slowest one.

Read first `cost.py`: what a pack costs. `schedule.py` assigns packs to steps and ranks by their work, for which
`windows.py` has the method and a lower bound on the time; `one_step.py` packs and assigns the sequences of a single
step. `idle_time.py` estimates how long ranks wait for each other in random batches. In `context_parallel.py` and
`rank_groups.py` several ranks work on one sequence.
"""

from packlib.work.context_parallel import SHARDINGS, ContextShards, context_shards
from packlib.work.cost import Work
from packlib.work.idle_time import Waiting, waiting
from packlib.work.one_step import balance_step
from packlib.work.rank_groups import RankGroups, share_sequences
from packlib.work.schedule import Schedule, balance

__all__ = [
    "SHARDINGS",
    "ContextShards",
    "RankGroups",
    "Schedule",
    "Waiting",
    "Work",
    "balance",
    "balance_step",
    "context_shards",
    "share_sequences",
    "waiting",
]
