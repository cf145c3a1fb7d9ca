"""The command `packlib`: `packlib report my_lengths.csv` and others.

Each command is a function whose docstring is its help. It checks paths first, calls a function of the library, and
prints the result in words or, with --json, for scripts.
"""

import csv
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem

from packlib.arguments import listed, one_line, one_of, percent
from packlib.files import at_home, atomic_path, delivery, output_path, regular_file
from packlib.lengths import available
from packlib.lengths.overlong import CUT_RULES, OVERLONG
from packlib.lengths.sources import file_of, load_argument
from packlib.lengths.waste import HABITS
from packlib.packing import METHODS, Method, PackingPlan, plan
from packlib.tools.exits import Commands, call, first_interrupt_raised, in_shell, uninterrupted
from packlib.training.adjustment import HOWS

_LENGTHS = """
LENGTHS is the name of a data set (packlib list) or a file: text or CSV with one length a line, CSV with length,count
lines, JSON lines, .npy, or Parquet.

"""


def _exit_codes(*of_command: str) -> str:
    """Return the exit codes for the help of a command: those that all commands have, and its own, such as "4 …"."""
    codes = sorted([*of_command, "2 a wrong command, parameter or file"])
    common = "130 interrupted; 141 output pipe closed; 143 terminated"
    return f"Exit codes: {'; '.join(['0 done', *codes, common])}."


_CODES_OF_SOME = (
    "1 a check or an audit found something wrong",
    "3 one of their questions is inconclusive",
    "4 another rank has left",
)


@click.group("packlib", cls=Commands, epilog=_exit_codes(*_CODES_OF_SOME))
@click.version_option(package_name="packlib", message="%(prog)s %(version)s")
def program() -> None:
    """Pack sequences of different lengths, and check that packing changes nothing."""


Out: TypeAlias = Path | None
_CLEAR_LINE = "\033[K"  # lets a terminal clear its line from the cursor on
_CODE_OF_VERDICT = {True: 0, False: 1, None: 3}  # exit codes of a check: passed, failed, inconclusive
_json = click.option("--json", "script", is_flag=True, help="Print JSON, for scripts.")
_quiet = click.option(
    "--no-progress", "progress", flag_value=False, default=None, show_default="a bar", help="Show no progress."
)
_path = click.Path(path_type=Path)
_out = partial(click.option, "--out", type=_path)
_replace = click.option("--replace", is_flag=True, help="Replace files that are there.")


class _Choice(click.Choice):
    """One of these words; a wrong word gets the same error as in Python, which names the nearest words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word, or raise a ValueError that names the option."""
        option = param.opts[-1] if param else "The choice"
        return one_of(option, value, self.choices)


