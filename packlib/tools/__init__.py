"""Tools for data, models and trainers of your own: `rows`, `check`, `auditing`, `loaders`, `advice`, and commands.

They build on the ideas in `packlib`, which import nothing from here. The commands are in `cli.py`; `torchrun.py` lets
the processes of one command meet. What people need most can be imported from `packlib` itself: `pack_dataset`,
`TransformersCollator`, `check_packing`, `check_loader`, `audit`, `advise`.
"""

from typing import TYPE_CHECKING

from packlib.installed import late

if TYPE_CHECKING:
    from packlib.tools import advice, auditing, check, loaders, rows
else:  # they load torch or Arrow
    __getattr__, __dir__ = late(
        __name__, {f"packlib.tools.{room}": [room] for room in ("rows", "check", "auditing", "loaders", "advice")}
    )

__all__ = ["advice", "auditing", "check", "loaders", "rows"]
