"""What an error or a page advises exists: an argument is one of the call's, and a package can be installed."""

import inspect
import re
from functools import partial
from pathlib import Path

import pytest

from packlib.advice import lengths_for
from packlib.batches import pack_lengths
from packlib.distributed import balance_distributed, pack_distributed
from packlib.lengths import LengthHistogram, load
from packlib.packing import strategy_matrix
from packlib.work import Work
from packlib.workbook.game import PackingGame

ROOT = Path(__file__).parents[2]
FILE = "two_columns.csv"


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (partial(LengthHistogram.from_lengths, [9], 8), "truncate or drop it"),
        (partial(pack_lengths, [9], 8), "truncate or drop it"),
        (partial(pack_distributed, [9], 8), "truncate or drop it"),
        (partial(balance_distributed, [9], 8, work=Work.decoder()), "truncate or drop it"),
        (partial(PackingGame, [9], 8), "truncate or drop it"),
        (partial(load, FILE), "choose one of length, words"),
        (partial(lengths_for, FILE, 8, "drop"), "choose one of length, words"),
        (partial(strategy_matrix, 512, 9), "Take a smaller max_sequences_per_pack"),
    ],
)
def test_an_error_names_no_argument_that_the_call_does_not_take(call, advice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text("length,words\n9,2\n")
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    said = str(raised.value)
    assert advice in said
    assert set(re.findall(r"\b(\w+)=", said)) <= set(inspect.signature(call.func).parameters), said


@pytest.mark.parametrize("page", ["README.md", "packlib/USING.md", "packlib/rows/README.md"])
def test_a_page_installs_packlib_from_a_folder(page):
    """It is on no index of packages; where it is installed, `pip install 'packlib[hub]'` adds an extra to it."""
    shown = re.findall(r"pip install '?([^\s'`]+)", (ROOT / page).read_text())
    assert shown and all(what.startswith((".", "-", "git+")) for what in shown), shown
