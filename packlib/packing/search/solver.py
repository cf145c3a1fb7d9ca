"""HiGHS, as this search uses it: it prints nothing, and ends when its caller says so.

HiGHS has a time limit of its own, which is by the clock on the wall. Here it asks the search instead, so that one clock
ends all of a search: that of its deadline.
"""

from collections.abc import Callable
from typing import Any


def silent_highs() -> Any:
    """Make a solver (`highspy.Highs`) of one thread that prints nothing, not even its name.

    HiGHS 1.16 and later print their name in their constructor, when that calls `enableCallbacks`.
    """
    import highspy  # here, since it takes a while to import

    class Silent(highspy.Highs):
        def enableCallbacks(self) -> None:
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    highs = Silent()
    highs.setOptionValue("threads", 1)
    return highs


def run(highs: Any, is_over: Callable[[], bool]) -> str:
    """Solve a program, and return HiGHS' name for how that ended: "Interrupted by user" where `is_over` returned True.

    HiGHS asks `is_over` at each iteration of a linear program, and several times at each node of an integer program. An
    interrupt (Ctrl-C) that comes meanwhile is raised at once. The solver must not be used again then: HiGHS broke off
    in the middle of a solution, and would still ask the `is_over` of this call.
    """

    def ask(event: Any) -> None:
        event.interrupt(is_over())  # also if False: otherwise a True of an earlier run would end this one

    callbacks = highs.cbSimplexInterrupt, highs.cbIpmInterrupt, highs.cbMipInterrupt
    for callback in callbacks:
        callback.subscribe(ask)
    highs.run()
    for callback in callbacks:
        callback.unsubscribe(ask)
    return highs.modelStatusToString(highs.getModelStatus())
