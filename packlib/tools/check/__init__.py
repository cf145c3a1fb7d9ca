"""Is it exact? A model and a collator, asked by calls alone whether a pack changes what a sequence gets.

Read first `checking.py`, `check_packing`: which questions are asked, and in which order. `model_questions.py`,
`loss_questions.py`, `accumulation.py` and `next_update.py` ask them, of a `CheckedBatch` (`collated_batch.py`): the
batch that the collator makes, what the `CalledModel` gives for it and for each sequence alone, and what moves what.
`causes.py` finds why one sequence sees another; `training_noise.py` asks about noise of training; `weighing.py` finds
what each weighs in the loss; `findings.py` says what was found. `recorded_updates.py` calls a trainer's step and
writes down what its optimizer applies. `whole_sequences.py` compares all of them whole; `places.py` says where code
failed. `check_targets.py` loads what the command names, `group_questions.py` asks where answers share prompts, and
`tree_questions.py` where sequences share what they begin with at any depth.
"""

from typing import TYPE_CHECKING

from packlib.installed import late
from packlib.tools.check.findings import Finding, PackingCheck

if TYPE_CHECKING:
    from packlib.tools.check.checking import check_packing
else:  # it loads torch
    __getattr__, __dir__ = late(__name__, {"packlib.tools.check.checking": ["check_packing"]})

__all__ = ["Finding", "PackingCheck", "check_packing"]
