"""The examples of packlib/rows/README.md run as they stand, on a tiny model, and train on what they should."""

import re
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from processes import on_ranks
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

from packlib.batches import wordnet_tokenizer
from packlib.rows import TransformersCollator

PAGE = (Path(__file__).resolve().parents[2] / "packlib" / "rows" / "README.md").read_text(encoding="utf-8")
EXAMPLES = dict(zip(
    ("pack", "stream", "loop", "trainer", "trl", "fit", "masked_loss", "mean_loss", "accelerate", "groups"),
    re.findall(r"```python\n(.*?)```", PAGE, re.S), strict=True,
))  # fmt: skip


def a_model():
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(wordnet_tokenizer()), max_position_embeddings=64, **small))


def sequences(count=13):
    rng = np.random.default_rng(0)
    return [rng.integers(5, 100, n).tolist() for n in rng.integers(5, 30, count)]


def loss_alone(model, ids):
    """The mean over all targets, each sequence by itself."""
    losses = [model(input_ids=torch.tensor([one]), labels=torch.tensor([one])).loss * (len(one) - 1) for one in ids]
    return sum(losses) / sum(len(one) - 1 for one in ids)


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the page takes as given; the rows are 4, so two batches."""
    monkeypatch.chdir(tmp_path)
    model = a_model()
    given = {
        "dataset": Dataset.from_dict({"input_ids": sequences()}), "model": model, "tokenizer": wordnet_tokenizer(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }  # fmt: skip
    exec(EXAMPLES["pack"], given)
    return given | {"TransformersCollator": TransformersCollator, "DataLoader": DataLoader}


def test_packs_have_the_columns_that_the_page_names(names):
    packed = names["packed"]
    assert set(packed.column_names) == {"input_ids", "labels", "position_ids", "seq_lengths"}
    assert sorted(chain(*packed["seq_lengths"])) == sorted(map(len, sequences())) and len(packed) == 4


def test_the_stream_goes_on(names):
    exec(EXAMPLES["stream"], names)
    rows = list(names["stream"])
    assert [names["first"], names["second"]] == rows[:2]


def test_the_loop_trains_on_each_sequence_alone(names):
    torch.manual_seed(1)
    exec(EXAMPLES["loop"], names)
    reference = a_model()
    steps = torch.optim.SGD(reference.parameters(), lr=0.1)
    torch.manual_seed(1)  # the same order again
    for index in DataLoader(range(4), batch_size=2, shuffle=True):
        rows = [names["packed"][int(i)] for i in index]
        loss_alone(reference, [part for row in rows for part in parts(row)]).backward()
        steps.step()
        steps.zero_grad()
    assert_same(names["model"], reference)


def test_answers_that_share_a_prompt_get_what_each_gets_alone(names):
    prompts, answers = sequences(3), [sequences(2), sequences(4)[2:], sequences(3)]
    model = a_model()
    exec(EXAMPLES["groups"], given := {"model": model, "prompts": prompts, "answers": answers})
    batch, found = given["batch"], given["log_probabilities"]
    for group, number, sum_of_logs in zip(batch.groups, batch.answers, found.tolist(), strict=True):
        ids = torch.tensor([prompts[group] + answers[group][number]])
        scores = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])
        assert abs(scores[len(prompts[group]) - 1 :].sum().item() - sum_of_logs) < 1e-4


def test_fit_trains_on_the_same_rows_and_evaluates_them(names):
    exec(EXAMPLES["fit"], names)
    assert names["records"][-1]["sequences"] == len(sequences()) and names["records"][-1]["loss"] > 0
    with torch.no_grad():
        assert names["means"]["token_loss"] == pytest.approx(float(loss_alone(names["model"], sequences())), abs=1e-5)


def parts(row):
    return [part.tolist() for part in torch.tensor(row["input_ids"]).split(row["seq_lengths"])]


def assert_same(model, reference):
    for name, parameter in reference.named_parameters():
        assert (model.get_parameter(name) - parameter).abs().max() < 1e-5, name


@pytest.mark.parametrize("trainer", ["trainer", "trl"])
def test_the_first_update_of_a_trainer_is_the_mean_over_each_sequence_alone(names, trainer):
    """All 4 rows in one update, without what trainers add: momentum, a schedule, clipping, another precision."""
    example = EXAMPLES[trainer].replace("per_device_train_batch_size=2", "per_device_train_batch_size=4, max_steps=1, "
        "optim='sgd', max_grad_norm=0.0, lr_scheduler_type='constant', report_to=[], disable_tqdm=True, "
        "save_strategy='no', use_cache=False, bf16=False").replace("0.01", "0.5")  # fmt: skip
    example = example.replace(", use_cache=False", "") if trainer == "trainer" else example
    exec(example if "use_cpu" in example else example.replace("0.5)", "0.5, use_cpu=True)"), names)
    reference = a_model()
    steps = torch.optim.SGD(reference.parameters(), lr=0.5)
    loss_alone(reference, sequences()).backward()
    steps.step()
    assert_same(names["model"], reference)
    if trainer == "trl":
        logged = names["trainer"].state.log_history
        assert [entry["num_tokens"] for entry in logged if "num_tokens" in entry][-1] == sum(map(len, sequences()))


ON_RANKS = """
import sys, torch, datasets
sys.path[:0] = {path!r}
from test_readme import EXAMPLES, a_model, assert_same, loss_alone, sequences
datasets.config.HF_DATASETS_CACHE = {cache!r}
dataset = datasets.Dataset.from_dict({{"input_ids": sequences()}})
from packlib import pack_dataset
from packlib.rows import TransformersCollator
from torch.utils.data import DataLoader
packed, model = pack_dataset(dataset, max_length=64), a_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
exec(EXAMPLES["accelerate"])
assert accelerator.num_processes == 2 and len(loader) == 1, (accelerator.num_processes, len(loader))
reference = a_model()
steps = torch.optim.SGD(reference.parameters(), lr=0.5)
loss_alone(reference, sequences()).backward()
steps.step()
assert_same(model.module, reference)
print("same on rank", accelerator.process_index)
"""


def test_accelerate_on_two_ranks_makes_the_update_of_one(names, tmp_path):
    path = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    Path("script.py").write_text(ON_RANKS.format(path=path, cache=str(tmp_path / "cache")))
    said = on_ranks(Path("script.py"))
    assert "same on rank 0" in said and "same on rank 1" in said
