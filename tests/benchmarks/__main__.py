"""Run the benchmarks, print each row as it is there, and record them in data/benchmarks/.

python -m tests.benchmarks            # all but the last three
python -m tests.benchmarks packing    # or: nnls, model, batches, distributed, sorting, scaling, compiling, bridges,
                                      # audit, check, balance, classes, packing_draws, packing_slack
"""

import sys

from packlib.checks import one_of


def packing() -> None:
    from tests.benchmarks.bench_packing import main

    main()


def nnls() -> None:
    from tests.benchmarks.bench_nnls import main

    main()


def model() -> None:
    from tests.benchmarks.bench_model import main

    main([])


def distributed() -> None:
    from tests.benchmarks.bench_distributed import main

    main()


def sorting() -> None:
    from tests.benchmarks.bench_sorting import main

    main()


def scaling() -> None:
    from tests.benchmarks.bench_scaling import main

    main([])


def compiling() -> None:
    from tests.benchmarks.bench_compiling import main

    main([])


def batches() -> None:
    from tests.benchmarks.bench_batches import main

    main()


def audit() -> None:
    from tests.benchmarks.bench_audit import main

    main()


def check() -> None:
    from tests.benchmarks.bench_check import main

    main()


def classes() -> None:
    from tests.benchmarks.bench_classes import main

    main()


def packing_draws() -> None:
    from tests.benchmarks.bench_packing_draws import main

    main()


def packing_slack() -> None:
    from tests.benchmarks.bench_packing_slack import main

    main()


def bridges() -> None:
    from tests.benchmarks.bench_bridges import main

    main()


def balance() -> None:
    from tests.benchmarks.bench_balance import main

    main()


SECTIONS = {
    "packing": packing,
    "nnls": nnls,
    "model": model,
    "batches": batches,
    "distributed": distributed,
    "sorting": sorting,
    "scaling": scaling,
    "compiling": compiling,
    "bridges": bridges,
    "audit": audit,
    "check": check,
    "balance": balance,
}
ALONE = {  # up to an hour each, so they are asked for by name
    "classes": classes,
    "packing_draws": packing_draws,
    "packing_slack": packing_slack,
}

for name in [one_of("benchmark", name, SECTIONS | ALONE) for name in sys.argv[1:]] or SECTIONS:
    (SECTIONS | ALONE)[name]()
