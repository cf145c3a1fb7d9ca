"""Does packing change what a model computes for a sequence? A model and a collator are asked by calls alone.

Read first `checking.py`, `check_packing`: which questions are asked, and in which order. Each question is a function
that gets a `CheckedBatch` and yields a `Finding` (`findings.py`): what was measured, and if the question failed, a
cause and a remedy of `causes.csv`. A `CheckedBatch` (`collated_batch.py`) is the batch that the collator makes of a few
sequences (`choosing.py`), with the model's outputs for the batch and for each sequence alone. `CalledModel`
(`called_model.py`) calls the model, and `locating.py` finds the sequences in the batch by their tokens.

- Does a sequence see another? `isolation` of `model_questions.py` asks; `CheckedBatch.own_leak` finds the leak, and
  `diagnose_leak` of `causes.py` finds why.
- Are outputs the same as alone, are positions right, does padding count? `model_questions.py`.
- Which labels does the loss ask for, and which mean is it? `loss_questions.py` asks; `slot_gradients.py` reads targets
  off gradients, and `weighing.py` finds what each sequence weighs. `asked_otherwise.py`, `labels_left_out.py` and
  `further_heads.py` find causes.
- Do micro-batches add up to one update? `accumulation.py` and `next_update.py` ask; `recorded_updates.py` calls the
  trainer's step and writes down what its optimizer applies, and `order_of_batches.py` compares two orders.
- Has noise of training the same size? `training_noise.py`.
- Are long sequences, whole, what they are alone? `whole_sequences.py` asks the questions above if one is not.
- Do answers that share a prompt, or paths of a tree, see only what they should? `group_questions.py`,
  `tree_questions.py`.

`check_targets.py` loads what the command names, and `places.py` says where code failed.
"""

from typing import TYPE_CHECKING

from packlib.installed import late
from packlib.tools.check.findings import Finding, PackingCheck

if TYPE_CHECKING:
    from packlib.tools.check.checking import check_packing
else:  # it loads torch
    __getattr__, __dir__ = late(__name__, {"packlib.tools.check.checking": ["check_packing"]})

__all__ = ["Finding", "PackingCheck", "check_packing"]
