"""The code that a report prints runs as printed, and makes the updates of each sequence alone."""

import json
from dataclasses import replace

import datasets
import pytest
import torch
from alone_cases import a_model, assert_same, assert_same_on_ranks, loss_alone, sequences
from transformers import get_scheduler

from packlib.batches import wordnet_tokenizer
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools.advice import Batch, advise
from packlib.tools.advice.applying import code_for
from packlib.training import Recipe

TRAINERS = ("PyTorch loop", "transformers.Trainer", "TRL's SFTTrainer", "accelerate")
RATE, BETAS, NEAR = 0.01, (0.8, 0.95), 2e-4
TWO = LengthHistogram([0, 1, 1])


def trained_alone():
    """Three updates, each on every sequence by itself; the rate warms up in the first."""
    model, ids = a_model(), [one[:24] for one in sequences(26)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, weight_decay=0.0)
    schedule = get_scheduler("linear", optimizer, 1, 3)
    for _ in range(3):
        loss_alone(model, ids).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model


def written(folder, replicas=1):
    """The code, and the plan in a folder, for a recipe in which one update is one pass over the packs."""
    histogram = LengthHistogram.from_lengths([len(one) for one in sequences(26)], 24, "truncate")
    made = plan(histogram, method="optimal")
    assert made.num_packs % 4 == 0
    made.save(folder / "plan.json")
    recipe = Recipe(
        made.num_packs // 2 // replicas, RATE, 3 * 26, 26, gradient_accumulation_steps=2, replicas=replicas,
        packing_factor=made.packing_factor, betas=BETAS, weight_decay=0.0,
    )  # fmt: skip
    return code_for(histogram, recipe, "truncate")


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the code takes as given, after its first part."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    given = {"dataset": datasets.Dataset.from_dict({"input_ids": sequences(26)}), "model": a_model(),
             "tokenizer": wordnet_tokenizer()}  # fmt: skip
    exec(written(tmp_path)["Packs"], given)
    return given


@pytest.mark.parametrize("trainer, replicas", [*((trainer, 1) for trainer in TRAINERS), ("PyTorch loop", 2)])
def test_the_code_makes_the_updates_of_each_sequence_alone(names, tmp_path, trainer, replicas):
    """Also the loop on one device, for a recipe of several."""
    exec(written(tmp_path, replicas)[trainer], names)
    assert_same(names["model"], trained_alone(), NEAR)


ON_RANKS = """
from test_applying import NEAR, trained_alone
code = {code!r}
exec(code["Packs"])
exec(code["accelerate"])
assert accelerator.num_processes == 2
assert_same(accelerator.unwrap_model(model), trained_alone(), NEAR)
"""


@pytest.mark.slow
def test_accelerate_makes_them_on_as_many_ranks_as_the_recipe_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = written(tmp_path, 2)
    assert "accelerate launch --num_processes 2 train.py" in code["accelerate"]
    assert_same_on_ranks(tmp_path, ON_RANKS.format(code=code), count=26)


def test_the_code_says_what_the_recipe_and_the_lengths_ask_for():
    recipe = Recipe(4, 2.5e-4, 40, packing_factor=2.0, optimizer="lamb", decay="polynomial", power=0.5)
    code = code_for(LengthHistogram.from_lengths([3, 9, 30], 20, "drop"), recipe, "drop")
    assert tuple(code) == ("Packs", "Model", *TRAINERS) and 'overlong="drop"' in code["Packs"]
    assert "packlib pack tokens.parquet --plan plan.json --overlong drop --out packed.parquet\n" in code["Packs"]
    for trainer in TRAINERS:
        compile(code[trainer], trainer, "exec")
        assert "import Lamb, " in code[trainer] and "0.00025" in code[trainer] and '{"power": 0.5}' in code[trainer]
    plain = code_for(TWO, replace(recipe, optimizer="adamw", decay="cosine", power=1.0))
    assert "overlong" not in plain["Packs"] and not any("Lamb" in text or "power" in text for text in plain.values())
    for trainer in ("transformers.Trainer", "TRL's SFTTrainer"):  # which else repeats packs
        two = code_for(TWO, replace(recipe, replicas=2))[trainer]
        assert "drop_last" not in code[trainer] and "dataloader_drop_last=True" in two
    assert json.loads(json.dumps(plain)) == plain


def test_lamb_runs_in_the_trainer(names):
    recipe = Recipe(4, RATE, 26, packing_factor=2.0, optimizer="lamb", decay="polynomial", power=0.5)
    exec(code_for(LengthHistogram.from_lengths([9, 8], 24), recipe)["transformers.Trainer"], names)
    assert type(names["trainer"].optimizer.optimizer).__name__ == "Lamb" and names["trainer"].state.global_step == 4


def test_the_model_is_loaded_with_the_attention_that_is_there(tmp_path):
    (saved := a_model()).save_pretrained(tmp_path)
    given = {"folder": tmp_path}
    exec(code_for(TWO, Recipe(1, 1e-3, 2), attention="flash_attention_2", recompute=True)["Model"], given)
    model = given["model"]
    assert model.config._attn_implementation == ("flash_attention_2" if torch.cuda.is_available() else "sdpa")
    assert model.is_gradient_checkpointing
    assert all(torch.equal(*both) for both in zip(model.parameters(), saved.parameters(), strict=True))


@pytest.mark.parametrize("trainer", ["PyTorch loop", "accelerate"])
def test_the_loops_make_as_many_updates_as_the_schedule_has(names, trainer):
    recipe = Recipe(2, RATE, 3 * 26 + 5, gradient_accumulation_steps=3, packing_factor=26 / len(names["packed"]))
    exec(code_for(LengthHistogram.from_lengths([9, 8], 24), recipe)[trainer], names)
    assert names["schedule"].get_last_lr() == [0.0] and recipe.total_steps % (len(names["packed"]) // 6) != 0


@pytest.mark.parametrize("overlong", ["truncate", "drop", "split"])
def test_the_plan_of_the_advice_packs_the_data_whatever_becomes_of_longer_sequences(names, overlong):
    advice = advise([len(one) for one in sequences(26)], 24, overlong=overlong, keep_max_length=True)
    advice.plan.save("plan.json")
    exec(advice.code["Packs"], names)
    assert f'overlong="{overlong}"' in advice.code["Packs"] and len(names["packed"]) == advice.plan.num_packs
    assert sum(map(len, names["packed"]["input_ids"])) == advice.histogram.num_tokens


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("known", [True, False])
def test_without_a_recipe_the_code_makes_the_updates_of_one_epoch(names, monkeypatch, trainer, known):
    """With the packs that the batch says, or, where it is not known, those of as many sequences as there were."""
    packs, steps = len(names["packed"]), []
    names |= {"learning_rate": RATE, "sequences_per_update": 26 / 2}
    if known:
        code = code_for(TWO, batch=Batch(packs // 4, 2))
    else:
        code = code_for(TWO, packing_factor=26 / packs)
    step = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self, *a, **b: steps.append(self) or step(self, *a, **b))
    exec(code[trainer], names)
    assert len(steps) == 2 and all(group["betas"] == (0.9, 0.999) for group in steps[0].param_groups)
