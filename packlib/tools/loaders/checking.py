"""Who saw what? A loader is asked by calls alone whether each sequence comes once an epoch, also after a stop."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from packlib.arguments import flag, no_frame, number, shown, text, whole_number
from packlib.tools.check.findings import FAILED, NOT_ASKED, PASSED, Finding
from packlib.tools.loaders.batch_sequences import BatchReader
from packlib.tools.loaders.handed_out import Epoch, Reference, of_one_rank, of_source
from packlib.tools.loaders.loader_check import LoaderCheck
from packlib.tools.loaders.passes import Caller
from packlib.tools.loaders.questions import another_order, equal_steps, once, same_labels, same_steps, whole
from packlib.tools.loaders.sequence_names import SequenceNames
from packlib.tools.loaders.stops import Stopped, asked, failed, from_the_end, goes_on, next_epoch, stops_of
from packlib.tools.rows.row_sources import batches, opened

_MOST_STEPS = 10_000  # of a pass, unless steps are given
_EPOCHS = 5  # that are compared where the first two have the same order
_STOPS = "stop", "later stop", "second stop", "epoch after a stop", "stop at the end"


def check_loader(
    make: Callable[..., Iterable[Any]],
    *,
    ranks: int = 2,
    source: Any = None,
    id_column: str | None = None,
    steps: int | None = None,
    shuffled: bool = True,
    repeats: bool = False,
    other_ranks: Iterable[int] = (),
    time_limit: float = 60,
) -> LoaderCheck:
    """Ask whether a loader hands out each sequence once an epoch, over all ranks, and after each stop the rest.

    The loader is only called: its batches are taken apart into sequences by their tokens, rows of packs at the borders
    that the batch tells. All ranks run in this process, one after the other, each with the random generators of a
    process that was just seeded.

    >>> from packlib import check_loader
    >>> from torch.utils.data import DataLoader, DistributedSampler
    >>> rows = [{"input_ids": [n, n + 1, n + 2]} for n in range(24)]
    >>> def make(rank, ranks, epoch):
    ...     sampler = DistributedSampler(rows, ranks, rank)  # without sampler.set_epoch(epoch)
    ...     return DataLoader(rows, batch_size=4, sampler=sampler, collate_fn=list)
    >>> found = check_loader(make, source=rows)
    >>> found.passed, found["once"].verdict, found["order"].verdict
    (False, 'passed', 'failed')

    Args:
        make: `make(rank, ranks, epoch, state=None)` does what your training does before an epoch, and returns an
            iterable of batches: tensors, mappings with `input_ids`, or lists of samples. `state` is what the loader's
            `state_dict()` gave after some batches; with it the iterable hands out the rest of the epoch. Where
            something else knows the state, return a pair: the iterable, and a function that gives the state, or the
            word "steps" where the state is the number of batches of the epoch that were handed out. Without a state
            the stops are not asked about. Epochs are made in order, and go on after a state in order too. A
            `make(epoch, state=None)` asks its process for the rank, as under torchrun: RANK and WORLD_SIZE of the
            environment, `get_rank` and `get_world_size` of torch.distributed. Nothing can be sent to other ranks.
        ranks: number of data-parallel processes.
        source: the sequences that an epoch should have: a file or folder that `pack_dataset` reads, a
            `datasets.Dataset`, or samples. Without it, what one rank alone is handed out in two epochs.
        id_column: the column of batches and source that names a sequence, where tokens change, as by masking.
        steps: batches of a pass at most, for streams without an end; by default 10,000.
        shuffled: whether each epoch should have another order.
        repeats: whether the last step may be filled up with sequences that come again.
        other_ranks: numbers of ranks with which a run should go on from a state of `ranks`. Rank r loads the state of
            rank r, modulo `ranks`.
        time_limit: seconds that the next batch may take.

    Returns:
        A finding for each question. `passed` is True if all that were asked passed, False if one failed, and None if
        one is inconclusive.

    Raises:
        TypeError, ValueError: for bad arguments; if the loader raises, in one sentence.
        TimeoutError: if a batch takes longer than `time_limit`.
    """
    if not callable(make):
        raise TypeError(f"make must be a function of rank, ranks, epoch and state, not {shown(make)}.")
    whole_number("ranks", ranks, 1)
    flag("shuffled", shuffled)
    flag("repeats", repeats)
    others = [whole_number("other_ranks", count, 1) for count in other_ranks]
    most = _MOST_STEPS if steps is None else whole_number("steps", steps, 2)
    number("time_limit", time_limit, above=0)
    if id_column is not None:
        text("id_column", id_column)
    no_frame("source", source)

    reader, names = BatchReader(id_column), SequenceNames()
    caller = Caller(make, reader, names, most, time_limit)

    def run(count: int, save: Iterable[int] = (), numbers: Iterable[int] = (0, 1)) -> list[Epoch]:
        """Return epochs of a run of so many ranks, in order."""
        numbers, save = list(numbers), list(save)
        by_rank = [caller.epochs(rank, count, numbers, save) for rank in range(count)]
        return [Epoch(f"epoch {at}", [passes[at] for passes in by_rank]) for at in range(len(numbers))]

    alone = None
    if source is None:
        caller.most = most * ranks
        alone = run(1)
        caller.most = most
    epochs = alone if alone is not None and ranks == 1 else run(ranks)
    if not any(one.steps for one in epochs[0].passes):
        raise ValueError(f"make(0, {ranks}, 0) returned a loader that hands out nothing, nor do the other ranks.")
    if alone is not None:
        reference, right = of_one_rank(alone), _labels_of(alone[:1])
    else:
        before = len(names)
        numbered = [(names.number(one), names.label_number(one)) for one in reader.of_source(_rows_of(source))]
        if not numbered:
            raise ValueError("source must hold at least one sequence; this one has none.")
        reference = of_source([sequence for sequence, _ in numbered], names, before)
        right = {}
        for sequence, label in numbered:
            right.setdefault(sequence, set()).add(label)

    @cache
    def later() -> list[Epoch]:
        return run(ranks, numbers=range(_EPOCHS))[2:]

    findings = [
        once(epochs, reference, names, repeats, lambda: later()[0]),
        whole(epochs, reference, names),
        same_labels(epochs, reference, names, right),
        equal_steps(epochs),
        another_order(epochs, shuffled, later),
    ]
    seen = {epoch.name: reference.seen(epoch.orders, names) for epoch in epochs}
    after, seen_after = _after_stops(caller, ranks, others, epochs, run, reference, names, shuffled, repeats)
    limit = "" if all(epoch.ended for epoch in epochs) else f" Each pass was left after {most:,} steps: see --steps."
    expected = np.array([reference.expected[at] for at in reference.positions(names)], np.int64)
    return LoaderCheck((*findings, *after), reference.sentence + limit, expected, seen | seen_after)


def _after_stops(
    caller: Caller,
    ranks: int,
    others: list[int],
    epochs: list[Epoch],
    run: Callable[..., list[Epoch]],
    reference: Reference,
    names: SequenceNames,
    shuffled: bool,
    repeats: bool,
) -> tuple[list[Finding], dict[str, np.ndarray]]:
    """Return the findings about stops and other numbers of ranks, and what was seen in an epoch with a stop."""
    on_others = [_on_other_ranks(count, run, reference, names, repeats) for count in others]
    stops = [stops_of(epoch) for epoch in epochs]
    if not caller.takes_states:
        return [*_not_asked("make takes no state: make(rank, ranks, epoch, state=None) does."), *on_others], {}
    ends = {len(one.steps) for one in epochs[0].passes}
    saved = run(ranks, save={stop for some in stops for stop in some} | ends)
    unsaved = next((one.unsaved for epoch in saved for one in epoch.passes if one.unsaved), "")
    if unsaved:
        return [*_not_asked(f"There is no state: {unsaved}."), *on_others], {}
    stops = [[stop for stop in some if all(stop in one.states for one in epoch.passes)]
             for some, epoch in zip(stops, saved, strict=True)]  # fmt: skip
    stopped, seen = Stopped(caller, ranks, saved), dict[str, np.ndarray]()
    is_repeatable = all(same_steps(one.orders, other.orders) for one, other in zip(epochs, saved, strict=True))

    def in_epoch(question: str, epoch: int) -> Finding:
        rests = []
        middle = len(saved[epoch].orders[0]) // 2
        for stop in sorted(stops[epoch], key=lambda stop: abs(stop - middle)):  # there most can go wrong
            rests.append(stopped.rest(epoch, stop))
            if rests[-1].got != rests[-1].expected:
                if not any(rests[-1].got) and stop > stops[epoch][0]:  # an earlier stop may tell more
                    rests = [stopped.rest(epoch, stops[epoch][0]), *rests]
                break
        if rests:
            last = rests[-1]
            name = f"epoch {epoch}, stopped after step {last.stop}"
            seen[name] = reference.seen([*last.before, *last.got], names)
        return goes_on(question, saved, rests, epoch, is_repeatable, names)

    found = [asked("stop", lambda: in_epoch("stop", 0)), asked("later stop", lambda: in_epoch("later stop", 1))]
    if any(one.verdict == FAILED for one in found):
        why = "The rest after one stop is wrong already."
        found += [Finding(question, NOT_ASKED, why) for question in _STOPS[2:]]
    else:
        found += [
            asked("second stop", lambda: _second_stop(stopped, saved, stops[0], is_repeatable, names)),
            asked("epoch after a stop", lambda: _next(stopped, saved, stops[0], names, shuffled)),
            asked("stop at the end", lambda: _at_the_end(stopped, saved, names, shuffled)),
        ]
    if on_others and stops[0]:
        on_others = [
            _resumed_on_others(finding, stopped, count, stops[0], is_repeatable, names)
            for finding, count in zip(on_others, others, strict=True)
        ]
    return [*found, *on_others], seen


def _not_asked(why: str) -> list[Finding]:
    return [Finding(question, NOT_ASKED, why) for question in _STOPS]


def _second_stop(
    stopped: Stopped, saved: list[Epoch], stops: list[int], is_repeatable: bool, names: SequenceNames
) -> Finding:
    """Ask about a run that went on and is stopped again."""
    steps = min(len(one.steps) for one in saved[0].passes)
    first = next((stop for stop in stops if stop + 1 < steps), None)
    if first is None:
        return Finding("second stop", NOT_ASKED, "An epoch of fewer than three steps has no two stops inside.")
    rests = []
    for more in sorted(
        {1, max(1, (steps - first) // 2)}, reverse=True
    ):  # soon after a stop, some state may be of before
        rest = stopped.second_rest(0, first, more)
        if isinstance(rest, str):
            return failed("second stop", f"No state could be saved after a stop: {rest}.", "raised")
        rests.append(rest)
    return goes_on("second stop", saved, rests, 0, is_repeatable, names)


def _next(stopped: Stopped, saved: list[Epoch], stops: list[int], names: SequenceNames, shuffled: bool) -> Finding:
    """Return the epoch after a stop."""
    if not stops:
        return Finding("epoch after a stop", NOT_ASKED, "An epoch of one step has no stop inside.")
    stop = stops[len(stops) // 2]
    _, following = stopped.rest_and_next(0, stop)
    return next_epoch("epoch after a stop", following, saved, stop, names, shuffled)


def _at_the_end(stopped: Stopped, saved: list[Epoch], names: SequenceNames, shuffled: bool) -> Finding:
    """Ask about a state that was saved after the last step of an epoch."""
    ends = {len(one.steps) for one in saved[0].passes}
    end = max(ends)
    if not saved[0].ended or len(ends) > 1 or not all(end in one.states for one in saved[0].passes):
        return Finding("stop at the end", NOT_ASKED, "Epoch 0 has no end that all ranks reach after the same steps.")
    rest, following = stopped.rest_and_next(0, end)
    return from_the_end(rest, following, saved, names, shuffled)


def _on_other_ranks(
    count: int, run: Callable[..., list[Epoch]], reference: Reference, names: SequenceNames, repeats: bool
) -> Finding:
    """Ask whether an epoch on another number of ranks holds each sequence once, in equal steps."""
    epochs = run(count)
    question = f"on {count} ranks"
    came = once(epochs, reference, names, repeats, lambda: run(count, numbers=(0, 1, 2))[2])
    for finding in (came, equal_steps(epochs)):
        if finding.verdict not in (PASSED, NOT_ASKED):
            return replace(finding, question=question)
    return Finding(question, PASSED, f"On {count} ranks all make the same number of steps. {came.evidence}")


def _resumed_on_others(
    straight: Finding, stopped: Stopped, count: int, stops: list[int], is_repeatable: bool, names: SequenceNames
) -> Finding:
    """Ask whether a run that goes on with another number of ranks is handed out the rest."""
    if straight.verdict != PASSED:
        return straight

    def ask() -> Finding:
        rests = [stopped.rest(0, stop, ranks=count) for stop in (stops[0], stops[-1])]
        found = goes_on(straight.question, stopped.saved, rests, 0, is_repeatable, names)
        if found.verdict != PASSED:
            return found
        more = f"A run of {stopped.ranks} ranks that goes on with {count} is handed out the rest and nothing else."
        return replace(found, evidence=f"{straight.evidence} {more}")

    return asked(straight.question, ask)


def _labels_of(epochs: list[Epoch]) -> dict[int, set[int]]:
    """Return the labels that each sequence has in these epochs."""
    found: dict[int, set[int]] = {}
    for epoch in epochs:
        for one in epoch.passes:
            for step, labels in zip(one.steps, one.labels, strict=True):
                for at, label in zip(step, labels, strict=True):
                    found.setdefault(at, set()).add(label)
    return found


def _rows_of(source: Any) -> Iterator[Any]:
    """Yield the samples of a source."""
    source = opened(source)
    in_arrow = hasattr(source, "with_format") and hasattr(source, "num_rows")
    if in_arrow or (isinstance(source, list) and source and hasattr(source[0], "suffix")):
        for batch in batches(source):
            yield from batch.to_pylist()
    elif hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        for at in range(len(source)):
            yield source[at]
    elif hasattr(source, "__iter__"):
        yield from islice(source, None)
    else:
        raise TypeError(f"source must be a file, a data set or samples, not {shown(source)}.")
