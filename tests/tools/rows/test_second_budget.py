"""Packs with two budgets in the tools: `pack`, `audit` and `report`, and on to the gradients of a model with images."""

import json
from pathlib import Path

import check_images as images
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from datasets import IterableDataset

from packlib.packing import pack_pairs, plan
from packlib.tools import cli
from packlib.tools.advice import advise
from packlib.tools.auditing import audit
from packlib.tools.rows import pack_dataset

RNG = np.random.default_rng(0)
TOKENS, PATCHES = RNG.integers(1, 30, 200), 3 * RNG.integers(0, 6, 200)
BUDGET = ["--second-budget", "patches:20"]
OPTIONS = ["--max-length", "64", "--no-progress", "--out", "no.parquet"]


def rows(tokens=TOKENS, patches=PATCHES):
    """A row for each pair of a number of tokens and one of patches."""
    return [
        {"input_ids": [7] * int(length), "patches": int(patch), "number": at}
        for at, (length, patch) in enumerate(zip(tokens, patches, strict=True))
    ]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.Table.from_pylist(rows()), "x.parquet")


def test_the_packs_are_those_of_pack_pairs_and_keep_both_budgets():
    packed = pack_dataset(rows(), 64, second_budget=("patches", 20))
    expected = pack_pairs(TOKENS, PATCHES, 64, 20)
    assert sorted(packed[:]["number"]) == sorted(samples.tolist() for samples in expected)
    assert all(sum(row["seq_lengths"]) <= 64 and sum(row["patches"]) <= 20 for row in packed)
    found = json.loads(packed.info.description)
    assert found["num_packs"] == len(expected) and found["lower_bound"] == expected.lower_bound
    assert found["second_budget"]["at_least"] == plan(PATCHES[PATCHES > 0], 20, "lpfhp").lower_bound
    assert [row["number"] for row in packed] != sorted(row["number"] for row in packed)  # in the order of the seed


