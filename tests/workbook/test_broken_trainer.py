"""The trainer of notebook 06 has the four faults that its exercise asks for, and no other."""

from pathlib import Path

import nbformat
import torch
from torch.nn.functional import cross_entropy

from packlib.workbook.chapters.n06_unpacking_losses import lab

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "06_unpacking_losses.ipynb"


def trainer():
    """The functions of the trainer, as the notebook defines them."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    names = {"torch": torch, "cross_entropy": cross_entropy, "lab": lab}
    for cell in cells:
        if cell.source.startswith(("def collate(", "def loss(")):
            exec(cell.source, names)
    return [names[part] for part in ("collate", "loss", "step")]


def test_the_check_finds_the_four_faults_and_no_other():
    collate, loss, step = trainer()
    checked = lab.confirm(lab.FAULTS, lab.model(), collate, lab.texts(), loss, step)
    failed = {finding.question for finding in checked.findings if finding.verdict == "failed"}
    assert failed - {"same as alone"} == {"isolation from earlier sequences", "positions", "mean", "accumulation"}
    assert {question.split()[0] for question in failed - {"same as alone"}} == set(lab.FAULTS)
    weighed = checked["accumulation"].evidence
    assert "Micro-batches hold 6 and 2 sequences" in weighed and "right is 0.75 and 0.25" in weighed


def test_nothing_is_told_before_the_faults_are_named():
    for named in (..., "isolation", lab.FAULTS[:3], [*lab.FAULTS, "padding"]):
        assert lab.confirm(named, None, None, [], None, None).startswith("Name the four faults first")


def test_the_faults_are_named_as_people_write_them():
    assert lab.not_the_four("Isolation, positions, mean, ACCUMULATION") is None
    assert lab.not_the_four([*lab.FAULTS, "padding"]) == "4 of the four faults, beside 1 other name."
    assert lab.not_the_four("mask").startswith("mask: not among tokens, isolation,")
