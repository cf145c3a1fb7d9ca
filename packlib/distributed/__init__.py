"""Many ranks: starting them from a notebook or with torchrun, agreeing on errors, packing across them.

What needs torch is loaded where it is first used.
"""

from importlib import import_module

_HOME = {
    "RankError": "agreement",
    "agree_on_errors": "agreement",
    "group_device": "agreement",
    "run_ranks": "ranks",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