def test_the_command_says_which_budget_is_scarcer_and_goes_on_with_a_folder(capsys):
    folder = ["pack", "x.parquet", "--max-length", "64", "--packs-per-file", "20", "--no-progress", "--out", "packs"]
    assert cli.main([*folder, *BUDGET]) == 0
    said = capsys.readouterr().out
    expected = pack_pairs(TOKENS, PATCHES, 64, 20)
    assert f"{len(expected)} packs of 64 (pack_pairs)" in said and "of patches, at most 20 a pack, are used" in said
    assert f"patches are scarcer: patches alone need {expected.patch_bound} packs at least" in said
    first = Path("packs/00000-of-00005.parquet")
    written = first.read_bytes()
    first.unlink()
    assert cli.main([*folder, *BUDGET]) == 0 and first.read_bytes() == written
    assert cli.main([*folder, "--second-budget", "patches:21"]) == 2
    assert "another packing, of second_budget ['patches', 20], not ['patches', 21]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--second-budget", "patches"], "'patches' is no COLUMN:NUMBER, such as patches:125"),
        (["--second-budget", "patches:-3"], "'patches:-3' is no COLUMN:NUMBER"),
        (["--second-budget", "patches:0"], "The second budget must be from 1 to 16777216, not 0"),
        (["--second-budget", "tiles:9"], "--second-budget names 'tiles', which must be a column with a whole number"),
        (["--second-budget", "input_ids:9"], "'input_ids' of the second budget must hold a whole number"),
        (["--second-budget", "patches:14"], "takes 15 of the second budget, 'patches'; each row must take from 0"),
        ([*BUDGET, "--overlong", "split"], "--overlong must be 'error' or 'drop' with a second budget"),
        ([*BUDGET, "--method", "lpfhp"], "--method must be left out with a second budget"),
        ([*BUDGET, "--window", "3"], "--window must be left out with a second budget"),
        ([*BUDGET, "--max-sequences-per-pack", "3"], "--max-sequences-per-pack must be left out with a second budget"),
        ([*BUDGET, "--drop", "patches"], "must not say 'drop' of 'patches'"),
    ],
)
def test_what_cannot_be_right_is_refused(arguments, says, capsys):
    assert cli.main(["pack", "x.parquet", *OPTIONS, *arguments]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and not Path("no.parquet").exists()


def test_a_row_below_nothing_and_a_stream_are_refused_and_what_is_too_long_may_be_dropped():
    with pytest.raises(ValueError, match=r"Row 1 of the data set takes -1 of the second budget"):
        pack_dataset(rows([3, 4], [1, -1]), 8, second_budget=("patches", 20))
    stream = IterableDataset.from_generator(lambda: iter(rows()))
    with pytest.raises(
        TypeError, match=r"second_budget must be the name of a column and a whole number, not 'patches'"
    ):
        pack_dataset(rows(), 64, second_budget="patches")
    with pytest.raises(ValueError, match=r"second_budget must be left out for a stream"):
        pack_dataset(stream, 8, second_budget=("patches", 20))
    kept = pack_dataset(rows([9, 4, 3], [2, 2, 2]), 8, overlong="drop", second_budget=("patches", 2))
    assert sorted(kept[:]["number"]) == [[1], [2]]


def test_rows_with_several_sequences_need_a_number_for_each():
    packed = [{"input_ids": [1] * 5, "seq_lengths": [3, 2], "patches": 4}]
    with pytest.raises(ValueError, match="must have a list with a number for each sequence"):
        pack_dataset(packed, 8, second_budget=("patches", 4))
    again = pack_dataset([{**packed[0], "patches": [4, 1]}], 8, second_budget=("patches", 4))
    assert sorted(again[:]["patches"]) == [[1], [4]]


def test_an_audit_counts_both_budgets(capsys):
    pack_dataset(rows(), 64, second_budget=("patches", 20)).to_parquet("packed.parquet")
    expected = pack_pairs(TOKENS, PATCHES, 64, 20)
    alone = audit("packed.parquet", max_length=64)
    assert any("that lpfhp makes of the same sequences" in problem for problem in alone.problems)
    both = audit("packed.parquet", max_length=64, second_budget=("patches", 20))
    assert both.lower_bound == expected.lower_bound and not both.problems
    assert not any("patches" in note for note in both.notes)
    tokens_alone = pack_dataset(rows(), 64)
    over = sum(sum(row["patches"]) > 20 for row in tokens_alone)
    fullest = max(sum(row["patches"]) for row in tokens_alone)
    tokens_alone.to_parquet("alone.parquet")
    assert over and cli.main(["audit", "alone.parquet", *BUDGET]) == 1
    assert (
        f"more than 20 of the second budget, 'patches': {over}; the fullest has {fullest}." in capsys.readouterr().out
    )
    assert cli.main(["audit", "alone.parquet", "--second-budget", "tiles:20"]) == 2
    assert "names 'tiles', which alone.parquet has not" in capsys.readouterr().err
    nothing = pa.table({"input_ids": [[1, 2]], "seq_lengths": [[2]], "patches": pa.nulls(1)})
    pq.write_table(nothing, "nothing.parquet")
    assert cli.main(["audit", "nothing.parquet", *BUDGET]) == 2
    said = capsys.readouterr().err
    assert "must hold a list for each pack, with a number for each of its sequences, not null" in said


def least(sizes, budget):
    """The lower bound on packs if this were the only budget."""
    return plan(sizes[sizes > 0], budget, "lpfhp").lower_bound


@pytest.mark.parametrize(("budget", "scarcer"), [(20, "patches are scarcer than tokens"), (200, "tokens are scarcer")])
def test_a_report_names_the_scarcer_budget(budget, scarcer):
    found = advise("x.parquet", 64, second_budget=("patches", budget))
    decision = next(one for one in found.decisions if one.about == "Second budget")
    assert scarcer in decision.choice and found.row_length == 64
    by_patches, by_tokens = least(PATCHES, budget), least(TOKENS, 64)
    assert f"Patches alone need at least {by_patches} packs of {budget}" in decision.reason
    assert f"tokens alone {by_tokens} of 64" in decision.reason
    assert (by_patches > by_tokens) == (decision is found.decisions[0])
    assert f"second_budget=('patches', {budget})" in found.code["Packs"] and "plan" not in found.code["Packs"]


def test_a_report_counts_what_fits_and_reads_columns_of_lengths():
    table = pa.table({"length": TOKENS, "patches": PATCHES})
    pq.write_table(table, "lengths.parquet")
    found = advise("lengths.parquet", 20, column="length", second_budget=("patches", 20)).second
    fits = TOKENS <= 20
    assert found.lower_bound == least(PATCHES[fits], 20) and found.total == PATCHES[fits].sum()
    for options, says in (
        ({"overlong": "split"}, "overlong must be 'drop' with a second budget"),
        ({"second_budget": ("patches", 9)}, "takes 15 of the second budget"),
        ({"second_budget": ("tiles", 9)}, "the column of the second budget of lengths.parquet must be"),
    ):
        with pytest.raises(ValueError, match=says):
            advise("lengths.parquet", column="length", **{"second_budget": ("patches", 20), **options})
    with pytest.raises(ValueError, match="second_budget must be left out for wordnet, which has lengths alone"):
        advise("wordnet", second_budget=("patches", 9))
    with pytest.raises(ValueError, match="second_budget must be left out for lengths"):
        advise([3, 4], second_budget=("patches", 9))


def test_images_and_texts_in_packs_have_the_losses_and_gradients_that_they_have_alone():
    """From a data set to gradients, in double precision, with two budgets and positions of three axes."""
    samples, model = images.illustrated(), images.qwen().double()
    data = [
        {"input_ids": row["input_ids"], "labels": row["labels"], "patches": row["grid"][1] * row["grid"][2], "row": at}
        for at, row in enumerate(samples)
    ]
    packed = pack_dataset(data, 64, second_budget=("patches", 80))
    assert 1 < len(packed) < len(data) and all(sum(row["patches"]) <= 80 for row in packed)

    def sum_of_losses(some):
        batch = {name: value.double() if value.is_floating_point() else value
                 for name, value in images.packed(some).items()}  # fmt: skip
        labels = batch.pop("labels")
        logits = model(**batch).logits
        return torch.nn.functional.cross_entropy(logits[0, :-1], labels[0, 1:], reduction="sum")

    together = [sum_of_losses([samples[at] for at in row["row"]]) for row in packed]
    by_pack = torch.autograd.grad(sum(together), list(model.parameters()))
    alone = [sum_of_losses([row]) for row in samples]
    by_sample = torch.autograd.grad(sum(alone), list(model.parameters()))
    assert abs((sum(together) - sum(alone)).item()) < 1e-10 * sum(alone).item()
    largest = max(float(one.abs().max()) for one in by_sample)
    assert (
        max(float((one - other).abs().max()) for one, other in zip(by_pack, by_sample, strict=True)) < 1e-10 * largest
    )
