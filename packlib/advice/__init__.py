"""What should I do? Advice for a histogram of lengths: what was tried, what was found, what to change.

Read first `advising.py`, `advise`: the order of the questions. `advice.py` is what comes out.
"""

from packlib.advice.advice import Advice, Overhead
from packlib.advice.advising import advise, lengths_for
from packlib.advice.memory import about_memory
from packlib.advice.records import Recorded, recorded
from packlib.advice.risks import Risk, many
