"""What should I do? Decisions for sequences of your lengths, each with its reason, the runner-up and its price.

Read first `advising.py`, `advise`: the order of the questions. `advice.py` is what comes out: numbers, which
`decisions.jinja` and `notes.jinja` say in sentences; `trainers.jinja` is the code that applies them. `data.py` reads
the data that it is about.
"""

from packlib.tools.advice.advice import Advice, Decision
from packlib.tools.advice.advising import advise
from packlib.tools.advice.micro_batch import Update, fit_update
from packlib.tools.advice.row_lengths import RowLength, cut
from packlib.tools.advice.today import TODAY, Today, batches_today

__all__ = [
    "TODAY",
    "Advice",
    "Decision",
    "RowLength",
    "Today",
    "Update",
    "advise",
    "batches_today",
    "cut",
    "fit_update",
]
