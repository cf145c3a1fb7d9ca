"""A type checker outside the clone finds nothing in a right script, and each slip that is planted in it."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile

import pytest

import packlib

_RIGHT = """
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import PreTrainedModel

import packlib
from packlib import (
    Lamb,
    LengthHistogram,
    PackedStream,
    PackingPlan,
    Packs,
    Recipe,
    StreamPacker,
    TransformersCollator,
    TreeCollator,
    adjust,
    advise,
    audit,
    balance,
    balance_step,
    check_loader,
    check_packing,
    evaluate,
    fit,
    lay_trees,
    load,
    pack_dataset,
    pack_trees,
    pack_loader,
    plan,
    predict,
    share_sequences,
)
from packlib import batches, distributed, lengths, model, packing, tools, training, work

histogram: LengthHistogram = load("squad")
rows = [{"input_ids": [1, 2, 3]}, {"input_ids": [4, 5]}]
packs: Packs = plan([5, 3, 2], 8, "bfd", max_sequences_per_pack=4).assign([5, 3, 2])
recipe = Recipe(2, learning_rate=1e-4, total_sequences=100, optimizer="lamb", decay="cosine")


def plans() -> tuple[int, float]:
    made: PackingPlan = plan(np.array([5, 3]), time_limit=3, progress=lambda now: print(now.num_packs))
    made.save("plan.json")
    print(packlib.__version__, packs.efficiency, balance(packs, ranks=2).steps, Packs.load("packs.npz").verify())
    for ids in StreamPacker(8, 4).pack([5, 3, 2]):
        print(ids[0] + 1)
    drawn = np.random.default_rng(1).lognormal(8.7, 1, 512).astype(int)
    print(balance_step(drawn, ranks=8, max_length=131_072), share_sequences(drawn, 8, 32_768).group_sizes)
    LengthHistogram([0, 3, 1], name="mine").save("lengths.json")
    LengthHistogram.from_chunks([[3, 4], [5]], 8, overlong="truncate").to_csv("lengths.csv")
    return plan(histogram).num_packs, lengths.padding_waste(histogram, 8, habit="sorted").slots


def decisions() -> None:
    advice = advise([90] * 600 + [1250] * 600, max_length=2048, model="7B", memory="80GB", recipe=recipe)
    print(advice, advice.plan.gap, advice.code["Packs"].upper(), adjust(recipe, 2.0).recipe.to_json())
    audit("packed.parquet", source=[5, 3], ranks=2).save("audit.json")
    print(audit(pack_dataset("tokens.parquet", 8), source="tokens.parquet", work=work.Work.decoder()).packs)


def trains(own: PreTrainedModel, optimizer: torch.optim.Optimizer) -> dict[str, float]:
    print(len(pack_dataset(rows, 64)), pack_dataset("tokens.parquet", 8).column_names)
    packed = pack_dataset(rows, max_length=64, plan=PackingPlan.load("plan.json"), overlong="drop")
    collator = TransformersCollator(own, "dense")
    for batch in DataLoader(packed, 2, collate_fn=collator):  # pyright: ignore[reportArgumentType]
        own(**batch).loss.backward()
        optimizer.step()
    loader = pack_loader(packed, batch_size=2)
    records = fit(own, loader, recipe, training.CausalObjective(), optimizer=Lamb(own.parameters()), progress=False)
    print(records[-1]["loss"])
    return evaluate(own, loader)


def streams(source: Any) -> Iterator[list[int]]:
    stream = PackedStream(source, 64, even=True)
    stream.load_state_dict(stream.state_dict())
    yield from (pack["input_ids"] for pack in stream)


def answers(own: PreTrainedModel, prompts: list[list[int]], answers: list[list[list[int]]]) -> torch.Tensor:
    sequences = [prompt + answer for prompt, group in zip(prompts, answers, strict=True) for answer in group]
    groups = [at for at, group in enumerate(answers) for _ in group]
    batch = TreeCollator(own)(list(lay_trees(pack_trees(sequences, groups, max_length=64), sequences)))
    logits = own(**batch.inputs).logits
    print(batch.sequence_sums(batch.losses(logits)))
    return batch.loss(logits)


def share(rank: int, ranks: int, epoch: int) -> list[list[dict[str, list[int]]]]:
    return [rows[rank::ranks]] * (epoch + 1)


def asks(own: PreTrainedModel) -> bool | None:
    print(check_loader(share, ranks=2, source=rows, shuffled=False).seen)
    found = check_packing(own, TransformersCollator(own), rows, reduction="token")
    found.save("check.json")
    return found.exact and all(finding.verdict == "passed" for finding in found.findings)


def inside(bert: model.PackedBert) -> np.ndarray:
    store = batches.TokenStore.from_samples(rows)
    batch = batches.collate(store, [2], max_length=8)
    print(model.token_loss(bert(**batch), batch, "sequence").mean.item(), packing.least_cuts([5, 3], 4))
    order: list[int] = list(distributed.DistributedCurriculumSampler(store, curriculum="local"))
    print(order, tools.rows.pack_dataset, training.rate_at(5, 10, decay="polynomial", power=0.5))
    return next(predict(bert, ["a text", ("one", "two")], batches.wordnet_tokenizer()))