def _files(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Let the shell complete names of files, for parameters that may also be something else."""
    return [CompletionItem(typed, type="file")]


def _data_sets(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Let the shell complete names of data sets, and of files."""
    names = [CompletionItem(name) for name in available() if name.startswith(typed)]
    return [*_files(context, parameter, typed), *names]  # in this order: bash drops names that are before a file


_depth: dict[str, Any] = {"type": int, "show_default": "none", "help": "Put at most this many sequences into a pack."}
_method = click.option(
    "--method",
    default="auto",
    type=_Choice(("auto", "bfd", *METHODS)),
    metavar="NAME",
    help=f"auto, {', '.join(METHODS)}; or bfd, which is TRL's name for lpfhp.",
)
_LAYOUTS = ("packlib", "nemo")  # as in packlib.tools.rows, which loads pyarrow
_REDUCTIONS = ("token", "sequence", "group", "constant")  # as in packlib.tools.check, which loads torch
_MASK_WORDS = ("loss", "prompt", "next", "keep", "drop")  # as in packlib.tools.rows, which loads pyarrow
_masks = click.option(
    "--mask",
    "masks",
    type=(str, _Choice(_MASK_WORDS)),
    multiple=True,
    metavar="COLUMN WORD",
    help="What a column is: a mask of the loss (loss: 1 is trained on; prompt: 0 is; next: 1 if the next token is), "
    "or not (keep, drop). May be repeated.",
)


class _Budget(click.ParamType):
    """A column and a number: `patches:125`."""

    name = "budget"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return the column and the number."""
        column, _, number = str(value).rpartition(":")
        if not column or not number.isdecimal():
            self.fail(f"{value!r} is no COLUMN:NUMBER, such as patches:125.", param, ctx)
        return column, int(number)


_second_budget = partial(click.option, "--second-budget", type=_Budget(), metavar="COLUMN:NUMBER", show_default="none")


def _print(script: bool, result: Any, *lines: Any) -> None:
    """Print a result: as JSON if `script` is set, else these lines."""
    if script:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        print(*lines, sep="\n")


def _lengths(overlong: Sequence[str], default: str | None, shown: str | bool = True) -> list[click.Parameter]:
    """Return the argument LENGTHS and the options of a command that works on lengths.

    Args:
        overlong: the rules for longer sequences that the command knows.
        default: the rule without --overlong; None if the command chooses it.
        shown: the rule that help shows as the default, or True for `default` itself.
    """
    return [
        click.Argument(["lengths"], shell_complete=_data_sets),
        click.Option(["--max-length"], type=int, show_default="the longest", help="Slots of a row, in tokens."),
        click.Option(["--max-sequences-per-pack"], **_depth),
        click.Option(
            ["--overlong"],
            type=_Choice(overlong),
            default=default,
            show_default=shown,
            help="What to do with sequences longer than --max-length.",
        ),
        click.Option(["--column"], metavar="NAME", help="Which column of the file holds the lengths or tokens."),
    ]


@program.command("report", epilog=_LENGTHS + _exit_codes(), params=_lengths(CUT_RULES, None, "split"))
@click.option(
    "--source",
    metavar="LENGTHS",
    shell_complete=_data_sets,
    help="Lengths before the data was cut, to report how many tokens that lost.",
)
@click.option(
    "--today",
    default="random",
    type=_Choice((*HABITS, "packed")),
    metavar="HABIT",
    help=f"How batches are made now: {', '.join(HABITS)} or packed.",
)
@click.option("--batch-size", type=int, help="Sequences in a batch of one device now. Without it, 32 is assumed.")
@click.option("--accumulation", type=int, help="Batches of one device behind an update now; 1 beside --batch-size.")
@click.option("--epochs", type=int, show_default="1", help="Passes over the data.")
@click.option(
    "--recipe",
    metavar="RECIPE.json",
    shell_complete=_files,
    help="Your training's recipe, in place of --batch-size, --accumulation and --epochs.",
)
@click.option("--ranks", type=int, show_default="the recipe's, or 1", help="Devices that share an update.")
@click.option(
    "--model",
    metavar="CONFIG.json|FOLDER|SIZE",
    shell_complete=_files,
    help="Weigh rows by your model: a configuration, or 7B.",
)
@click.option("--memory", metavar="SIZE", help="Memory of one device, such as 80GB; it needs --model.")
@click.option("--keep-max-length", is_flag=True, help="Keep --max-length, even if other rows save work.")
@click.option(
    "--attention",
    type=_Choice(("bounds", "dense")),  # as in packlib.tools.advice, which loads jinja2
    show_default="bounds, if they save over 5 % of the work",
    help="What your model gets: the bounds of sequences, for a flash kernel, or a dense mask.",
)
@click.option("--tokenizer", type=_path, metavar="FOLDER", help="Make tokens of chats or texts with this tokenizer.")
@_masks
@_second_budget(help="Name the scarcer of two budgets: tokens, and this column, such as patches:125.")
@click.option("--thorough", is_flag=True, help="Search for the fewest packs to the end, which can take minutes.")
@_out(metavar="DIR", default="out/report", help="Folder of the report.")
@_replace
@_json
@_quiet
def _report(
    lengths: str, recipe: str | None, out: Path, replace: bool, script: bool, progress: bool | None, **values: Any
) -> None:
    """Recommend row length, method and batch, and estimate the gain.

    LENGTHS is a file with one length a line, or the name of a data set; more below. It may also be data with tokens, as
    packlib pack takes it: Parquet, JSON lines, a folder or a pattern in quotes of such files, or a folder that
    save_to_disk of datasets wrote. The column of tokens is input_ids, or the only one, or --column; with
    --tokenizer, chats or texts are read as packlib pack reads them.

    \b
    Examples:
      packlib report my_lengths.csv --max-length 512 --out report
      packlib report tokens.parquet --max-length 2048 --model 7B --memory 80GB --out report
      packlib report 'shards/*.jsonl' --max-length 4096 --batch-size 8 --accumulation 4 --out report
      packlib report chats.jsonl --tokenizer my_model --max-length 4096 --out report
    """
    from packlib.tools.advice.advising import advise
    from packlib.tools.rows.tokenizing import tokenizer_of
    from packlib.training.recipe import Recipe

    loaded_recipe = None if recipe is None else Recipe.load(recipe)
    source = values["source"]
    reads = [file_of(lengths), source and file_of(source), recipe, values["model"]]
    out = output_path(out, folder=True)
    names = ("report.html", "advice.json", "plan.json")
    for name in names:
        output_path(out / name, reads=reads, new=not replace)
    shows_progress = progress is None and sys.stderr.isatty()
    show = partial(print, end=f" …{_CLEAR_LINE}\r", file=sys.stderr, flush=True) if shows_progress else None
    values["masks"] = dict(values["masks"])
    values["tokenizer"] = values["tokenizer"] and tokenizer_of(values["tokenizer"])
    _say_left_out([Path(lengths)])
    advice = advise(lengths, recipe=loaded_recipe, progress=show, **values)
    from packlib.tools.advice.page import page

    command_line = click.get_current_context().obj
    with delivery(out, reads, names, replace) as (work, files):
        advice.save(work / "advice.json")
        advice.plan.save(work / "plan.json")
        (work / "report.html").write_text(page(advice, command_line), encoding="utf-8")
    if show:
        print(f"\r{_CLEAR_LINE}", end="", file=sys.stderr)
    _print(script, advice.as_dict(), advice, *files)


@program.command("plan", epilog=_LENGTHS + _exit_codes(), params=_lengths(OVERLONG, "error"))
@_method
@click.option("--time-limit", type=float, show_default="none", help="Search, and stop after so many seconds.")
@_out(metavar="PLAN.json", help="Write the plan there.")
@_replace
@_json
@_quiet
def _plan(
    method: Method,
    max_sequences_per_pack: int | None,
    out: Out,
    replace: bool,
    script: bool,
    progress: bool | None,
    **values: Any,
) -> None:
    """Pack lengths, and prove how few packs there can be.

    By default lpfhp packs them; if that is not proven to be within 0.1 % of the fewest packs, so does exact_filling; if
    neither is, optimal searches for about two seconds. With a time limit optimal searches until then.

    During the search, Ctrl-C keeps the best plan so far, and a second Ctrl-C
    ends the command. Every other command ends at the first.

    \b
    Examples:
      packlib plan my_lengths.csv --max-length 512 --max-sequences-per-pack 4 --out plan.json
      packlib plan wikipedia --method lpfhp --json
    """
    if out:
        output_path(out, reads=[file_of(values["lengths"])], new=not replace)
    options: dict[str, Any] = {"time_limit": values.pop("time_limit")}
    shows_progress = progress is None and sys.stderr.isatty()
    if method in ("auto", "optimal"):
        show = partial(print, end=f"{_CLEAR_LINE}\r", file=sys.stderr, flush=True)
        options["progress"] = show if shows_progress else False
    histogram = load_argument("lengths", values.pop("lengths"), **values)
    started = time.perf_counter()
    with first_interrupt_raised(), warnings.catch_warnings(record=True) as plan_warnings:
        best = plan(histogram, method=method, max_sequences_per_pack=max_sequences_per_pack, **options)
    seconds = round(time.perf_counter() - started, 3)
    if shows_progress:
        print(f"\r{_CLEAR_LINE}", end="", file=sys.stderr)
    for warning in plan_warnings:
        print(f"packlib: {one_line(str(warning.message), 400)}", file=sys.stderr)
    if out:
        with atomic_path(out, new=not replace) as path_of_part:
            path_of_part.write_text(best.to_json() + "\n", encoding="utf-8")
    names = ("method", "max_sequences_per_pack", "num_packs", "lower_bound", "gap", "packing_factor")
    result = {name: getattr(best, name) for name in (*names, "efficiency", "deepest")}
    result |= {"proof": str(best.proof), "truncated": histogram.truncated, "dropped": histogram.dropped}
    result |= {"seconds": seconds}
    proof = f"Proof of the lower bound, {best.lower_bound:,} packs: {best.proof}."
    _print(script, result, histogram, best, proof, *filter(None, [out]))


@program.command("pack", epilog=_exit_codes("4 another rank has left"))
@click.argument("data", type=_path, metavar="DATA...", nargs=-1, required=True)
@click.option("--max-length", type=int, show_default="the plan's", help="Slots of a pack, in tokens.")
@click.option("--plan", type=_path, metavar="PLAN.json", help="Pack by this plan, such as that of a report.")
@click.option("--max-sequences-per-pack", **_depth)
@click.option(
    "--overlong",
    type=_Choice(OVERLONG),
    default="error",
    help="What to do with sequences longer than --max-length.",
)
@_method
@click.option("--split", metavar="NAME", help="Which split of a data set of the hub, or of what save_to_disk wrote.")
@click.option(
    "--no-labels",
    "labels",
    flag_value=False,
    default=True,
    show_default="made",
    help="Make no labels, as for masked models.",
)
@click.option("--tokenizer", type=_path, metavar="FOLDER", help="Make tokens of chats or texts with this tokenizer.")
@click.option(
    "--thinking",
    type=_Choice(("last",)),
    show_default="each chat is one sequence",
    help="Pack each turn of a chat as it was generated, with its last reasoning; shared turns are there once.",
)
@_masks
@click.option("--drop", multiple=True, metavar="COLUMN,...", help="Leave these columns out. May be repeated.")
@click.option("--drop-unlabeled", is_flag=True, help="Leave out what has no label, also once it is cut.")
@_second_budget(help="What a pack may hold of this column too, such as patches:125.")
@click.option(
    "--window",
    type=int,
    show_default="any order",
    help="Keep roughly the order of the data, with this many open packs; 1 keeps it exactly.",
)
@click.option("--seed", type=int, default=0, help="Shuffle the packs by this seed.")
@click.option(
    "--layout",
    type=_Choice(_LAYOUTS),
    default="packlib",
    help="Write packlib's columns, or NeMo's, which have no labels.",
)
@click.option(
    "--packs-per-file", type=int, show_default="one file", help="Write a folder of files with this many packs each."
)
@_out(metavar="PACKED", required=True, help="Write the packs there, to a Parquet file or a folder.")
@_json
@_quiet
def _pack(
    data: tuple[Path, ...],
    out: Path,
    plan: Path | None,
    tokenizer: Path | None,
    max_length: Any,
    script: bool,
    **values: Any,
) -> None:
    """Pack sequences for any trainer, and say what became of them.

    DATA is Parquet or Arrow files, JSON lines (also .gz and .zst), folders of them, or one folder that save_to_disk of
    datasets wrote; or, with --split, owner/name, a data set of the hub. Tokens are input_ids; or --tokenizer makes them
    of messages, conversations (ShareGPT), prompt with completion, or text. Nothing that exists is replaced. With
    --packs-per-file, the same command goes on with a folder where a run was killed, and writes nothing if all is there.
    torchrun shares the work among processes, also of several machines that see the same files.

    \b
    Examples:
      packlib pack tokens.parquet --max-length 2048 --out packed.parquet
      packlib pack tokens.parquet --max-length 2048 --overlong split --method optimal --out packed.parquet --json
      packlib pack tokens.parquet --plan report/plan.json --overlong truncate --out packed.parquet
      packlib pack chats.jsonl --tokenizer my_model --max-length 4096 --packs-per-file 10000 --out packed
      packlib pack images.parquet --max-length 16384 --second-budget patches:125 --out packed.parquet
      packlib pack owner/name --split train --tokenizer my_model --max-length 4096 --out packed.parquet
      packlib pack chats.jsonl --tokenizer my_model --thinking last --max-length 32768 --out trees.parquet
      torchrun --nproc-per-node 8 -m packlib pack 'shards/*.parquet' --max-length 512 --packs-per-file 9999 --out packed
    """
    from packlib.tools.rows.books import sentences
    from packlib.tools.rows.parquet_packs import pack_parquet
    from packlib.tools.rows.tokenizing import tokenizer_of

    loaded_plan = plan and PackingPlan.load(plan)
    if loaded_plan and max_length is None:
        max_length = loaded_plan.histogram.max_length
    if max_length is None:
        for path in data if values["split"] is None else ():  # first, an error about a slip in a name
            if not (path.is_dir() or has_magic(str(path))):
                regular_file(at_home(path), "a file of sequences")
        raise ValueError("--max-length must be given, the tokens in a pack; or --plan, a plan that has it.")
    reads = [plan, *(path for path in data if not path.is_dir())]
    out = output_path(out, folder=values["packs_per_file"] is not None, reads=reads)
    values["tokenizer"] = tokenizer and tokenizer_of(tokenizer)
    values["masks"] = dict(values["masks"]) | dict.fromkeys(_names(values.pop("drop")), "drop")
    ranks, rank = _ranks()
    if not rank:
        _say_left_out(data)
    if values.pop("thinking") is not None:
        return _pack_chat_trees(data, out, max_length, script, ranks, plan=loaded_plan, **values)
    with _group(ranks, hours=24):
        if ranks > 1:
            from packlib.collectives import Collectives

            values["ranks"] = Collectives()
        result = pack_parquet(data[0] if len(data) == 1 else data, out, max_length, plan=loaded_plan, **values)
    if rank:  # rank 0 prints for all
        return
    packs = "{num_packs:,} packs of {max_length:,} ({method}); the proven minimum is {lower_bound:,} (proof: {proof})."
    packs += " {sequences:,} sequences, {tokens:,} tokens; {overlong_sequences:,} were too long."
    books = sentences(result["books"], result["num_packs"], result["overlong_sequences"])
    second = result.get("second_budget")
    budgets = [_of_two_budgets(second)] if second else []
    columns = [f"{name}: {became}." for name, became in result["columns"].items()]
    where = out if result["files_written"] else f"Nothing was written: {out} holds these packs already."
    with uninterrupted():
        _print(script, result, packs.format(**result), *books, *budgets, *columns, where)
        sys.stdout.flush()


def _of_two_budgets(second: dict[str, Any]) -> str:
    """Return a sentence about how much of both budgets is used, and which is scarcer."""
    name = one_line(second["column"])
    by_tokens = second["tokens_at_least"]
    by_second = second["at_least"]
    scarcer = f"{name} are scarcer" if by_second > by_tokens else "tokens are scarcer"
    if by_second == by_tokens:
        scarcer = "both are equally scarce"
    return (
        f"{percent(second['tokens_used'])} of the tokens and {percent(second['used'])} of {name}, at most "
        f"{second['budget']:,} a pack, are used; {scarcer}: {name} alone need {by_second:,} packs at least, tokens "
        f"alone {by_tokens:,}."
    )


def _pack_chat_trees(
    data: tuple[Path, ...], out: Path, max_length: int, script: bool, ranks: int, **values: Any
) -> None:
    """Run `packlib pack --thinking last`.

    Args:
        values: those of the other options of `packlib pack`; most must be left out.
    """
    from packlib.tools.rows.chat_trees import pack_chat_trees

    allowed = ("tokenizer", "split", "overlong", "packs_per_file", "seed", "progress")
    defaults = {"labels": True, "masks": {}, "layout": "packlib", "drop_unlabeled": False, "method": "auto"}
    for name, value in values.items():
        if name not in allowed and value != defaults.get(name):
            option = {"labels": "no-labels", "masks": "masks or --drop"}.get(name, name.replace("_", "-"))
            raise ValueError(f"--{option} must be left out with --thinking.")
    if values["tokenizer"] is None:
        raise ValueError("--tokenizer must be given with --thinking: its chat template writes the turns.")
    if values["overlong"] not in ("error", "drop"):
        raise ValueError(f"--overlong must be error or drop with --thinking, not {values['overlong']}.")
    if ranks > 1:
        raise ValueError("--thinking runs in one process, not by torchrun.")
    options = {name: values[name] for name in allowed}
    result = pack_chat_trees(data[0] if len(data) == 1 else data, out, max_length, **options)
    lines = [
        "{turns:,} turns of {chats:,} chats in {rows:,} rows of {max_length:,}; the proven minimum is {lower_bound:,}.",
        "{tokens:,} tokens, {unshared_tokens:,} with nothing shared; a mask of pairs takes {mask_bytes:,} bytes.",
        "{flat_chats:,} chats are no trees and kept flat; {dropped_turns:,} turns were too long, "
        "{unlabeled_turns:,} have weight 0.",
    ]
    where = out if result["files_written"] else f"Nothing was written: {out} holds these rows already."
    with uninterrupted():
        _print(script, result, *(line.format(**result) for line in lines), where)
        sys.stdout.flush()


def _say_left_out(data: Sequence[Path]) -> None:
    """Print to standard error which files of folders may hold data and are not read, if there are any."""
    from packlib.tools.rows.row_sources import left_out_files

    if files := left_out_files(data):
        names = listed([file.name for file in files[:3]]) + ", …" * (len(files) > 3)
        print(
            f"packlib: {len(files)} other file{'s' * (len(files) > 1)} in the folder will not be read: {names}.",
            file=sys.stderr,
        )


@program.command("audit", epilog=_exit_codes("1 a problem was found", "3 something is inconclusive"))
@click.argument("data", metavar="PACKS...", type=_path, nargs=-1, required=True)
@click.option(
    "--source",
    multiple=True,
    metavar="TOKENS|LENGTHS",
    shell_complete=_data_sets,
    help="What was packed: sequences with tokens and labels, or their lengths. May be repeated.",
)
@click.option("--column", metavar="NAME", help="Column of the tokens or lengths in the source.")
@click.option(
    "--columns",
    metavar="NAME=COLUMN,...",
    help="What columns of other names hold, such as input_ids=tokens,segment_ids=doc_ids.",
)
@_masks
@click.option(
    "--overlong",
    type=_Choice(OVERLONG),
    default="error",
    help="What was meant to become of sequences longer than --max-length.",
)
@click.option("--max-length", type=int, show_default="the widest row's", help="Slots of a pack, in tokens.")
@click.option("--max-sequences-per-pack", **_depth)
@click.option("--batch-size", type=int, help="Packs in a batch of one rank.")
@click.option("--gradient-accumulation-steps", type=int, default=1, help="Batches in an update of one rank.")
@click.option("--ranks", type=int, default=1, help="Ranks that share the packs.")
@click.option("--steps", type=int, help="Updates that you plan to make.")
@click.option(
    "--model",
    metavar="CONFIG.json|SIZE",
    shell_complete=_files,
    show_default="Llama 3 8B's shape",
    help="Weigh packs by the cost of this model.",
)
@click.option("--tolerance", type=float, default=0.05, help="Accept this share of packs more than lpfhp needs.")
@_second_budget(help="What a pack may hold of this column too, such as patches:125.")
@_json
@_quiet
def _audit(
    data: tuple[Path, ...],
    source: tuple[str, ...],
    columns: str | None,
    model: str | None,
    script: bool,
    **values: Any,
) -> int:
    """Compare packed data with its source, and say what it costs.

    Each sequence and its labels are looked for in packs that any library made.

    PACKS is Parquet, JSON lines (also .jsonl.gz) or Arrow: files, a folder of them, or a pattern in quotes. They have
    seq_lengths, cu_seqlens, seq_start_id, segment_ids, document_ids, position_ids that start again, or the columns of
    torchtune, Grain, MaxText, seqio or LLaMA-Factory; other names are given by --columns. Or NeMo's .npy, or Megatron's
    .idx. A source with tokens is compared by the content of each sequence, and by which of its tokens are trained on.

    \b
    Examples:
      packlib audit packed.parquet --max-length 2048
      packlib audit packed.parquet --source my_lengths.csv --batch-size 4 --ranks 8 --steps 3000 --json
      packlib audit packed_folder --source tokens.parquet --overlong split
      packlib audit packed.jsonl --columns input_ids=tokens,segment_ids=doc_ids --source tokens.jsonl.gz
    """
    from packlib.tools.advice.memory import model_shape
    from packlib.tools.auditing.auditing import audit

    values["columns"] = columns and _pairs(columns)
    values["masks"] = dict(values["masks"])
    packs = data[0] if len(data) == 1 else data
    sources = source[0] if len(source) == 1 else source or None
    report = audit(packs, sources, work=None if model is None else model_shape(model).work, **values)
    print(report.to_json() if script else report)
    return 1 if report.problems else 3 if report.unknown else 0


def _names(options: Sequence[str]) -> list[str]:
    """Return all names in options that are each a line of CSV, where a name with a comma is in quotes."""
    return [name.strip() for names in csv.reader(options, skipinitialspace=True) for name in names if name.strip()]


def _pairs(text: str) -> dict[str, str]:
    """Return the mapping that `NAME=COLUMN,NAME=COLUMN` stands for; raise a ValueError for another text."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if wrong := [name + sign + column for name, sign, column in pairs if not (name and column)]:
        raise ValueError(f"--columns must be NAME=COLUMN, and several with commas between them, not {wrong[0]!r}.")
    return {name.strip(): column.strip() for name, _, column in pairs}


_OF_LOADERS: dict[
    str, dict[str, Any]
] = {  # options of `check` for a check of a loader, with click's arguments for each
    "--source": {
        "type": str,
        "metavar": "DATA",
        "shell_complete": _files,
        "help": "With --loader: the sequences that an epoch should have.",
    },
    "--id": {"metavar": "COLUMN", "help": "With --loader: column that names each sequence, if its tokens change."},
    "--ranks": {"type": int, "help": "With --loader: data-parallel processes.  [default: 2]"},
    "--other-ranks": {
        "type": int,
        "multiple": True,
        "help": "With --loader: another number of processes to go on with. May be repeated.",
    },
    "--steps": {"type": int, "help": "With --loader: batches of a pass at most, for endless streams."},
    "--no-shuffle": {"is_flag": True, "help": "With --loader: each epoch is meant to have the same order."},
    "--repeats": {"is_flag": True, "help": "With --loader: the last step may be filled up by repeating."},
    "--time-limit": {"type": float, "help": "With --loader: seconds that a batch may take.  [default: 60]"},
}


def _of_loaders(command: Any) -> Any:
    """Add the options of a check of a loader to a command; click lists options in the reverse order of adding."""
    for name, click_arguments in reversed(_OF_LOADERS.items()):
        command = click.option(name, **click_arguments)(command)
    return command


@program.command(
    "check",
    epilog=_exit_codes(
        "1 a question failed",
        "3 none failed, and a question is inconclusive",
        "4 another rank has left",
    ),
)
@click.argument("target", metavar="MODULE:FUNCTION|FOLDER", required=False, shell_complete=_files)
@click.option(
    "--loader",
    metavar="MODULE:FUNCTION",
    shell_complete=_files,
    help="Check a loader instead, that this function makes.",
)
@_of_loaders
@click.option(
    "--collate",
    metavar="MODULE:FUNCTION",
    shell_complete=_files,
    show_default="the function's, or padding-free",
    help="Check with this collator.",
)
@click.option("--reduction", type=_Choice(_REDUCTIONS), show_default="any", help="Expect the loss to be this mean.")
@click.option("--group", metavar="COLUMN", help="Keep sequences with one value in this column together, as pairs.")
@click.option(
    "--max-tokens",
    type=int,
    show_default="300",
    help="Longest sequence to use, in tokens; longer ones are cut or left out.",
)
@click.option(
    "--keep",
    type=int,
    multiple=True,
    metavar="ID",
    show_default="those of the model's config",
    help="A token that is never changed, such as the placeholder of an image. May be repeated.",
)
@click.option("--log", type=_path, metavar="FILE.jsonl", help="Append a line with what was found.")
@_json
@_quiet
def _check(
    target: str | None,
    loader: str | None,
    collate: str | None,
    log: Out,
    script: bool,
    progress: bool | None,
    **values: Any,
) -> int:
    """Test that packing leaves model, trainer or loader exact.

    A model must compute for each sequence of a pack what it computes for it alone.

    The function returns model, collate and sequences, as check_packing takes them. A folder holds a model of
    transformers as configuration and safetensors.

    \b
    Examples:
      packlib check my_training:make
      packlib check my_training.py:make --reduction token --json --log checks.jsonl
      packlib check path/to/model --collate my_training:collate
      packlib check my_images.py:make --keep 60 --keep 61
      torchrun --nproc-per-node 2 -m packlib check my_training.py:make
      packlib check --loader my_data.py:make --source tokens.parquet --ranks 8
    """
    about_loader = {name: values.pop(name) for name in (option[2:].replace("-", "_") for option in _OF_LOADERS)}
    about_loader = {name: value for name, value in about_loader.items() if not _is_left_out(value)}
    if loader is not None:
        about_model = {"a model's MODULE:FUNCTION": target, "--collate": collate}
        about_model |= {f"--{name}": value for name, value in values.items()}
        for name, value in about_model.items():
            if value not in (None, ()):
                raise ValueError(f"--loader goes without {name.replace('_', '-')}, which is about a model.")
        if _ranks()[0] > 1:
            raise ValueError(
                "--loader plays all ranks in one process: call packlib check without torchrun. A loader that asks its "
                "process for the rank is made by make(epoch, state=None)."
            )
        return _check_loader(loader, log, script, **about_loader)
    if about_loader:
        raise ValueError(f"--{next(iter(about_loader)).replace('_', '-')} takes a loader: --loader MODULE:FUNCTION.")
    if target is None:
        raise ValueError(
            "What to check must be MODULE:FUNCTION or a folder with a model, or --loader MODULE:FUNCTION."
        )
    from packlib.tools.check.check_targets import check_target

    ranks, rank = _ranks()
    if ranks > 2:
        raise ValueError(f"torchrun must start 2 processes for a check, not {ranks}.")
    if log:
        log = output_path(log)
    options = {name: value for name, value in values.items() if value not in (None, ())}
    # The code under check prints to standard error, since standard output is for the answer.
    with _group(ranks), redirect_stdout(sys.stderr):
        check = check_target(target, collate, False if rank else progress, **options)
    code = _CODE_OF_VERDICT[check.exact]
    if rank:  # rank 0 prints for all
        return code
    print(check.to_json() if script else check)
    _append(log, target, check.to_json())
    return code


def _is_left_out(value: Any) -> bool:
    """Return True if an option that is left out has this value; 0 is not such a value, though it equals False."""
    return value is None or value is False or value == ()


def _check_loader(target: str, log: Out, script: bool, **options: Any) -> int:
    """Check a loader, print the findings, and return the exit code.

    Args:
        options: those of the command that are about a loader, without those that were left out.
    """
    from packlib.tools.watched import watched

    if log:
        log = output_path(log)
    if "id" in options:
        options["id_column"] = options.pop("id")
    if "no_shuffle" in options:
        options["shuffled"] = not options.pop("no_shuffle")
    function = "packlib.tools.loaders.loader_targets:check_target"
    words, as_json, passed = watched("packlib check", function, target, **options)
    print(as_json if script else words)
    _append(log, target, as_json)
    return _CODE_OF_VERDICT[passed]


def _append(log: Out, target: str, findings: str) -> None:
    """Append a line to a log, if there is one: the time, the target of a check, and its findings, as JSON."""
    if log:
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "target": target, **json.loads(findings)}
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _ranks() -> tuple[int, int]:
    """Return the number of processes that torchrun has started, and the rank of this one; 1 and 0 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))


def _group(ranks: int, hours: float = 0.5) -> AbstractContextManager:
    """Open a process group for a block of code, if torchrun has started several processes."""
    if ranks == 1:
        return nullcontext()
    from packlib.tools.torchrun import group  # it loads torch

    return group(hours)


@program.command("adjust", epilog=_exit_codes())
@click.argument("recipe", metavar="RECIPE.json", type=_path)
@click.option(
    "--factor", "packing_factor", type=float, required=True, help="Sequences in an average pack, such as 1.99."
)
@click.option(
    "--how",
    default="accumulation",
    type=_Choice(HOWS),
    metavar="NAME",
    help=f"What to change: {', '.join(HOWS[:-1])} or {HOWS[-1]}.",
)
@_json
def _adjust(recipe: Path, packing_factor: float, how: Any, script: bool) -> None:
    """Adapt a training recipe to packed rows.

    RECIPE.json is that of the padded run.

    \b
    Examples:
      packlib adjust recipe.json --factor 1.99
      packlib adjust recipe.json --factor 1.99 --how betas --json
    """
    from dataclasses import asdict

    from packlib.training.adjustment import adjust
    from packlib.training.recipe import Recipe

    before = Recipe.load(recipe)
    after, reasons, error = adjust(before, packing_factor, how)
    result = {"before": asdict(before), "after": asdict(after), "reasons": reasons, "error": error}
    reasons_in_shell = [in_shell(reason, click.get_current_context().command) for reason in reasons]
    why = "\n  ".join(["Why:", *reasons_in_shell])
    _print(script, result, f"Before packing. {before}", f"After packing. {after}", why)


@program.command("list", epilog=_exit_codes())
@_json
def _list(script: bool) -> None:
    """Name the data sets whose lengths are at hand.

    \b
    Examples:
      packlib list
      packlib list --json
    """
    _print(script, {"data sets": available()}, f"data sets: {', '.join(available())}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return an exit code as `exit_code` says, or 141 if nobody reads what is printed."""
    return call(program, arguments)


if __name__ == "__main__":
    sys.exit(main())
