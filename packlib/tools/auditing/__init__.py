"""What does it cost, and what was lost? Packed data that others made, counted.

Read first `auditing.py`, `audit`: what is counted. An audit goes through the files in this order:

1. `packed_files.py`: `open_packed` opens the packs, whatever the format. `tables.py` reads files in batches, and
   `names.py` knows what programs call their columns.
2. `columns.py`: `read_rows` finds the sequences of some rows, padding and labels, and whether columns agree.
3. `audited_source.py`: `OpenSource` reads what was packed, cut as the caller meant it.
4. `source_comparison.py`: `compare` says what became of the sequences, and `label_comparison.py` what became of their
   labels. Both sides are kept as `Contents` (`contents.py`): a number that stands for the tokens of each sequence
   (`hashing.py`), and a bit for each token. `multisets.py` pairs equal numbers.
5. `packing_audit.py`: `PackingAudit` is the result.

If no column tells where sequences begin, `bare_rows.py` looks for those of the source in the rows. If labels are the
next tokens, `last_labels.py` gives sequences the last token that only a label has. `second_budget.py` and
`audit_waits.py` answer two more questions, of packs with a second budget and of ranks that wait.

(A folder that is named `audit` would hide the function `packlib.audit`.)
"""

from packlib.tools.auditing.auditing import audit
from packlib.tools.auditing.packing_audit import PackingAudit

__all__ = ["PackingAudit", "audit"]
