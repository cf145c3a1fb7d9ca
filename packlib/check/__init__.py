"""Is it exact? A model and a collator, asked as a black box whether a pack changes what a sequence gets.

Read first `checking.py`, `check_packing`: which questions are asked, and in which order. `model_questions.py` and
`loss_questions.py` ask them of a `case.py`, and `findings.py` says what was found. `collated.py` compares each sequence
with itself alone; `causes.py` looks for the reason of a leak.
"""

from packlib.check.checking import check_packing
from packlib.check.findings import Finding, PackingCheck
