"""What should I do? Decisions for sequences of your lengths, each with its reason, the runner-up and its price.

Read first `advising.py`, `advise`: the order of the questions. `findings.py` has the numbers that come out, and
`sentences.py` says them in words, for the shell and the page alike. `advice.py` joins both with the code of
`trainers.jinja`, which applies them. `data.py` reads the data, and `labels.py` counts which tokens are trained on.
"""

from packlib.tools.advice.advice import Advice
from packlib.tools.advice.advising import advise
from packlib.tools.advice.labels import Labels
from packlib.tools.advice.micro_batch import Batch, PackedUpdate
from packlib.tools.advice.row_lengths import RowLength
from packlib.tools.advice.sentences import Decision
from packlib.tools.advice.today import Today

__all__ = [
    "Advice",
    "Batch",
    "Decision",
    "Labels",
    "PackedUpdate",
    "RowLength",
    "Today",
    "advise",
]
