"""Who saw what? Any loader, asked by calls alone what becomes of each sequence.

Read first `checking.py`, `check_loader`: which questions are asked, and of which runs. `passes.py` calls the loader as
a training run does, `batch_sequences.py` takes its batches apart into sequences, and `questions.py` compares what was
handed out. `loader_check.py` says what was found, `loader_targets.py` loads what the command names.
"""

from typing import TYPE_CHECKING

from packlib.installed import late
from packlib.tools.loaders.loader_check import LoaderCheck

if TYPE_CHECKING:
    from packlib.tools.loaders.checking import check_loader
else:  # it loads Arrow
    __getattr__, __dir__ = late(__name__, {"packlib.tools.loaders.checking": ["check_loader"]})

__all__ = ["LoaderCheck", "check_loader"]
