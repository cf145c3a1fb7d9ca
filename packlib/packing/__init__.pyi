from .balancing import Schedule, Waiting, balance, waiting
from .certificate import PRICE_OF_A_PACK, certified_bound
from .context_parallel import SHARDINGS, ContextShards, context_shards
from .documents import CUTTING_RULES, DocumentRows, document_rows, least_cuts
from .filling import fill_places
from .greedy import spread_evenly
from .methods import METHODS, plan
from .nnls import full_strategies, num_full_strategies, strategy_matrix
from .packs import Packs, assign
from .plans import PackingPlan
from .random_waiting import RandomWaiting, waiting_at_random
from .stream import StreamPacker
from .work import Work, squares_of

__all__ = [
    "CUTTING_RULES",
    "METHODS",
    "PRICE_OF_A_PACK",
    "SHARDINGS",
    "ContextShards",
    "DocumentRows",
    "PackingPlan",
    "Packs",
    "RandomWaiting",
    "Schedule",
    "StreamPacker",
    "Waiting",
    "Work",
    "assign",
    "balance",
    "certified_bound",
    "context_shards",
    "document_rows",
    "fill_places",
    "full_strategies",
    "least_cuts",
    "num_full_strategies",
    "plan",
    "spread_evenly",
    "squares_of",
    "strategy_matrix",
    "waiting",
    "waiting_at_random",
]