"""
_SLIPS = {  # each with what mypy says of it
    'plan(histogram, method="optmal")': 'Argument "method" to "plan" has incompatible type',
    "plan(histogram, time_limt=3)": 'Unexpected keyword argument "time_limt" for "plan"',
    'plan(histogram, time_limit="3")': 'Argument "time_limit" to "plan" has incompatible type "str"',
    'plan(histogram, max_sequences_per_pack="4")': 'Argument "max_sequences_per_pack" to "plan" has incompatible type',
    'load("squad", overlong="splt")': 'Argument "overlong" to "load" has incompatible type',
    'LengthHistogram.from_lengths([3], overlong="splt")': 'Argument "overlong" to "from_lengths" of',
    'LengthHistogram([0, 1], kind="measurd")': 'Argument "kind" to "LengthHistogram" has incompatible type',
    "packlib.training.Lamp": 'Module has no attribute "Lamp"',
    "packlib.colate": 'Module has no attribute "colate"',
    "audit(3)": 'Argument 1 to "audit" has incompatible type "int"',
    "pack_dataset(3, 8)": 'No overload variant of "pack_dataset" matches',
    'pack_dataset(rows, 8, overlong="splt")': 'No overload variant of "pack_dataset" matches',
    'advise([3], today="sortd")': 'Argument "today" to "advise" has incompatible type',
    'adjust(recipe, 2.0, how="beta")': 'Argument "how" to "adjust" has incompatible type',
    'Recipe(2, 1e-4, 100, optimizer="adam")': 'Argument "optimizer" to "Recipe" has incompatible type',
    'Recipe(2, 1e-4, 100, decay="cosin")': 'Argument "decay" to "Recipe" has incompatible type',
    'balance_step([5], 2, 8, meet="updat")': 'Argument "meet" to "balance_step" has incompatible type',
    'training.rate_at(5, 10, decay="cosin")': 'Argument "decay" to "rate_at" has incompatible type',
    'training.MaskedObjective(reduction="row")': 'Argument "reduction" to "MaskedObjective" has incompatible type',
    'batches.scale_learning_rate(0.1, 8, 4, rule="root")': 'Argument "rule" to "scale_learning_rate" has',
    'batches.batch_by_tokens([3], 8, order="falling")': 'Argument "order" to "batch_by_tokens" has incompatible type',
    'lengths.padding_waste(histogram, 8, habit="sortd")': 'Argument "habit" to "padding_waste" has',
    'packing.document_rows([3], 8, rule="splt")': 'Argument "rule" to "document_rows" has incompatible type',
    'work.context_shards(packs, 2, "row", work=work.Work.decoder())': 'Argument 3 to "context_shards" has incompatible',
    'distributed.DistributedCurriculumSampler([3], curriculum="loca")': 'Argument "curriculum" to',
    "def f(own: PreTrainedModel) -> object: return TransformersCollator(own, form='sparse')": 'Argument "form" to',
    "def g(own: PreTrainedModel) -> object: return check_packing(own, list, rows, reduction='tokn')": "Argument",
    "check_loader(3)": 'Argument 1 to "check_loader" has incompatible type "int"',
    "def h(own: torch.optim.Optimizer) -> object: return training.round_weights(own, rounding='up')": "Argument",
    "def i(own: model.PackedOutput) -> object: return model.token_loss(own, {}, reduction='row')": "Argument",
    "def j(one: torch.device) -> str: return model.choose_backend('flash', one, torch.float32, True)": "Argument",
}


FIRST = _RIGHT.count("\n") + 1  # the line of the first slip
SCRIPT = _RIGHT + "\n".join(_SLIPS)


def test_the_right_script_has_every_name_that_packlib_offers():
    assert set(packlib.__all__) <= set(re.findall(r"\w+", _RIGHT))


@pytest.mark.slow
def test_strict_mypy_finds_each_slip_where_a_wheel_is_installed(wheel, tmp_path):
    """Where no file configures mypy."""
    python, folder = tmp_path / "bin" / "python", tmp_path / "mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    zipfile.ZipFile(next(wheel.parent.glob("packlib-*.whl"))).extractall(packages)
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # their .pth files are not read
    assert (packages / "packbook" / "py.typed").exists()
    folder.mkdir()
    (folder / "mine.py").write_text(SCRIPT)
    options = ["--strict", "--config-file", "", "--cache-dir", os.devnull, "--python-executable", python]
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    command = [sys.executable, "-m", "mypy", *options, "mine.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    said = [line for line in done.stdout.splitlines() if ": error: " in line]
    for line, (slip, words), found in zip(range(FIRST, FIRST + len(_SLIPS)), _SLIPS.items(), said, strict=True):
        assert found.startswith(f"mine.py:{line}: error: {words}"), slip


@pytest.mark.slow
def test_strict_pyright_finds_each_slip_too(tmp_path):
    """Where packlib is installed to be edited.

    To pyright, datasets.Dataset is no Dataset of torch: the script lets that pass in one line.
    """
    (tmp_path / "mine.py").write_text(SCRIPT)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    quiet = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # else it asks the network for newer versions
    done = subprocess.run(command, cwd=tmp_path, env=quiet, capture_output=True, text=True)
    errors = [(one["range"]["start"]["line"] + 1, one) for one in json.loads(done.stdout)["generalDiagnostics"]]
    assert [one["message"] for line, one in errors if line < FIRST] == []
    rules = "reportArgumentType", "reportCallIssue", "reportAttributeAccessIssue"
    assert {line for line, one in errors if one["rule"] in rules} == set(range(FIRST, FIRST + len(_SLIPS)))
