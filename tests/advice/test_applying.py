"""The code that a report prints runs as printed, and makes the updates of each sequence alone."""

import json
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from processes import on_ranks
from transformers import LlamaConfig, LlamaForCausalLM, get_scheduler

from packlib.advice import advise
from packlib.advice.applying import code_for
from packlib.batches import wordnet_tokenizer
from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.training import Recipe

TRAINERS = ("PyTorch loop", "transformers.Trainer", "TRL's SFTTrainer", "accelerate")
RATE, BETAS = 0.01, (0.8, 0.95)


def a_model():
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(wordnet_tokenizer()), max_position_embeddings=64, **small))


def sequences():
    rng = np.random.default_rng(0)
    return [rng.integers(5, 100, n).tolist() for n in rng.integers(5, 30, 26)]


def trained_alone():
    """Three updates, each on every sequence by itself; the rate warms up in the first."""
    model, ids = a_model(), [one[:24] for one in sequences()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, weight_decay=0.0)
    schedule = get_scheduler("linear", optimizer, 1, 3)
    for _ in range(3):
        for one in ids:
            tokens = torch.tensor([one])
            loss = model(input_ids=tokens, labels=tokens).loss * (len(one) - 1)
            (loss / sum(len(one) - 1 for one in ids)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model


def assert_same(model, reference):
    before = a_model()
    for name, parameter in reference.named_parameters():
        assert (model.get_parameter(name) - parameter).abs().max() < 2e-4, name
        assert (before.get_parameter(name) - parameter).abs().max() > 1e-3, name


def written(folder, replicas=1):
    """The plan in a folder, and the code, for a recipe in which one update is one pass over the packs."""
    histogram = LengthHistogram.from_lengths([len(one) for one in sequences()], 24, "truncate")
    made = plan(histogram, method="optimal")
    assert made.num_packs % 4 == 0
    made.save(folder / "plan.json")
    recipe = Recipe(
        made.num_packs // 2 // replicas, RATE, 3 * 26, 26, gradient_accumulation_steps=2, replicas=replicas,
        packing_factor=made.packing_factor, betas=BETAS, weight_decay=0.0,
    )  # fmt: skip
    return made, code_for(histogram, recipe, "truncate")


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the code takes as given, after its first part."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    made, code = written(tmp_path)
    given = {"dataset": datasets.Dataset.from_dict({"input_ids": sequences()}), "model": a_model(), "code": code,
             "tokenizer": wordnet_tokenizer()}  # fmt: skip
    exec(code["Packs"], given)
    assert len(given["packed"]) == made.num_packs
    return given


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_code_makes_the_updates_of_each_sequence_alone(names, trainer):
    exec(names["code"][trainer], names)
    assert_same(names["model"], trained_alone())


def test_the_loop_makes_on_one_device_what_several_make_in_an_update(names, tmp_path):
    exec(written(tmp_path, 2)[1]["PyTorch loop"], names)
    assert_same(names["model"], trained_alone())


ON_RANKS = """
import sys, datasets
sys.path[:0] = {path!r}
from pathlib import Path
from test_applying import a_model, assert_same, sequences, trained_alone, written
datasets.config.HF_DATASETS_CACHE = {cache!r}
code, dataset, model = {code!r}, datasets.Dataset.from_dict({{"input_ids": sequences()}}), a_model()
exec(code["Packs"])
exec(code["accelerate"])
assert accelerator.num_processes == {ranks}
assert_same(accelerator.unwrap_model(model), trained_alone())
print("same on rank", accelerator.process_index)
"""


@pytest.mark.slow
def test_accelerate_makes_them_on_as_many_ranks_as_the_recipe_has(names, tmp_path, ranks=2):
    path = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    _, code = written(tmp_path, ranks)
    assert f"accelerate launch --num_processes {ranks} train.py" in code["accelerate"]
    Path("script.py").write_text(ON_RANKS.format(path=path, cache=str(tmp_path / "cache"), code=code, ranks=ranks))
    said = on_ranks(Path("script.py"), ranks)
    assert all(f"same on rank {rank}" in said for rank in range(ranks))


def test_the_code_says_what_the_recipe_and_the_lengths_ask_for(tmp_path):
    lengths = LengthHistogram.from_lengths([3, 9, 30], 20, "drop")
    recipe = Recipe(4, 2.5e-4, 40, packing_factor=2.0, optimizer="lamb", decay="polynomial", power=0.5)
    code = code_for(lengths, recipe, "drop")
    assert tuple(code) == ("Packs", "Model", *TRAINERS) and 'overlong="drop"' in code["Packs"]
    assert "packlib pack tokens.parquet --plan plan.json --overlong drop --out packed.parquet\n" in code["Packs"]
    for trainer in TRAINERS:
        compile(code[trainer], trainer, "exec")
        assert "import Lamb" in code[trainer] and "'power'" in code[trainer].replace('"', "'")
        assert "0.00025" in code[trainer] and "polynomial" in code[trainer]
    plain = code_for(LengthHistogram([0, 1, 1]), replace(recipe, optimizer="adamw", decay="cosine", power=1.0))
    assert "overlong" not in plain["Packs"] and not any("Lamb" in text or "power" in text for text in plain.values())
    assert json.loads(json.dumps(plain)) == plain


def test_lamb_runs_in_the_trainer(names, tmp_path):
    recipe = Recipe(4, RATE, 26, packing_factor=2.0, optimizer="lamb", decay="polynomial", power=0.5)
    code = code_for(LengthHistogram.from_lengths([9, 8], 24), recipe)
    exec(code["transformers.Trainer"], names)
    assert type(names["trainer"].optimizer.optimizer).__name__ == "Lamb" and names["trainer"].state.global_step == 4


def test_the_model_is_loaded_with_the_attention_that_is_there(names, tmp_path):
    names["model"].save_pretrained(tmp_path / "saved")
    code = code_for(LengthHistogram([0, 1, 1]), Recipe(1, 1e-3, 2), attention="flash_attention_2", recompute=True)
    given = {"folder": tmp_path / "saved"}
    exec(code["Model"], given)
    assert given["model"].config._attn_implementation == ("flash_attention_2" if torch.cuda.is_available() else "sdpa")
    assert given["model"].is_gradient_checkpointing
    both = zip(given["model"].parameters(), names["model"].parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in both)


@pytest.mark.parametrize("trainer", ["PyTorch loop", "accelerate"])
def test_the_loops_make_as_many_updates_as_the_schedule_has(names, trainer):
    recipe = Recipe(2, RATE, 3 * 26 + 5, gradient_accumulation_steps=3, packing_factor=26 / len(names["packed"]))
    code = code_for(LengthHistogram.from_lengths([9, 8], 24), recipe)
    exec(code[trainer], names)
    assert names["schedule"].get_last_lr() == [0.0] and recipe.total_steps % (len(names["packed"]) // 6) != 0


def test_on_several_ranks_the_trainer_repeats_no_pack():
    one, two = (code_for(LengthHistogram([0, 1, 1]), Recipe(1, 1e-3, 2, replicas=ranks)) for ranks in (1, 2))
    for trainer in ("transformers.Trainer", "TRL's SFTTrainer"):
        assert "drop_last" not in one[trainer] and "dataloader_drop_last=True" in two[trainer]


@pytest.mark.parametrize("overlong", ["truncate", "drop", "split"])
def test_the_plan_of_the_advice_packs_the_data_whatever_becomes_of_longer_sequences(names, tmp_path, overlong):
    advice = advise([len(one) for one in sequences()], 24, overlong=overlong, keep_max_length=True)
    advice.plan.save("plan.json")
    exec(advice.code["Packs"], names)
    assert f'overlong="{overlong}"' in advice.code["Packs"] and len(names["packed"]) == advice.plan.num_packs
    held = sum(len(row) for row in names["packed"]["input_ids"])
    assert held == advice.histogram.num_tokens
