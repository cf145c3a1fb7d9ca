"""What should I do? Decisions for sequences of your lengths, each with its reason, the runner-up and its price.

Read first `advising.py`, `advise`: the order of the questions. `advice.py` is what comes out: numbers, which
`decisions.jinja` and `notes.jinja` say in sentences; `trainers.jinja` is the code that applies them. `data.py` reads
the data that it is about.
"""

from packlib.advice.advice import Advice, Decision
from packlib.advice.advising import advise
from packlib.advice.micro_batch import Update, fit_update
from packlib.advice.row_lengths import RowLength, cut
from packlib.advice.today import TODAY, Today, batches_today
