"""The curriculum's experiments: every way to batch costs the same loss, ALiBi is what it says, runs are kept."""

import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments import curriculum
from experiments.batchings import BATCHINGS, Update, batches, nested_loss, padded_loss
from experiments.curriculum import LENGTH, LENGTH_ARMS, ROWS, new_model, row_updates, train
from experiments.sources import module_rows, modules
from model_cases import store

from packlib.batches import PackedBatch, TokenStore
from packlib.model import for_transformers


def texts() -> TokenStore:
    """As many ids as there are bytes."""
    return replace(store(), input_ids=store().input_ids % 256)


@pytest.mark.parametrize("name", BATCHINGS)
def test_a_pass_holds_every_text_once(name):
    found = list(batches(name, store(), 0, LENGTH))
    assert sorted(torch.cat([b.sample_ids for b in found]).tolist()) == list(range(len(store())))
    sizes = [b.num_sequences for b in found]
    assert 4 < np.mean(sizes) < 12
    if name != "packed":
        assert all(b.num_packs == b.num_sequences for b in found)


def test_jagged_tensors_cost_what_padding_costs():
    batch = next(batches("nested", texts(), 0, LENGTH))
    gradients = []
    for loss in (padded_loss, nested_loss):
        model = new_model(0).double()
        value = loss(model, batch)
        value.backward()
        gradients.append([value.detach(), *(p.grad for p in model.parameters())])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_alibi_knows_distance_and_not_the_future():
    model = new_model(0, alibi=True).double().eval()
    model.lm_head = torch.nn.Identity()  # logits are then the last hidden states
    ids = torch.arange(5, 17)[None]
    whole = torch.ones_like(ids)

    def hidden(ids):
        with torch.no_grad():
            return model(**for_transformers(PackedBatch(input_ids=ids, segment_ids=whole), model)).logits

    plain, swapped, longer = hidden(ids), ids.clone(), ids.clone()
    swapped[0, [2, 7]] = swapped[0, [7, 2]]
    longer[0, -1] = 99
    assert (hidden(swapped)[0, -1] - plain[0, -1]).abs().max() > 1e-6
    assert torch.allclose(hidden(longer)[0, :-1], plain[0, :-1], atol=1e-12)

    block, x = (model.transformer.h[0], model.transformer.wte(ids) + model.transformer.wpe(torch.zeros(1).long()))
    query, key, value = block.attn.c_attn(block.ln_1(x)).view(12, 3, 4, 16).unbind(1)
    mixed = torch.zeros(12, 4, 16, dtype=torch.float64)
    for head in range(4):
        for i in range(12):
            scores = torch.stack([query[i, head] @ key[j, head] / 4 - 2.0 ** (-2 * (head + 1)) * (i - j)
                                  for j in range(i + 1)])  # fmt: skip
            mixed[i, head] = scores.softmax(0) @ value[: i + 1, head]
    model.transformer.h = model.transformer.h[:1]
    model.transformer.ln_f = torch.nn.Identity()
    model.config.n_layer = model.config.num_hidden_layers = 1
    x = x[0] + block.attn.c_proj(mixed.flatten(1))
    assert torch.allclose(hidden(ids)[0], x + block.mlp(block.ln_2(x)), atol=1e-12)


def test_the_arms_differ_as_their_names_say():
    rows = torch.arange(300 * LENGTH).reshape(300, LENGTH)

    def shapes(arm):
        return [(u.sequences, u.length, u.tokens, u.slots) for u in row_updates(arm, 0, rows, 50 * ROWS * LENGTH)]

    full = (ROWS, LENGTH, ROWS * LENGTH, ROWS * LENGTH)
    assert shapes(LENGTH_ARMS["no warm-up"]) == [full] * 50
    warm = shapes(LENGTH_ARMS["0.3, truncated"])
    assert warm[0] == (ROWS, 8, ROWS * 8, ROWS * 8) and warm[14][1] < LENGTH and set(warm[15:]) == {full}
    reshaped = shapes(LENGTH_ARMS["0.3, reshaped"])
    assert {tokens for _, _, tokens, _ in reshaped} == {ROWS * LENGTH} and len(reshaped) == 50  # none is lost
    assert [length for _, length, *_ in reshaped[:20]] == [length for _, length, *_ in warm[:20]]
    assert all(slots >= tokens for _, _, tokens, slots in reshaped)
    both = shapes(LENGTH_ARMS["batch size and 0.3, truncated"])
    assert both[0][:2] == (4, 8) and both[15] == full


@pytest.mark.parametrize("name", LENGTH_ARMS)
def test_all_arms_see_as_many_tokens_and_each_row_once(name):
    wanted, rows = 50 * ROWS * LENGTH, torch.arange(1_200)[:, None].expand(-1, LENGTH)
    updates = list(row_updates(LENGTH_ARMS[name], 0, rows, wanted))
    assert wanted <= sum(update.tokens for update in updates) < wanted + ROWS * LENGTH
    seen = torch.cat([update.loss.keywords["ids"][:, 0] for update in updates])
    assert len(seen.unique()) == sum(update.sequences for update in updates)


def test_a_rate_by_tokens_falls_as_the_tokens_come():
    sizes = [8, 8, 16, 32, 64, 64, 64]
    updates = [Update(lambda model: model(torch.ones(1, 1)).sum(), 1, tokens, tokens, 8) for tokens in sizes]
    model, held_out = torch.nn.Linear(1, 1), lambda _: torch.zeros(())
    records = train(model, updates, sum(sizes), 1.0, "none", 1, held_out, 16)
    assert len(records) == 6
    done = [record["tokens"] - sizes[record["update"] - 1] for record in records]  # before the update
    rise = [min(1, (before / sum(sizes) + 0.01) / 0.05) for before in done]
    assert [record["rate"] for record in records] == pytest.approx(
        [up * (1 - 0.9 * before / sum(sizes)) for up, before in zip(rise, done, strict=True)]
    )


