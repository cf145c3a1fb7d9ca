"""Work: how long a pack takes, and how long ranks wait for the slowest one.

Read first `cost.py`: what a pack costs. `random_waiting.py` says how long ranks wait in random deals, `balancing.py`
deals packs so that they wait less, and `context_parallel.py` is about several ranks on one pack.
"""

from packlib.work.balancing import Schedule, balance, waiting
from packlib.work.context_parallel import SHARDINGS, ContextShards, context_shards
from packlib.work.cost import Work, squares_of
from packlib.work.random_waiting import RandomWaiting, waiting_at_random
