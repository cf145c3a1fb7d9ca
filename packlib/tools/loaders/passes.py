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

STEPS = "steps"  # the word that `make` returns beside a loader whose state is the number of steps
_SEED = 1234  # of all generators when a run begins, as after set_seed
_LOOKED_AT = 8  # first batches in which the token of padding is looked for
_NO_BATCH = object()  # in place of a batch at the end of a loader
# Where files begin whose lines no error names: code that was compiled from text, packlib, and what pip installed.
_INSTALLED = ("<", str(Path(__file__).parents[2]), *(sysconfig.get_path(name) for name in ("stdlib", "purelib")))


class LoaderHungError(TimeoutError):
    """No batch came within the time limit."""


class LoaderRaisedError(ValueError):
    """The loader, or the function that makes it, raised an error."""


class OnePass(NamedTuple):
    """The batches that one rank was handed out in one epoch.

    Attributes:
        steps: for each batch, the numbers of its sequences in `SequenceNames`.
        labels: for each batch, the numbers of the labels of its sequences, below 0 where there are none to compare.
        ended: whether the loader came to its end, and was not left at the limit of steps.
        states: by number of steps of this pass, the state of the loader after these steps, pickled.
        unsaved: why no state could be saved; empty if one could, or none was asked for.
        blank: the indices of the steps whose batch has rows of padding alone.
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
        most_steps: the most steps of a pass.
        time_limit: seconds that a call of `make` or the next batch may take.
    """

    # Called with what is waited for and the seconds that it may take, and with None after it. The command, which
    # watches this process from another one, puts a function of its own here.
    tell: Callable[..., None] = staticmethod(lambda doing, seconds=0.0: None)

    def __init__(
        self, make: Callable[..., Any], reader: BatchReader, names: SequenceNames, most_steps: int, time_limit: float
    ) -> None:
        self.make = make
        self.reader = reader
        self.names = names
        self.most_steps = most_steps
        self.time_limit = time_limit
        self._has_looked = False
        self._other_processes = set(multiprocessing.active_children())  # that no loader of ours has started

    @property
    def takes_states(self) -> bool:
        """Return True if `make` can be called with a state as its last argument."""
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
        except ValueError:  # a builtin without a signature: calling it will tell
            return True
        return True

    def epochs(self, rank: int, ranks: int, numbers: Collection[int], save: Collection[int] = ()) -> list[OnePass]:
        """Let one rank begin a run, and take its epochs in order.

        Args:
            numbers: of the epochs.
            save: the numbers of steps in an epoch after which the state is saved.
        """
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
        """Take one epoch of one rank, or the rest of it after `state`.

        Args:
            state: what was saved in an earlier pass; None begins the epoch.
            save: the numbers of steps of this pass after which its state is saved.
            done: steps of the epoch before `state`.
        """
        rank_arguments = () if self.asks_process else (rank, ranks)
        arguments = [str(value) for value in (*rank_arguments, epoch)] + ["state"] * (state is not None)
        call = f"make({', '.join(arguments)})" + f" of rank {rank} of {ranks}" * self.asks_process
        with _as_rank(rank, ranks) if self.asks_process else nullcontext():
            return self._one_pass(call, ranks, (*rank_arguments, epoch), state, save, done)

    def _one_pass(
        self,
        call: str,
        ranks: int,
        arguments: tuple[int, ...],
        state: bytes | None,
        save: Collection[int],
        done: int,
    ) -> OnePass:
        """Call `make` with these arguments, and read the batches of its loader.

        Args:
            call: the call of `make` in words, for errors.
            arguments: of `make`, without the state.
            state, save, done: as in `one_pass`.
        """
        with self._guarded(call, call):
            state_argument = () if state is None else (pickle.loads(state),)
            loader, state_source = _loader_and_state_source(self.make(*arguments, *state_argument), call)
        if ranks > 1:
            _refuse_dispatched(loader, call)
        with self._guarded(call, call):
            own_batches = iter(loader)
        batches: Iterator[Any] = own_batches
        if not self._has_looked:
            batches = self._look(own_batches, call)

        steps, labels = list[tuple[int, ...]](), list[tuple[int, ...]]()
        states = dict[int, bytes]()
        unsaved = ""
        ended = False
        blank = set[int]()
        while done + len(steps) < self.most_steps:
            batch = self._next(batches, call, done + len(steps))
            if batch is _NO_BATCH:
                ended = True
                break
            with self._guarded(call, f"the batch at step {done + len(steps)} of {call}"):
                sequence_numbers, label_numbers = self.names.numbers(self.reader.sequences(batch))
                if not sequence_numbers and self.reader.is_blank(batch):
                    blank.add(len(steps))
            steps.append(sequence_numbers)
            labels.append(label_numbers)
            if len(steps) in save and not unsaved:
                with self._guarded(call, f"the state of {call}"):
                    new_state, unsaved = _state_of(loader, state_source, done + len(steps))
                if new_state is not None:
                    states[len(steps)] = new_state
        if hasattr(own_batches, "close"):
            with suppress(Exception):
                own_batches.close()
        return OnePass(steps, labels, ended, states, unsaved, frozenset(blank))

    def _look(self, batches: Iterator[Any], call: str) -> Iterator[Any]:
        """Let the reader find out how the first batches are padded; return all batches, these among them."""
        first_batches: list[Any] = []
        while len(first_batches) < _LOOKED_AT:
            batch = self._next(batches, call, len(first_batches))
            if batch is _NO_BATCH:
                break
            first_batches.append(batch)
        with self._guarded(call, f"the batch at step 0 of {call}"):
            self.reader.look(first_batches)
        self._has_looked = True
        return chain(first_batches, batches)

    def _next(self, batches: Iterator[Any], call: str, step: int) -> Any:
        """Return the next batch, that of this step of the epoch; `_NO_BATCH` if there is none."""
        with self._guarded(call, f"the batch at step {step} of {call}"):
            return next(batches, _NO_BATCH)

    @contextmanager
    def _guarded(self, call: str, doing: str) -> Iterator[None]:
        """Let a block of code raise one sentence if it fails or takes longer than the time limit.

        Args:
            call: the call of `make`, in words.
            doing: what the block waits for, in words: this call, a batch or a state.
        """
        try:
            self.tell(doing, self.time_limit)
            with _within(self.time_limit, self._other_processes):
                yield
        except _OutOfTime:
            limit = f"within {self.time_limit:g} seconds"
            complaint = f"{doing} did not come {limit}" if doing != call else f"{call} did not return {limit}"
            raise LoaderHungError(f"{complaint}: a worker or the loader hangs. See --time-limit.") from None
        except (Exception, SystemExit) as error:
            complaint = ": ".join(filter(None, [type(error).__name__, one_line(str(error), 300).rstrip(".")]))
            cure = ""
            if "process group" in complaint:
                cure = " A loader whose ranks talk to each other is checked with --ranks 1."
            raise LoaderRaisedError(f"{doing} raised {complaint}{_place(error)}.{cure}") from error
        finally:
            self.tell(None)


