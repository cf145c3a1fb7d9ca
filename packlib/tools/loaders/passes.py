"""Call a loader as a training run does: its epochs in order, saved states, and a time limit for each batch."""

import inspect
import multiprocessing
import os
import pickle
import random
import signal
import sysconfig
import threading
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from packlib.arguments import one_line, shown
from packlib.tools.loaders.batch_sequences import BatchReader
from packlib.tools.loaders.sequence_names import SequenceNames

STEPS = "steps"  # what make says where its state is the number of steps
_SEED = 1234  # of all generators when a run begins, as after set_seed
_LOOKED_AT = 8  # batches in which the token of padding is looked for
_NOTHING = object()
_INSTALLED = ("<", str(Path(__file__).parents[2]), *(sysconfig.get_path(name) for name in ("stdlib", "purelib")))


class LoaderHungError(TimeoutError):
    """No batch came within the time limit."""


class LoaderRaisedError(ValueError):
    """The loader, or the function that makes it, raised an error."""


class OnePass(NamedTuple):
    """The batches that one rank was handed out in one epoch.

    Attributes:
        steps: the numbers of the sequences in each batch.
        labels: the numbers of the labels of these sequences, below 0 where there are none to compare.
        ended: whether the loader came to its end, and was not left at the limit of steps.
        states: the saved state after so many steps.
        unsaved: why no state could be saved; empty if one could, or none was asked for.
        blank: the steps whose batch has rows of padding alone.
    """

    steps: list[tuple[int, ...]]
    labels: list[tuple[int, ...]]
    ended: bool
    states: dict[int, bytes]
    unsaved: str = ""
    blank: frozenset[int] = frozenset()


class Caller:
    """Calls `make`, and reads what its loaders hand out.

    Args:
        make: `make(rank, ranks, epoch, state=None)`, or `make(epoch, state=None)`.
        most: steps of a pass at most.
        time_limit: seconds that a call of `make` or the next batch may take.
    """

    tell: Callable[..., None] = staticmethod(lambda doing, seconds=0.0: None)  # for whoever watches this process

    def __init__(
        self, make: Callable[..., Any], reader: BatchReader, names: SequenceNames, most: int, time_limit: float
    ) -> None:
        self.make = make
        self.reader = reader
        self.names = names
        self.most = most
        self.time_limit = time_limit
        self._looked = False
        self._others = set(multiprocessing.active_children())  # processes that no loader of ours has started

    @property
    def takes_states(self) -> bool:
        """Return True if `make` has an argument for a state."""
        return self._takes(0, None) if self.asks_process else self._takes(0, 1, 0, None)

    @property
    def asks_process(self) -> bool:
        """Return True if `make` takes no rank, and asks the process that torchrun has started."""
        return not self._takes(0, 1, 0) and self._takes(0)

    def _takes(self, *arguments: Any) -> bool:
        """Return True if `make` can be called with these arguments."""
        try:
            inspect.signature(self.make).bind(*arguments)
        except TypeError:
            return False
        except ValueError:  # of a builtin: it is tried
            return True
        return True

    def epochs(self, rank: int, ranks: int, numbers: Collection[int], save: Collection[int] = ()) -> list[OnePass]:
        """Let one rank begin a run, and take its epochs in order, with states saved after some steps."""
        with new_process():
            return [self.one_pass(rank, ranks, epoch, save=save) for epoch in numbers]

    def one_pass(
        self,
        rank: int,
        ranks: int,
        epoch: int,
        state: bytes | None = None,
        save: Collection[int] = (),
        done: int = 0,
    ) -> OnePass:
        """Take one epoch of one rank, or what is left of it after `state`.

        Args:
            save: after how many steps of this pass its state is saved.
            done: steps of the epoch before `state`.
        """
        whose = () if self.asks_process else (rank, ranks)
        arguments = [str(value) for value in (*whose, epoch)] + ["state"] * (state is not None)
        call_in_words = f"make({', '.join(arguments)})" + f" of rank {rank} of {ranks}" * self.asks_process
        with _as_rank(rank, ranks) if self.asks_process else nullcontext():
            return self._one_pass(call_in_words, ranks, (*whose, epoch), state, save, done)

    def _one_pass(
        self,
        what: str,
        ranks: int,
        arguments: tuple[int, ...],
        state: bytes | None,
        save: Collection[int],
        done: int,
    ) -> OnePass:
        with self._guarded(what, what):
            given = () if state is None else (pickle.loads(state),)
            loader, saves = _loader_and_state(self.make(*arguments, *given), what)
        if ranks > 1:
            _refuse_dispatched(loader, what)
        with self._guarded(what, what):
            batches = iter(loader)
        steps, labels = list[tuple[int, ...]](), list[tuple[int, ...]]()
        states = dict[int, bytes]()
        unsaved = ""
        ended = False
        blank = set[int]()
        source: Iterator[Any] = batches
        if not self._looked:
            source = self._look(batches, what)
        while done + len(steps) < self.most:
            batch = self._next(source, what, done + len(steps))
            if batch is _NOTHING:
                ended = True
                break
            with self._guarded(what, f"the batch at step {done + len(steps)} of {what}"):
                numbers = self.names.numbers(self.reader.sequences(batch))
                if not numbers[0] and self.reader.is_blank(batch):
                    blank.add(len(steps))
            steps.append(numbers[0])
            labels.append(numbers[1])
            if len(steps) in save and not unsaved:
                with self._guarded(what, f"the state of {what}"):
                    states, unsaved = self._saved(states, loader, saves, len(steps), done)
        if hasattr(batches, "close"):
            with suppress(Exception):
                batches.close()
        return OnePass(steps, labels, ended, states, unsaved, frozenset(blank))

    def _look(self, batches: Iterator[Any], what: str) -> Iterator[Any]:
        """Return the same batches, once the reader has seen what the first of them are padded with."""
        first: list[Any] = []
        while len(first) < _LOOKED_AT and (batch := self._next(batches, what, len(first))) is not _NOTHING:
            first.append(batch)
        with self._guarded(what, f"the batch at step 0 of {what}"):
            self.reader.look(first)
        self._looked = True
        return chain(first, batches)

    def _next(self, batches: Iterator[Any], what: str, step: int) -> Any:
        with self._guarded(what, f"the batch at step {step} of {what}"):
            return next(batches, _NOTHING)

    def _saved(
        self, states: dict[int, bytes], loader: Any, saves: Any, steps: int, done: int
    ) -> tuple[dict[int, bytes], str]:
        """Return the states with that after so many steps, or why there is none."""
        if saves == STEPS:
            return {**states, steps: pickle.dumps(done + steps)}, ""
        ask = saves or getattr(loader, "state_dict", None)
        if ask is None:
            return states, "the loader has no state_dict(), and make returns no state beside it"
        try:
            state = ask()
        except (AttributeError, NotImplementedError) as error:  # as accelerate's loaders without a stateful one
            if saves is not None:
                raise
            return states, f"state_dict() of the loader raised {type(error).__name__}"
        try:
            return {**states, steps: pickle.dumps(state)}, ""
        except Exception as error:
            raise ValueError(f"it cannot be pickled: {one_line(str(error), 200)}") from error

    @contextmanager
    def _guarded(self, what: str, doing: str) -> Iterator[None]:
        """Say in one sentence what was hung or raised."""
        try:
            self.tell(doing, self.time_limit)
            with _within(self.time_limit, self._others):
                yield
        except _OutOfTime:
            took = f"within {self.time_limit:g} seconds"
            complaint = f"{doing} did not come {took}" if doing != what else f"{what} did not return {took}"
            raise LoaderHungError(f"{complaint}: a worker or the loader hangs. See --time-limit.") from None
        except (Exception, SystemExit) as error:
            complaint = ": ".join(filter(None, [type(error).__name__, one_line(str(error), 300).rstrip(".")]))
            talks = " A loader whose ranks talk to each other is checked with --ranks 1." * (
                "process group" in complaint
            )
            raise LoaderRaisedError(f"{doing} raised {complaint}{_place(error)}.{talks}") from error
        finally:
            self.tell(None)


