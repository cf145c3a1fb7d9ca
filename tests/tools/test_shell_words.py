"""Errors of commands name options, as a user of the shell types them, and no parameters of Python."""

import json
import re
from typing import get_args

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packbook.cli import main as packbook
from packlib.packing import METHODS
from packlib.tools.advice.row_lengths import Form
from packlib.tools.advice.today import TODAY
from packlib.tools.check.weighing import REDUCTIONS
from packlib.tools.cli import main, program
from packlib.tools.exits import in_shell
from packlib.tools.rows.loss_masks import MASK_WORDS
from packlib.tools.rows.packed_rows import LAYOUTS

PAD = "--max-length 64 --out x.parquet"
WRONG = {
    "adjust r.json --factor 0.5": "--factor must be at least 1 and at most",
    "adjust r.json --factor 600": "--factor 600 is over max_length 512: a sequence has a token.",
    "adjust r.json --factor 2 --how nope": "--how must be 'accumulation',",
    "plan l.txt --max-length 0": "--max-length must be from 1 to",
    "plan l.txt --max-length 8": "pass a larger maximum, or --overlong truncate, drop or split.",
    "plan l.txt --max-sequences-per-pack 0": "--max-sequences-per-pack must be at least 1, not 0.",
    "plan l.txt --time-limit -1": "--time-limit must be at least 0, not -1.0.",
    "pack t.parquet --max-length 8 --out x.parquet": "pass a larger --max-length, or --overlong truncate, drop or",
    f"pack t.parquet --window 0 {PAD}": "--window must be at least 1, not 0.",
    f"pack t.parquet --window 2 --method optimal {PAD}": "--method and --plan must be left out with a window",
    f"pack t.parquet --packs-per-file 0 {PAD}": "--packs-per-file must be at least 1, not 0.",
    f"pack t.parquet --split train {PAD}": "--split must be left out for t.parquet, which has no splits.",
    f"pack t.parquet --mask nope loss {PAD}": "(--mask nope loss) names no column of the data set; it has input_ids.",
    f"pack t.parquet --drop nope {PAD}": "(--drop nope) names no column of the data set; it has input_ids.",
    f"pack t.parquet --drop input_ids,nope {PAD}": "input_ids cannot be dropped, since it says what the tokens are.",
    f"pack t.parquet --method bdf {PAD}": "--method must be 'auto', 'bfd', 'unpacked',",
    "audit t.parquet --mask nope loss": "(--mask nope loss) names no column of t.parquet; it has input_ids.",
    f"pack t.parquet --plan r.json {PAD}": "r.json is no packing plan: a name in its JSON must be 'format',",
    "audit t.parquet --ranks 2": "--batch-size must be given with --steps, --gradient-accumulation-steps or --ranks,",
    "audit t.parquet --tolerance nan": "--tolerance must be at least 0, not nan.",
    "audit t.parquet --overlong split": "--overlong must be left out without a source, not 'split'.",
    "report l.txt --batch-size 0 --out o": "--batch-size must be at least 1, not 0.",
    "report l.txt --today nope --out o": "--today must be 'maximum', 'random', 'sorted',",
    "report l.txt --overlong splitt --out o": "--overlong must be 'truncate', 'drop' or 'split', not 'splitt': did you",
    "pack nosuch.parquet --out x.parquet": "There is no file nosuch.parquet: did you mean t.parquet?",
    "pack t.parquet --out x.parquet": "--max-length must be given, the tokens in a pack; or --plan,",
}


@pytest.mark.parametrize("command", WRONG)
def test_an_error_names_the_option(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "l.txt").write_text("5\n9\n400\n")
    recipe = {"micro_batch": 8, "learning_rate": 1e-4, "total_sequences": 1000, "max_length": 512}
    (tmp_path / "r.json").write_text(json.dumps(recipe))
    pq.write_table(pa.table({"input_ids": [list(range(25))]}), tmp_path / "t.parquet")
    assert main(command.split()) == 2
    err = capsys.readouterr().err
    assert WRONG[command] in err and err.startswith("packlib: ")


@pytest.mark.parametrize("call", [main, packbook])
def test_help_lists_each_command_in_one_whole_line(call, capsys):
    assert call(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(listed) > 3 and all(line[-1] == "." and line[-2] != "." and line[2] != " " for line in listed)


def test_reasons_of_adjust_name_options(tmp_path, capsys):
    recipe = {"micro_batch": 8, "learning_rate": 1e-4, "total_sequences": 1000, "gradient_accumulation_steps": 3}
    (tmp_path / "r.json").write_text(json.dumps(recipe))
    assert main(["adjust", str(tmp_path / "r.json"), "--factor", "2"]) == 0
    out = capsys.readouterr().out
    assert "which may come closer: --how batch." in out and 'how="' not in out


def test_what_a_file_holds_keeps_its_name():
    audit = program.commands["audit"]
    assert isinstance(audit, click.Command)
    for said in (
        "x.json is no recipe: batch_size must be at least 1.",
        "row 1 has 3 numbers in max_length, and 4 tokens.",
    ):
        assert in_shell(said, audit) == said
    assert in_shell("steps are many", audit) == "steps are many"


WORDS = {  # of an option, as the call behind it has them
    ("plan", "method"): ("auto", "bfd", *METHODS),
    ("report", "today"): tuple(TODAY),
    ("report", "attention"): get_args(Form),
    ("pack", "masks"): MASK_WORDS,
    ("pack", "layout"): LAYOUTS,
    ("check", "reduction"): REDUCTIONS,
}


@pytest.mark.parametrize(("command", "option"), WORDS)
def test_an_option_knows_the_words_of_the_call_behind_it(command, option):
    """The command line has copies of some, so that it begins without torch and Arrow."""
    (parameter,) = [one for one in program.commands[command].params if one.name == option]
    kind = parameter.type.types[-1] if isinstance(parameter.type, click.Tuple) else parameter.type
    assert isinstance(kind, click.Choice) and sorted(kind.choices) == sorted(WORDS[command, option])


def test_the_help_of_all_commands_names_each_exit_code_that_one_of_them_has():
    def codes(command):
        return set(re.findall(r"[:;] (\d+) ", " ".join(command.epilog.split())))

    of_commands = set().union(*(codes(command) for command in program.commands.values()))
    assert of_commands == codes(program) >= {"0", "1", "2", "3", "4", "130"}
