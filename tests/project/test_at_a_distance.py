"""Nothing at a distance: imports, packed models and figures leave what belongs to others alone."""

import json
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from model_cases import bert_config, make_batch, make_model
from transformers import AttentionInterface, AttentionMaskInterface, BertForMaskedLM

from packlib.model import PackedBert, for_transformers
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
