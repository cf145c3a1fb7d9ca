"""Two plans that packlib 0.1.0 wrote; made once, to see that later versions read them.

git worktree add /tmp/old 92fc6b3
PYTHONPATH=/tmp/old python tests/written_by_0_1_0/make_plans.py tests/written_by_0_1_0
"""

import sys
from pathlib import Path

from packlib.lengths import LengthHistogram
from packlib.packing import plan

folder = Path(sys.argv[1])
nine = LengthHistogram.from_lengths([3, 5, 2, 4, 1, 2, 1, 1, 1], 6, name="nine")
plan(nine, "lpfhp", 2).to_json(folder / "plan_lpfhp.json")  # states 4 packs for bound; no 2 a pack fit into 4
plan(nine, "optimal", 2).to_json(folder / "plan_optimal.json")  # with duals
