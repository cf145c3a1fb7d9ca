"""What packlib 0.1.0 wrote, of each kind one small file; made once, to see that later versions read or refuse it.

git worktree add /tmp/old 92fc6b3
PYTHONPATH=/tmp/old python tests/written_by_0_1_0/make.py tests/written_by_0_1_0
"""

import sys
from pathlib import Path

import numpy as np
import torch

from packlib.batches import TokenStore
from packlib.distributed import write_ordered
from packlib.lengths import LengthHistogram
from packlib.packing import assign, plan
from packlib.training import Recipe
from packlib.training.checkpoint import RunFolder

folder = Path(sys.argv[1])
lengths = [3, 5, 2, 4, 1, 2]
made = plan(LengthHistogram.from_lengths(lengths, 6, name="six"), "lpfhp")
made.to_json(folder / "plan.json")
assign(made, lengths).save(folder / "six.packs")
tokens = np.arange(sum(lengths), dtype=np.uint16)
labels = np.array([0, 1, -100, 0, 1, 0])
TokenStore(tokens, (tokens % 2).astype(np.uint8), np.cumsum([0, *lengths]), labels).save(folder / "six.tokens")
write_ordered(folder / "rows", np.arange(6).reshape(3, 2))
Recipe(2, 0.5, 10).to_json(folder / "recipe.json")
model = torch.nn.Linear(1, 1)
run = RunFolder(folder, {"model": model}, model, {"micro_batch": 2})
run.record({"update": 1, "sequences": 2})
run.save()
