"""Does packing change what a model computes for a sequence? A model and a collator are asked by calls alone.

Read first `checking.py`, `check_packing`: which questions are asked, and in which order. Each question is a function
that gets a `CheckedBatch` and yields a `Finding`: what was measured, and if the question failed, a cause and a remedy.

What happens when a model leaks, in the order in which a check goes through the files:

1. `checking.py`: `check_packing` chooses a few sequences, and `_ask` asks all questions of their batch. Before the
   first question it calls `own_leak` (2), and if there is a leak, `diagnose_leak` (3).
2. `collated_batch.py`: a `CheckedBatch` calls the collator and the model. `own_moves` exchanges the tokens of one
   sequence after another and compares outputs; `own_slopes` takes gradients. `own_leak` returns the strongest `Leak` by
   gradients, or else by exchanged tokens; None if neither is more than rounding or noise.
3. `causes.py`: `diagnose_leak` finds where sequences meet (`innermost_leak` of `called_model.py`: the innermost part of
   the model whose outputs depend on another sequence), and rules out simple causes. Then it cuts attention and
   convolutions at the borders of sequences. The cut that stops the leak says which of them is at fault; if none does,
   a state is, or something counted over the batch. For attention, the batch is also put right in one way after
   another: the first that stops the leak names the cause, unless the pairs of slots that see each other say more.
4. `model_questions.py`: `isolation` makes the `Finding` of leak and cause; their sentences are in `causes.csv`.

For example, a Llama with `use_cache=False` gets `position_ids` that restart, but also a 2D `attention_mask` of ones, so
each sequence of a row sees the ones before it. `own_slopes` has gradients of sequence 1's outputs on the slots of
sequence 0, and `own_leak` returns a leak such as `Leak(strength=0.17, by="gradient", looking=1, seen=0)`.
`innermost_leak` names `model.layers.0.self_attn`. With attention cut nothing leaks, so attention is at fault. Without
its mask the batch does not leak either. So the mask is the cause, and `diagnose_leak` returns `Diagnosis(["ones"],
"model.layers.0.self_attn", …)`. `isolation` yields `Finding("isolation from earlier sequences", "failed", …)` with what
`causes.csv` says of "ones".

Read `own_leak` and `diagnose_leak`: the rest does what its functions say, and need not be opened for that.
`choosing.py` chooses the few sequences, `locating.py` finds by its tokens where each sequence is in the batch, and
`called_model.py` calls the model and records its outputs, its loss, and on which slots they depend (`gradients`).

The other questions:

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

`findings.py` has `Finding` and the report of all, `check_targets.py` loads what the command names, and `places.py` says
in which line of whose code an error was raised.
"""

from typing import TYPE_CHECKING

from packlib.installed import late
from packlib.tools.check.findings import Finding, PackingCheck

if TYPE_CHECKING:
    from packlib.tools.check.checking import check_packing
else:  # it loads torch
    __getattr__, __dir__ = late(__name__, {"packlib.tools.check.checking": ["check_packing"]})

__all__ = ["Finding", "PackingCheck", "check_packing"]
