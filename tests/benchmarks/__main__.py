"""Run the benchmarks, print each row as it is there, and record them in data/benchmarks/.

python -m tests.benchmarks            # all but the last two, which take an hour or two each
python -m tests.benchmarks packing    # or: nnls, model, distributed, sorting, scaling, compiling, pack_dataset, audit,
                                      # balance, groups, hard, packing_draws
"""

import importlib
import sys

from packlib.checks import one_of

TOGETHER = (
    "packing", "nnls", "model", "distributed", "sorting", "scaling", "compiling", "pack_dataset", "audit", "balance",
    "groups",
)  # fmt: skip
ALONE = ("hard", "packing_draws")

if __name__ == "__main__":
    names = [one_of("benchmark", name, (*TOGETHER, *ALONE)) for name in sys.argv[1:]] or TOGETHER
    sys.argv[1:] = []  # a benchmark reads its own arguments from there, when it is run alone
    for name in names:
        importlib.import_module(f"tests.benchmarks.bench_{name}").main()
