"""`check_packing` on set-ups after public reports, and what it says of questions that nothing asks."""

import json

import check_reports as reports
import pytest
from check_cases import SEGMENTS, Tiny, dense, make, padded, sequences

from packlib.tools.check import check_packing


def checked(case):
    model, collate, rows, *options = case
    return check_packing(model, collate, rows, **(options[0] if options else {}))


@pytest.mark.parametrize("name", reports.RIGHT, ids=lambda name: name.replace(" ", "_"))
def test_what_is_right_raises_no_alarm(name):
    found = checked(reports.RIGHT[name]())
    assert found.exact is True, found


@pytest.mark.parametrize("name", reports.FAULTS, ids=lambda name: name.replace(" ", "_"))
def test_a_fault_is_found_and_its_cause_named(name):
    case, question, words = reports.FAULTS[name]
    found = checked(case())
    assert found.exact is False
    assert found[question].verdict == "failed" and words in found[question].cause, found


def test_what_is_left_out_is_said_by_number():
    found = check_packing(reports.llama(), reports.FLAT, reports.of(51, 26, 56, 48, 9, 38, 32, 20, 40, 330))
    said = found["tokens"].evidence
    assert "The model got 8 of 10 sequences, the longest among them; 2 of " in said
    assert "Of 8 sequences 1 were cut to 300 tokens" in said


def test_what_nothing_has_is_not_asked_and_said():
    one_a_row = check_packing(make("MambaForCausalLM"), padded, sequences())
    assert one_a_row.exact is True
    assert {"isolation from earlier sequences", "isolation from later sequences"} <= one_a_row.not_asked.keys()
    assert "No row holds two of your 6 sequences" in one_a_row.not_asked["isolation from earlier sequences"]
    one_row = check_packing(make("LlamaForCausalLM"), reports.FLAT, sequences())
    assert one_row.exact is True and {"padding", "several rows"} <= one_row.not_asked.keys()
    assert json.loads(one_row.to_json())["not_asked"] == one_row.not_asked
    assert "Not asked: padding, " in repr(one_row).splitlines()[-1]
    whole = check_packing(Tiny("attention"), dense(**SEGMENTS), sequences())
    assert not whole.not_asked


def test_a_window_that_no_sequence_exceeds_is_not_asked():
    wide = check_packing(make("MistralForCausalLM", sliding_window=64), reports.FLAT, sequences())
    assert wide.exact is True and "20 tokens, and the model's window 64" in wide.not_asked["windows"]
    narrow = check_packing(make("MistralForCausalLM"), reports.FLAT, sequences())
    assert "windows" not in narrow.not_asked
