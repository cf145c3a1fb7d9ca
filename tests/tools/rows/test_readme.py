"""The examples of packlib/tools/rows/README.md run as they stand, on a tiny model, and train on what they should."""

import re
from pathlib import Path

import pytest
import torch
from alone_cases import a_model, assert_same, assert_same_on_ranks, loss_alone, sequences, stepped
from datasets import Dataset
from torch.utils.data import DataLoader

from packlib import TransformersCollator
from packlib.batches import wordnet_tokenizer

PAGE = (Path(__file__).resolve().parents[3] / "packlib" / "tools" / "rows" / "README.md").read_text(encoding="utf-8")
EXAMPLES = dict(zip(
    ("pack", "stream", "two_budgets", "loop", "trainer", "trl", "fit", "masked_loss", "mean_loss", "accelerate",
     "gathered", "trees"),
    re.findall(r"```python\n(.*?)```", PAGE, re.S), strict=True,
))  # fmt: skip
# Without what trainers add: momentum, a schedule, clipping, another precision; and all 4 rows in one update
PLAIN = (
    "use_cpu=True, per_device_train_batch_size=4, max_steps=1, optim='sgd', max_grad_norm=0.0, report_to=[], "
    "disable_tqdm=True, lr_scheduler_type='constant', save_strategy='no', learning_rate=0.5"
)


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
    assert len(given["packed"]) == 4
    return given | {"TransformersCollator": TransformersCollator, "DataLoader": DataLoader}


def test_the_stream_goes_on(names):
    exec(EXAMPLES["stream"], names)
    assert [names["first"], names["second"]] == list(names["stream"])[:2]


def test_two_budgets_are_kept(names):
    exec(EXAMPLES["two_budgets"], names)
    assert all(sum(row["seq_lengths"]) <= 8 and sum(row["patches"]) <= 6 for row in names["rows"])


def test_the_loop_trains_on_each_sequence_alone(names):
    torch.manual_seed(1)
    exec(EXAMPLES["loop"], names)
    torch.manual_seed(1)  # the same order again
    batches = [names["packed"][index] for index in DataLoader(range(4), batch_size=2, shuffle=True)]
    updates = [
        [part.tolist() for row in zip(batch["input_ids"], batch["seq_lengths"], strict=True)
         for part in torch.tensor(row[0]).split(row[1])]
        for batch in batches
    ]  # fmt: skip
    assert_same(names["model"], stepped(updates, rate=0.1))


def test_sequences_that_share_a_prompt_get_what_each_gets_alone(names):
    pairs = [(at, answer) for at, own in enumerate([sequences(2), sequences(4)[2:], sequences(3)]) for answer in own]
    prompts, groups = sequences(3), [at for at, _ in pairs]
    shared = [prompts[at] + answer for at, answer in pairs]
    labels = [[-100] * len(prompts[at]) + answer for at, answer in pairs]
    model = a_model()
    exec(EXAMPLES["trees"], given := {"model": model, "sequences": shared, "groups": groups, "labels": labels})
    batch, found = given["batch"], given["log_probabilities"]
    assert given["rows"].tokens < given["rows"].unshared_tokens
    for number, sum_of_logs in zip(batch.sequences, found.tolist(), strict=True):
        ids = torch.tensor([shared[number]])
        scores = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])
        assert abs(scores[len(prompts[groups[number]]) - 1 :].sum().item() - sum_of_logs) < 1e-4


def test_fit_trains_on_the_same_rows_and_evaluates_them(names):
    exec(EXAMPLES["fit"], names)
    assert names["records"][-1]["sequences"] == len(sequences()) and names["records"][-1]["loss"] > 0
    with torch.no_grad():
        assert names["means"]["token_loss"] == pytest.approx(float(loss_alone(names["model"], sequences())), abs=1e-5)


@pytest.mark.parametrize("trainer", ["trainer", "trl"])
def test_the_first_update_of_a_trainer_is_the_mean_over_each_sequence_alone(names, trainer):
    own = ", use_cache=False, bf16=False" if trainer == "trl" else ""
    told = r"per_device_train_batch_size=2, learning_rate=0\.01(, use_cpu=True)?"
    example, found = re.subn(told, PLAIN + own, EXAMPLES[trainer])
    assert found == 1
    exec(example, names)
    assert_same(names["model"], stepped([sequences()]))
    if trainer == "trl":
        logged = names["trainer"].state.log_history
        assert [entry["num_tokens"] for entry in logged if "num_tokens" in entry][-1] == sum(map(len, sequences()))


ON_RANKS = """
import torch.distributed as dist
from packlib import TransformersCollator, pack_dataset
from torch.utils.data import DataLoader
from test_readme import EXAMPLES
packed, optimizer = pack_dataset(dataset, max_length=64), torch.optim.SGD(model.parameters(), lr=0.5)
each = [[part.tolist() for part in torch.tensor(row["input_ids"]).split(row["seq_lengths"])] for row in packed]
taken = []

class Counted(TransformersCollator):
    def __call__(self, rows):
        taken.append([row["input_ids"] for row in rows])
        return super().__call__(rows)

exec(EXAMPLES["accelerate"].replace("TransformersCollator", "Counted"))
assert accelerator.num_processes == 2 and len(loader) == 1 and len(packed) == 7
every = [None, None]
dist.all_gather_object(every, taken[0])
held = [number for rows in every for ids in rows for number, row in enumerate(packed) if row["input_ids"] == ids]
assert len(set(held)) == 4  # one of the batches is left out, and nothing is taken twice
assert_same(model.module, stepped([[ids for number in held for ids in each[number]]]))

exec(EXAMPLES["mean_loss"].partition("def mean_loss")[0])
exec(EXAMPLES["gathered"])
with torch.no_grad():
    exact = loss_alone(model.module, [ids for row in each for ids in row])
assert count == sum(len(ids) - 1 for row in each for ids in row) and abs(mean - exact) < 1e-5
"""


def test_accelerate_on_two_ranks_makes_the_update_of_one_and_the_mean_of_all(tmp_path):
    assert_same_on_ranks(tmp_path, ON_RANKS, count=24)


MASKED_ON_RANKS = """
from accelerate import Accelerator
from packlib import TransformersCollator
from torch.utils.data import DataLoader
from test_readme import EXAMPLES
from test_trainers import a_model, apart, rows
from pathlib import Path
packed, changes = rows("masked", Path(datasets.config.HF_DATASETS_CACHE)).select(range(4)), []
for size in (4, 2):
    model = a_model("masked")
    optimizer, before = torch.optim.SGD(model.parameters(), lr=1.0), a_model("masked")
    exec(EXAMPLES["masked_loss"].partition("trainer =")[0])
    if size == 4:
        batch = TransformersCollator(model)(list(packed))
        masked_loss(model(**batch), batch["labels"]).backward()
        optimizer.step()
    else:
        ours = EXAMPLES["accelerate"].replace(
            "model(**batch, num_items_in_batch=targets).loss", 'masked_loss(model(**batch), batch["labels"], targets)')
        exec(ours)
        model = accelerator.unwrap_model(model)
    changes.append({name: (p - before.get_parameter(name)).detach().numpy() for name, p in model.named_parameters()})
assert apart(*changes) < 1e-10
"""


def test_accelerate_on_two_ranks_makes_the_update_of_one_for_a_masked_model_too(tmp_path):
    assert_same_on_ranks(tmp_path, MASKED_ON_RANKS)
