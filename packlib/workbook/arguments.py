"""What the command line takes: commands, options, help."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packlib.packing import METHODS

_DESCRIPTION = "Train on sequences of different lengths without paying for padding."
_CODES = """\
LENGTHS is the name of a data set (packlib list) or a file: text or CSV with one length a line, CSV with
length,count lines, .npy, or Parquet.
Exit codes: 0 done; 1 a notebook failed; 2 a wrong command, parameter or file; 130 interrupted; 143 terminated."""
_EXAMPLES = {
    "list": ["packlib list", "packlib list --json"],
    "run": [
        "packlib run 1",
        "packlib run 02_greedy_packing -p dataset my_lengths.csv -p max_sequences_per_pack none --out greedy",
    ],
    "report": [
        "packlib report my_lengths.csv --max-length 512 --out report",
        "packlib report tokens.parquet --column input_ids --max-length 2048 --recipe recipe.json --out report",
    ],
    "sweep": [
        "packlib sweep your_dataset -p max_length 128,256,512 -p max_sequences_per_pack 1,3,none --out sweep",
        "packlib sweep 12 -p dataset docs.csv,chats.csv -p batch_size 32 --jobs 4 --out sweep",
    ],
    "plan": [
        "packlib plan my_lengths.csv --max-length 512 --max-sequences-per-pack 4 --out plan.json",
        "packlib plan wikipedia --method lpfhp --json",
    ],
    "adjust": [
        "packlib adjust recipe.json --factor 1.99",
        "packlib adjust recipe.json --factor 1.99 --how betas --json",
    ],
    "forget": ["packlib forget"],
}


def _add_lengths(parser: argparse.ArgumentParser, overlong: str | None, choices: Sequence[str]) -> None:
    parser.add_argument("lengths", metavar="LENGTHS", help="a data set's name or a file of lengths")
    parser.add_argument(
        "--max-length", type=int, metavar="L", help="tokens in a row (default: the longest length)"
    )
    parser.add_argument(
        "--max-sequences-per-pack",
        type=_limit,
        metavar="D",
        help="sequences in a pack at most (default: none, no limit)",
    )
    parser.add_argument(
        "--overlong", choices=choices, default=overlong, help="what to do with sequences over --max-length"
    )
    parser.add_argument("--column", metavar="NAME", help="of a Parquet file, or of a CSV with a header")


def _limit(text: str) -> int | None:
    try:
        return None if text.lower() == "none" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number or none, not {text!r}.") from None


def parser() -> argparse.ArgumentParser:
    raw: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    whole = argparse.ArgumentParser(prog="packlib", description=_DESCRIPTION, epilog=_CODES, **raw)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, about: str) -> argparse.ArgumentParser:
        lines = "\n".join(f"  {line}" for line in _EXAMPLES[name])
        about_it: dict[str, Any] = {"help": about, "description": f"{about[0].upper()}{about[1:]}."}
        return commands.add_parser(name, epilog=f"examples:\n{lines}\n\n{_CODES}", **about_it, **raw)

    pairs: dict[str, Any] = {"nargs": 2, "action": "append", "default": [], "dest": "pairs"}
    folder: dict[str, Any] = {"type": Path, "metavar": "DIR"}
    script: dict[str, Any] = {"action": "store_true", "help": "print JSON, for scripts"}

    one = command("list", "the notebooks, their parameters and the data sets")
    one.add_argument("--json", **script)

    one = command("run", "run a notebook with your parameters")
    one.add_argument("notebook", help="its name or number, such as 01_padding_waste or 1")
    one.add_argument(
        "-p", "--parameter", metavar=("NAME", "VALUE"), help="set a parameter; may be repeated", **pairs
    )
    one.add_argument("--out", help="folder of the results (default: out/NOTEBOOK)", **folder)
    one.add_argument("--no-progress", action="store_true", help="no progress bar")
    one.add_argument(
        "--until-eof", action="store_true", help=argparse.SUPPRESS
    )  # what a sweep starts ends with it

    one = command("report", "what padding costs you, which packing to take, and what to change")
    _add_lengths(one, "truncate", ("truncate", "drop"))
    one.add_argument(
        "--batch-size", type=int, default=32, metavar="B", help="sequences in a batch now (default: 32)"
    )
    one.add_argument("--recipe", metavar="RECIPE.json", help="your training's recipe, to be adjusted")
    one.add_argument("--out", help="folder of the report (default: out/report)", **folder)
    one.add_argument("--thorough", action="store_true", help="a minute for each method, not five seconds")
    one.add_argument("--json", **script)
    one.add_argument("--no-progress", action="store_true", help="no progress bar")

    one = command("sweep", "run a notebook with every combination of parameters, and compare")
    one.add_argument("notebook", help="its name or number")
    one.add_argument(
        "-p", "--parameter", metavar=("NAME", "VALUES"), help="values with commas between", **pairs
    )
    one.add_argument(
        "--out", help="folder of the results; the same again goes on (default: out/sweep)", **folder
    )
    one.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="runs at a time (default: the cores)"
    )
    one.add_argument(
        "--compare", action="append", default=[], metavar="RESULT", help="draw this result; may be repeated"
    )
    one.add_argument("--json", **script)
    one.add_argument("--no-progress", action="store_true", help="no progress bar")

    one = command("plan", "pack lengths by one method")
    _add_lengths(one, None, ("error", "truncate", "drop"))
    one.add_argument(
        "--method", default="optimal", metavar="NAME", help=f"{', '.join(METHODS)} (default: optimal)"
    )
    one.add_argument("--time-limit", type=float, metavar="S", help="seconds for optimal (default: none)")
    one.add_argument("--out", type=Path, metavar="PLAN.json", help="write the plan there")
    one.add_argument("--json", **script)

    one = command("adjust", "what to change in a training recipe after packing")
    one.add_argument("recipe", type=Path, metavar="RECIPE.json", help="the recipe of the padded run")
    one.add_argument("--factor", type=float, required=True, help="the packing factor, such as 1.99")
    one.add_argument(
        "--how", default="accumulation", help="accumulation (default), betas, linear_rate or sqrt_rate"
    )
    one.add_argument("--json", **script)

    command("forget", "delete your guesses and results, which are kept on this machine only")
    return whole
