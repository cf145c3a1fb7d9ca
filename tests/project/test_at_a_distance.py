"""Nothing at a distance: an import leaves other libraries alone, and whoever looks at an object changes nothing."""

import copy
import inspect
import json
import subprocess
import sys
from pathlib import Path

import datasets
import matplotlib
import numpy as np
import pyarrow as pa
import pytest
import torch
from matplotlib.figure import Figure
from model_cases import bert_config, gpt_config, make_batch, make_model, store
from training_cases import loader
from transformers import AttentionInterface, AttentionMaskInterface, BertForMaskedLM, GPT2LMHeadModel

from packlib.advice import advise
from packlib.batches import pack_lengths
from packlib.lengths import LengthHistogram, load
from packlib.model import PackedBert, for_transformers
from packlib.packing import StreamPacker, plan
from packlib.rows import PackedStream, TransformersCollator
from packlib.rows.stored_columns import Column
from packlib.training import UpdateStream
from packlib.work import Work
from packlib.workbook.figures import label_ends, new_figure, svg

ROOT = Path(__file__).parents[2]


def test_importing_packlib_changes_no_other_library_and_nothing_of_the_process():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.imported"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


def tables():
    return [dict(table._global_mapping) for table in (AttentionInterface, AttentionMaskInterface)]


@pytest.mark.parametrize("own, backend", [("sdpa", "eager"), ("eager", "sdpa"), ("sdpa", "flex")])
def test_a_packed_model_changes_no_other_model(own, backend):
    """Also none of the same configuration; transformers learns only names that begin with packlib_."""
    before, config, batch = tables(), bert_config(attn_implementation=own), make_batch()
    plain, packed = BertForMaskedLM(config), PackedBert(config, backend=backend)
    given = for_transformers(batch, plain, "dense")
    with torch.no_grad():
        assert packed(**batch).hidden.isfinite().all() and plain(**given).logits.isfinite().all()
    assert plain.config is config and config._attn_implementation == own
    for table, old in zip(tables(), before, strict=True):
        assert {name for name in table if table[name] is not old.get(name)} <= {
            name for name in table if name.startswith("packlib_")
        }


def stream():
    rows = [{"input_ids": list(range(1, 2 + i % 5))} for i in range(40)]
    return PackedStream(datasets.Dataset.from_list(rows).to_iterable_dataset(), max_length=8, window=4)


def packer():
    made = StreamPacker(12, 3)
    for length in (5, 3, 9, 2, 7):
        made.add(length)
    return made


def column(folder):
    made = Column(pa.int32(), True, folder)
    made.add(pa.array([1, 2, 3], pa.int32()))
    return made


def added(made):
    made.add(pa.array([4, 5], pa.int32()))
    return made.take(np.array([0, 3]), np.array([2, 5])).to_pylist()


def updates():
    made = UpdateStream(loader(4), 2)
    next(made)
    return made


def schedule():
    packs = pack_lengths(store().lengths, 128)
    return packs.balance(2, work=Work.bert(2, 64))


def loss(model):
    model.train()
    torch.manual_seed(0)
    return model(**make_batch()).loss.item()


LENGTHS = store().lengths
# by name: what makes it, and what it then does
MADE = {
    "histogram": (lambda _: load("wikipedia"), lambda it: plan(it, method="lpfhp").num_packs),
    "plan": (
        lambda _: plan(load("squad"), method="lpfhp", max_sequences_per_pack=3),
        lambda it: (it.lower_bound, it.to_json()),
    ),
    "schedule": (lambda _: schedule(), lambda it: (list(map(list, it)), it.waiting, it.lower_bound)),
    "stream packer": (lambda _: packer(), lambda it: (it.add(6), it.flush())),
    "packed stream": (lambda _: stream(), list),
    "column": (column, added),
    "store": (lambda _: store(), lambda it: it.with_tokens(it.input_ids, it.input_ids).take([2, 0]).labels),
    "batch": (lambda _: make_batch(), lambda it: dict(it.to("cpu"))),
    "loader": (lambda _: loader(4), lambda it: [dict(batch) for batch in it]),
    "updates": (lambda _: updates(), lambda it: [dict(batch) for batch in next(it)]),
    "advice": (
        lambda _: advise(LengthHistogram.from_lengths(LENGTHS, 128)),
        lambda it: (it.decisions, it.notes, it.code, it.plan.num_packs),
    ),
    "model": (lambda _: make_model("bert"), loss),
    "transformers collator": (
        lambda _: TransformersCollator(GPT2LMHeadModel(gpt_config()), "dense"),
        lambda it: it([{"input_ids": [5, 6, 7], "seq_lengths": [2, 1]}]),
    ),
}


def look(thing):
    """What debuggers, notebooks and libraries do with an object that they do not know."""
    assert inspect.getmembers(thing)
    assert dir(thing) and repr(thing) and str(thing)
    for name in ("accepts_loss_kwargs", "_repr_html_", "__len__", "__array__", "shape", "nowhere"):
        hasattr(thing, name)
    assert thing == thing and thing is not None
    copy.copy(thing)


def plainly(value):
    """What compares by value, whatever arrays and tensors are in it."""
    if isinstance(value, np.ndarray | torch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {name: plainly(part) for name, part in value.items()}
    return [plainly(part) for part in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("name", MADE)
def test_looking_at_an_object_changes_nothing(name, tmp_path):
    make, use = MADE[name]
    alone, seen = make(tmp_path), make(tmp_path)
    fields = dict(vars(seen))
    look(seen)
    assert {field: id(value) for field, value in vars(seen).items() if field in fields} == {
        field: id(value) for field, value in fields.items()
    }
    look(copy.copy(seen))
    assert plainly(use(seen)) == plainly(use(alone))


def drawing():
    """A line, bars, a picture, words, a legend and a title: each takes something from matplotlib's settings."""
    fig, (left, right) = new_figure(1, 2)
    line = left.plot([1, 2, 3], [1, 10, 100], marker="o", label="a line")[0]
    left.set(xlabel="steps", yscale="log", title="A title")
    left.legend(loc="upper left")
    left.grid(axis="y")
    label_ends({line: "the end"})
    right.imshow(np.eye(3))
    right.set_xticks([0, 2], ["first", "last"])
    right.text(1, 1, "words")
    right.axhline(0.5)
    fig.colorbar(right.images[0])
    fig.suptitle("All of it", x=0.02, ha="left")
    return svg(fig, "alt")


def test_a_figure_has_the_style_of_the_workbook_whatever_matplotlib_is_set_to_and_no_other_figure_has():
    def own():
        return Figure().get_figwidth(), dict(matplotlib.rcParams)

    other = {"font.size": 30, "lines.linewidth": 9, "legend.frameon": True, "image.cmap": "gray", "svg.hashsalt": "x"}
    other |= {"figure.figsize": (3, 3), "axes.titlelocation": "center", "xtick.labelsize": 3, "axes.spines.top": True}
    before, expected = own(), drawing()
    assert own() == before and before[0] != 8
    with matplotlib.rc_context(other):
        assert drawing() == expected
        assert matplotlib.rcParams["font.size"] == 30


def test_a_packed_model_that_was_pickled_works_where_none_was_made(tmp_path):
    model, batch = make_model("bert"), make_batch()
    torch.save((model.eval(), batch, model(**batch).loss.item()), tmp_path / "model.pt")
    code = (
        "import sys, torch; model, batch, loss = torch.load(sys.argv[1], weights_only=False); "
        "assert model(**batch).loss.item() == loss"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "model.pt"], check=True)