def _place(error: BaseException) -> str:
    """Return the last line outside of installed code that led to an error, such as " (my_data.py, line 7)", or ""."""
    frames = traceback.extract_tb(error.__traceback__)
    own_frames = [frame for frame in frames if not frame.filename.startswith(_INSTALLED)]
    return f" ({Path(own_frames[-1].filename).name}, line {own_frames[-1].lineno})" if own_frames else ""


def _loader_and_state_source(made: Any, call: str) -> tuple[Any, Any]:
    """Part what `make` returned into the loader and the source of its state.

    The source is a function that returns the state, the word "steps", or None if the loader alone was returned.
    """
    loader, state_source = made, None
    if isinstance(made, tuple) and len(made) == 2 and (made[1] == STEPS or callable(made[1])):
        loader, state_source = made
    if not hasattr(loader, "__iter__"):
        raise TypeError(
            f'{call} must return an iterable of batches, or a pair of it and a function that gives its state or "steps"'
            f", not {shown(made)}."
        )
    return loader, state_source


def _state_of(loader: Any, state_source: Any, steps: int) -> tuple[bytes | None, str]:
    """Return the state of a loader, pickled, or None; and why there is none, or "".

    Args:
        state_source: as `_loader_and_state_source` returned it.
        steps: of the epoch until now.
    """
    if state_source == STEPS:
        return pickle.dumps(steps), ""
    state_dict = state_source or getattr(loader, "state_dict", None)
    if state_dict is None:
        return None, "the loader has no state_dict(), and make returns no state beside it"
    try:
        state = state_dict()
    except (AttributeError, NotImplementedError) as error:  # as accelerate's loaders without a stateful one
        if state_source is not None:
            raise
        return None, f"state_dict() of the loader raised {type(error).__name__}"
    try:
        return pickle.dumps(state), ""
    except Exception as error:
        raise ValueError(f"it cannot be pickled: {one_line(str(error), 200)}") from error