def _place(error: BaseException) -> str:
    """Name the line of the caller that raised, such as " (my_data.py, line 7)"; empty if installed code did."""
    theirs = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_INSTALLED)
    ]
    return f" ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno})" if theirs else ""


def _loader_and_state(made: Any, what: str) -> tuple[Any, Any]:
    """Part what `make` returned into the loader and what saves its state: a function, "steps", or None."""
    loader, saves = made, None
    if isinstance(made, tuple) and len(made) == 2 and (made[1] == STEPS or callable(made[1])):
        loader, saves = made
    if not hasattr(loader, "__iter__"):
        raise TypeError(
            f'{what} must return an iterable of batches, or a pair of it and a function that gives its state or "steps"'
            f", not {shown(made)}."
        )
    return loader, saves


def _refuse_dispatched(loader: Any, what: str) -> None:
    """Raise a LoaderRaisedError for a loader of accelerate whose ranks get their batches from rank 0."""
    if any(kind.__name__ == "DataLoaderDispatcher" for kind in type(loader).__mro__):
        raise LoaderRaisedError(
            f"{what} returned a loader of accelerate with dispatch_batches=True, whose ranks must run at the same "
            "time: check it with ranks=1 (--ranks 1)."
        )


@contextmanager
def new_process() -> Iterator[None]:
    """Seed the generators of random numbers in here as in a new process; afterwards they are as before."""
    import torch

    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002  loaders use them
    random.seed(_SEED)
    np.random.seed(_SEED)  # noqa: NPY002
    torch.manual_seed(_SEED)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


@contextmanager
def _as_rank(rank: int, ranks: int) -> Iterator[None]:
    """Show the process in here as one that torchrun has started, to whoever asks it or torch.distributed for its rank.

    There is no group: what sends something to another rank raises an error.
    """
    import torch.distributed as group

    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    answers = {"is_initialized": True, "get_rank": rank, "get_world_size": ranks}
    environment = dict(os.environ)
    functions = {name: getattr(group, name) for name in answers}
    os.environ |= {name: str(value) for name, value in names.items()}
    for name, value in answers.items():
        setattr(group, name, lambda *_, answer=value, **options: answer)
    try:
        yield
    finally:
        for name, function in functions.items():
            setattr(group, name, function)
        for name in names:
            os.environ.pop(name, None)
        os.environ |= {name: environment[name] for name in names if name in environment}


class _OutOfTime(BaseException):
    """The time is up: no Exception, which loaders catch."""


@contextmanager
def _within(seconds: float, others: Collection[Any]) -> Iterator[None]:
    """Raise `_OutOfTime` in here once so many seconds are over, and end all child processes but `others`.

    Signals arrive in the main thread alone: in another one there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        _kill(set(multiprocessing.active_children()) - set(others))
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # again and again, since destructors swallow what is raised
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _kill(workers: Collection[Any]) -> None:
    """End workers that may not listen to less; PyTorch would raise an error of its own when it hears of it."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()
    signal.signal(signal.SIGCHLD, before or signal.SIG_DFL)
