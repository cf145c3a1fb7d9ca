"""Record what the workbook shows: one command for every program that measures, trains, counts or draws it.

    python data/record.py                   # list the programs, the files they write, and how long that takes
    python data/record.py NAME [WORDS]      # run one of them

The programs are in this folder, beside the files that they write. They belong to the checkout and to the source
distribution; a wheel contains the files alone.
"""

import sys
from dataclasses import dataclass
from importlib import import_module

from packlib.arguments import shown
from packlib.installed import MissingExtraError, needed_by


@dataclass(frozen=True)
class Program:
    """One program that records something.

    Attributes:
        module: file in `data/`, as it is imported; its `main` takes the words that follow the name.
        writes: files that it writes, from the root of the repository; `*` stands for any letters.
        takes: time that it needs on two cores, roughly.
        words: words that may follow its name.
    """

    module: str
    writes: str
    takes: str
    words: str = ""


PROGRAMS = {
    # benchmarks
    "packing": Program("benchmarks.bench_packing", "data/benchmarks/packing.csv", "10 minutes", "[PART ...]"),
    "plans": Program("benchmarks.bench_plans", "data/benchmarks/plans_*.csv", "5 minutes", "[real] [drawn]"),
    "nnls": Program("benchmarks.bench_nnls", "data/benchmarks/packing_nnls.csv", "1 minute"),
    "model": Program(
        "benchmarks.bench_model", "data/benchmarks/model_*.csv", "12 minutes", "[speed] [wikipedia] [bytes] | gpu"
    ),
    "distributed": Program("benchmarks.bench_distributed", "data/benchmarks/distributed.csv", "2 minutes"),
    "sorting": Program("benchmarks.bench_sorting", "data/benchmarks/sorting.csv", "1 minute"),
    "scaling": Program(
        "benchmarks.bench_scaling", "data/benchmarks/scaling_*.csv", "5 minutes", "[recomputation] [underflow]"
    ),
    "compiling": Program(
        "benchmarks.bench_compiling", "data/benchmarks/compiling_*.csv", "25 minutes", "[shapes] [ranks]"
    ),
    "pack_dataset": Program("benchmarks.bench_pack_dataset", "data/benchmarks/pack_dataset.csv", "2 minutes"),
    "leaks": Program("benchmarks.bench_leaks", "data/benchmarks/leaks.csv", "1 minute"),
    "audit": Program("benchmarks.bench_audit", "data/benchmarks/audit.csv", "5 minutes"),
    "balance": Program("benchmarks.bench_balance", "data/benchmarks/balance*.csv", "5 minutes"),
    "groups": Program("benchmarks.bench_groups", "data/benchmarks/groups.csv", "2 minutes"),
    "trees": Program("benchmarks.bench_trees", "data/benchmarks/trees.csv", "15 minutes"),
    "race": Program("benchmarks.bench_race", "data/benchmarks/race.csv", "2 minutes"),
    "pairs": Program("benchmarks.bench_pairs", "data/benchmarks/pairs*.csv", "15 minutes", "[million]"),
    "hard": Program(
        "benchmarks.bench_hard",
        "data/benchmarks/packing_hard.csv, data/benchmarks/packing_slack.csv",
        "1 to 2 hours",
        "[FOLDER]",
    ),
    "packing_draws": Program("benchmarks.bench_packing_draws", "data/benchmarks/packing_draws.csv", "1 to 2 hours"),
    "mutants": Program("benchmarks.mutants", "data/benchmarks/mutants.csv", "hours, by make mutants"),
    # training runs, each of several seeds
    "pretraining": Program("runs.pretraining", "data/runs/*.csv", "2 to 25 minutes", "EXPERIMENT [OPTIONS]"),
    "finetuning": Program(
        "runs.finetuning", "data/runs/lexname.csv, data/runs/span.csv", "10 minutes", "TASK [OPTIONS]"
    ),
    "curriculum": Program(
        "runs.curriculum", "data/runs/curriculum-*.csv", "10 to 100 minutes", "EXPERIMENT [OPTIONS]"
    ),
    "documents": Program("runs.documents", "data/runs/documents.csv", "20 minutes", "[OPTIONS]"),
    "baselines": Program("runs.baselines", "data/runs/baselines.csv", "1 minute"),
    # data sets, the table of model families, and the picture of the README
    "wordnet": Program("build_wordnet", "data/wordnet/*, data/lengths/wordnet*.csv", "1 minute", "FOLDER [OPTIONS]"),
    "docstrings": Program("build_docstrings", "data/lengths/docstrings.csv", "2 minutes"),
    "chats": Program("build_chats", "data/lengths/chats.csv", "1 minute", "TRACE"),
    "azure": Program("build_azure", "data/lengths/azure-*.csv", "1 minute", "CHATS CODE"),
    "forms": Program("form_survey", "packlib/model/forms.csv", "10 minutes", "[FAMILY ...]"),
    "cover": Program("cover", "README.svg", "1 minute"),
}


def main(given: list[str]) -> None:
    """List the programs, or run the one whose name is the first word.

    Raises:
        ValueError: if no program has this name, or it takes no words.
    """
    if not given or given[0] in ("-h", "--help"):
        print("python data/record.py NAME [WORDS], where --help explains OPTIONS\n")
        for name, program in PROGRAMS.items():
            print(f"  {f'{name} {program.words}':37} {program.takes:22} {program.writes}")
        return
    name, *words = given
    if name not in PROGRAMS:
        raise ValueError(f"NAME must be one of {', '.join(PROGRAMS)}, not {shown(name)}.")
    program = PROGRAMS[name]
    if words and not program.words:
        raise ValueError(f"{name} takes no words after its name, not {shown(words[0])}.")
    with needed_by(f"record.py {name}"):
        import_module(program.module).main(*words)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ValueError, OSError, MissingExtraError) as error:
        sys.exit(f"record.py: {error}")