def test_rows_are_bytes_of_one_module_and_held_out_modules_are_others():
    train_rows, held_out = module_rows(LENGTH, 64 * LENGTH)
    texts = {path.read_bytes() for path in modules()}
    for rows in (train_rows, held_out):
        for row in rows[:: len(rows) // 5]:
            assert any(bytes(row.tolist()) in text for text in texts)
    assert len(train_rows) > 8 * len(held_out) / 2 and len(held_out) > curriculum.HELD_OUT_ROWS
    assert not {bytes(row.tolist()) for row in held_out[:50]} & {bytes(row.tolist()) for row in train_rows}


def small(monkeypatch):
    """Few and short texts, and updates of two rows."""
    rows = torch.arange(100 * LENGTH).reshape(100, LENGTH) % 7
    monkeypatch.setattr(curriculum, "function_stores", lambda length: (texts(), texts()))
    monkeypatch.setattr(curriculum, "module_rows", lambda length, least: (rows, rows))
    monkeypatch.setattr(curriculum, "ROWS", 2)
    monkeypatch.setattr(curriculum, "HELD_OUT_ROWS", 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "sequences", "arms"),
    [
        ("length", "60", ("ALiBi, no warm-up", "ALiBi, 0.3, truncated")),
        ("comparison", "400", ("token budget", "packed")),
    ],
)
def test_runs_are_recorded_and_not_made_again(experiment, sequences, arms, tmp_path, monkeypatch, capsys):
    small(monkeypatch)
    path = tmp_path / "found.csv"
    arguments = [experiment, "--sequences", sequences, "--arms", *arms, "--out", str(path)]
    curriculum.main([*arguments, "--seeds", "0"])
    first = path.read_text()
    assert capsys.readouterr().out.count("seed 0") == 2
    curriculum.main([*arguments, "--seeds", "0", "1"])
    (_, before), (command, after) = (text.split("\n", 1) for text in (first, path.read_text()))
    assert capsys.readouterr().out.count("seed 1") == 2 and after.startswith(before) and "--seeds 0 1 " in command
    rows = curriculum.read(path)
    last = rows[-1]
    assert float(last["held_out_loss"]) < float(next(r for r in rows if r["seed"] == "1")["held_out_loss"])
    assert all(float(row[name]) > 0 for row in rows for name in ("cpu_seconds", "gradient_norm", "largest_variance"))
    assert all(int(row["tokens"]) <= int(row["slots"]) for row in rows)
    with pytest.raises(ValueError, match=f"holds runs on {sequences} sequences; this one has 500: name another --out"):
        curriculum.main([experiment, "--sequences", "500", "--out", str(path)])
    with pytest.raises(ValueError, match=r"experiment must be .*, not 'speed'"):
        curriculum.main(["speed"])


@pytest.mark.slow
def test_a_sweep_tries_each_rate_with_seeds_of_its_own(tmp_path, monkeypatch):
    small(monkeypatch)
    path = tmp_path / "found.csv"
    curriculum.main(["rates", "--sweep", "--sequences", "40", "--arms", "shuffled, none", "--out", str(path)])
    rows = curriculum.read(path)
    runs = [(f"shuffled, none, {rate:g}", str(seed)) for seed in (100, 101) for rate in curriculum.SWEEP_RATES]
    assert [(row["arm"], row["seed"]) for row in rows] == runs and {row["sequences"] for row in rows} == {"40"}
    used = np.array([float(row["rate"]) for row in rows[:5]])
    assert used / used[0] == pytest.approx(np.array(curriculum.SWEEP_RATES) / curriculum.SWEEP_RATES[0], rel=1e-4)
    assert len({row["held_out_loss"] for row in rows}) == 10
    assert " --sweep --seeds 100 101 " in path.read_text().split("\n", 1)[0]
    with pytest.raises(ValueError, match=r"arms must be .*, not 'nested'"):
        curriculum.main(["comparison", "--sweep", "--arms", "nested", "--out", str(tmp_path / "other.csv")])


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["training", "writing"])
def test_an_experiment_that_is_killed_loses_one_run_at_most(moment, tmp_path, monkeypatch, capsys):
    small(monkeypatch)
    path, whole = tmp_path / "found.csv", tmp_path / "whole.csv"
    arguments = ["length", "--sequences", "50", "--seeds", "0", "--arms", "no warm-up", "0.3, reshaped", "--out"]

    def killed():
        where, name = (curriculum, "rows_loss") if moment == "training" else (Path, "replace")
        act, calls = getattr(where, name), []

        def act_or_die(*values, **options):
            calls.append(name)
            if path.exists() and len(calls) > 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return act(*values, **options)

        setattr(where, name, act_or_die)
        curriculum.main([*arguments, str(path)])

    process = multiprocessing.get_context("fork").Process(target=killed)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    kept = path.read_text()
    assert len(list(tmp_path.glob(".*.part"))) == (moment == "writing")
    curriculum.main([*arguments, str(path)])
    assert capsys.readouterr().out.count("seed 0") == 1 and path.read_text().startswith(kept)
    assert list(tmp_path.iterdir()) == [path]
    curriculum.main([*arguments, str(whole)])
    for one, other in zip(curriculum.read(path), curriculum.read(whole), strict=True):
        assert all(one[name] == other[name] for name in ("arm", "update", "loss", "held_out_loss"))
