"""What should I do? Decisions for sequences of your lengths, each with its reason, the runner-up and its price.

Read first `advising.py`, `advise`: the order of the questions. `advice.py` is what comes out: numbers, which
`sentences.py` says in words, for the shell and the page alike; `trainers.jinja` is the code that applies them.
`data.py` reads the data that it is about, and `labels.py` counts which tokens of it are trained on.
"""

from packlib.tools.advice.advice import Advice
from packlib.tools.advice.advising import advise
from packlib.tools.advice.labels import Labels
from packlib.tools.advice.micro_batch import Batch, Update, fit_update
from packlib.tools.advice.row_lengths import RowLength, cut
from packlib.tools.advice.sentences import Decision
from packlib.tools.advice.today import TODAY, Today, batches_today

__all__ = [
    "TODAY",
    "Advice",
    "Batch",
    "Decision",
    "Labels",
    "RowLength",
    "Today",
    "Update",
    "advise",
    "batches_today",
    "cut",
    "fit_update",
]
