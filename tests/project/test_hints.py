"""What an error or a page advises exists: an argument is one of the call's, and a package can be installed."""

import inspect
import re
from functools import partial
from pathlib import Path

import pytest

from packlib.distributed import pack_distributed
from packlib.lengths import LengthHistogram, load
from packlib.packing import strategy_matrix

FILE = "two_columns.csv"


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (partial(LengthHistogram.from_lengths, [9], 8), "truncate or drop it"),
        (partial(pack_distributed, [9], 8), "truncate or drop it"),
        (partial(load, FILE), "choose one of length, words"),
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
