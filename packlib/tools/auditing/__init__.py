"""What does it cost, and what was lost? Packed data that others made, counted.

Read first `auditing.py`, `audit`: what is counted. `packed_files.py` reads the formats of others, and `columns.py` says
where their sequences begin. `source_comparison.py` says what became of the sequences, and `label_comparison.py` what
became of their labels. (A folder that is named `audit` would hide the function
`packlib.audit`.)
"""

from packlib.tools.auditing.auditing import audit
from packlib.tools.auditing.packing_audit import PackingAudit

__all__ = ["PackingAudit", "audit"]
