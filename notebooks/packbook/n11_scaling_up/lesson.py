"""The explorer and the questions of notebook 11."""

import ipywidgets as widgets
from matplotlib.figure import Figure

from packbook.explorers import Explorer, choice
from packbook.n11_scaling_up.devices import MODELS, SPLITS, Split
from packbook.n11_scaling_up.figures import draw_bill
from packbook.questions import Questions


class DevicesExplorer(Explorer):
    """Show a device's memory and the speed of all devices, for a model and a way to divide it."""

    title = "What does a device hold, and what does the model take?"
    shown_controls = ("model", "padding")
    columns = 2

    def __init__(self, model: str = "8B") -> None:
        self.model = model
        super().__init__()

    def controls(self):
        split = SPLITS[self.model]
        return {
            "model": choice("Model", list(MODELS), self.model),
            "replicas": choice("Replicas", [1, 2, 4, 8, 16, 64, 256], split.replicas),
            "stages": choice("Stages", [1, 2, 4, 8, 16], split.stages),
            "tensor": choice("Devices a matrix", [1, 2, 4, 8], split.tensor),
            "row": choice("Slots of a row", [128, 512, 4096, 8192, 32_768], split.row),
            "micro_batch": choice("Micro-batch", [1, 2, 4, 8, 16], split.micro_batch),
            "accumulation": choice("Accumulation", [2**i for i in range(10)], split.accumulation),
            "padding": choice("Padding, %", [0, 10, 25, 50, 75], 0),
            "sharded": widgets.Checkbox(True, description="Sharded, as FSDP2"),
            "recompute": widgets.Checkbox(True, description="Recomputation"),
        }

    def react(self, name):
        if name == "model":  # each model begins with a split into which it fits
            for control in ("replicas", "stages", "tensor", "row", "micro_batch", "accumulation"):
                self.widgets[control].value = getattr(SPLITS[self.widgets["model"].value], control)

    def draw(
        self, model, replicas, stages, tensor, row, micro_batch, accumulation, padding, sharded, recompute
    ) -> tuple[Figure, str]:
        split = Split(replicas, stages, tensor, sharded, row, micro_batch, accumulation, recompute)
        return draw_bill(model, MODELS[model], split, padding / 100)


QUESTIONS = Questions.beside(__file__)
reveal, mark = QUESTIONS.reveal, QUESTIONS.mark
