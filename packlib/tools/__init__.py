"""For data, models and trainers of your own, on top of the ideas; nothing in the rooms of `packlib` imports from here.

The rooms, each building on those before it: `rows`, `check`, `auditing`, `advice`. The commands are in `cli.py`. What
people need most stands in `packlib` itself: `packlib.pack_dataset`, `check_packing`, `audit`, `advise`.
"""

from typing import TYPE_CHECKING

from packlib.installed import late

if TYPE_CHECKING:
    from packlib.tools import advice, auditing, check, rows
else:  # they load torch or Arrow
    __getattr__, __dir__ = late(
        __name__, {f"packlib.tools.{room}": [room] for room in ("rows", "check", "auditing", "advice")}
    )

__all__ = ["advice", "auditing", "check", "rows"]