def _refuse_dispatched(loader: Any, call: str) -> None:
    """Raise a LoaderRaisedError for a loader of accelerate whose ranks get their batches from rank 0."""
    if any(kind.__name__ == "DataLoaderDispatcher" for kind in type(loader).__mro__):
        raise LoaderRaisedError(
            f"{call} returned a loader of accelerate with dispatch_batches=True, whose ranks must run at the same "
            "time: check it with ranks=1 (--ranks 1)."
        )


@contextmanager
def new_process() -> Iterator[None]:
    """Seed all generators of random numbers for a block of code, as in a new process; after it they are as before."""
    import torch

    python_state = random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002  loaders use it
    torch_state = torch.get_rng_state()
    random.seed(_SEED)
    np.random.seed(_SEED)  # noqa: NPY002
    torch.manual_seed(_SEED)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_rng_state(torch_state)


@contextmanager
def _as_rank(rank: int, ranks: int) -> Iterator[None]:
    """Let this process look, to a block of code, like rank `rank` of `ranks` that torchrun has started.

    The environment and torch.distributed give that rank. There is no process group: sending something to another rank
    raises an error.
    """
    import torch.distributed as dist

    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    answers = {"is_initialized": True, "get_rank": rank, "get_world_size": ranks}  # by function of torch.distributed
    environment = dict(os.environ)
    functions = {name: getattr(dist, name) for name in answers}
    os.environ |= {name: str(value) for name, value in variables.items()}
    for name, value in answers.items():
        setattr(dist, name, lambda *_, answer=value, **options: answer)
    try:
        yield
    finally:
        for name, function in functions.items():
            setattr(dist, name, function)
        for name in variables:
            os.environ.pop(name, None)
        os.environ |= {name: environment[name] for name in variables if name in environment}


class _OutOfTime(BaseException):
    """The time limit is over. It is not an Exception, since loaders catch these."""


@contextmanager
def _within(seconds: float, other_processes: Collection[Any]) -> Iterator[None]:
    """Raise `_OutOfTime` in a block of code that takes longer, and end all child processes but `other_processes`.

    Signals arrive in the main thread alone: in another thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        _kill(set(multiprocessing.active_children()) - set(other_processes))
        raise _OutOfTime

    handler_before = signal.signal(signal.SIGALRM, stop)
    # after that every second, since an error in a destructor is lost
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler_before)


def _kill(workers: Collection[Any]) -> None:
    """Kill processes, since workers that hang may not heed another signal."""
    handler_before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's own would raise an error
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.join()
    signal.signal(signal.SIGCHLD, handler_before or signal.SIG_DFL)
