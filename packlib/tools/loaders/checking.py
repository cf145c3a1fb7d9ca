"""Who saw what? A loader is asked by calls alone whether each sequence comes once an epoch, also after a stop."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from packlib.arguments import flag, no_frame, number, shown, text, whole_number
from packlib.tools.check.findings import FAILED, NOT_ASKED, PASSED, Finding
from packlib.tools.loaders.batch_sequences import BatchReader
from packlib.tools.loaders.handed_out import Epoch, Reference, of_one_rank, of_source
from packlib.tools.loaders.loader_check import LoaderCheck
from packlib.tools.loaders.passes import Caller
from packlib.tools.loaders.questions import another_order, equal_steps, once, same_labels, same_steps, same_tokens
from packlib.tools.loaders.sequence_names import SequenceNames
from packlib.tools.loaders.stops import Rest, Stopped, failed, finding_of, from_the_end, goes_on, next_epoch, stops_of
from packlib.tools.rows.row_sources import batches, opened

_MOST_STEPS = 10_000  # of a pass, by default
_MOST_EPOCHS = 5  # that are compared if the first two leave out the same sequences, or have the same order
_STOPS = "stop", "later stop", "second stop", "epoch after a stop", "stop at the end"  # the questions about stops


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

    The check only calls the loader, and takes its batches apart into sequences: rows of packs at the borders that the
    batch tells. It knows a sequence by its tokens. All ranks run in this process, one after the other, each with the
    random generators of a process that was just seeded.

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
    if not isinstance(other_ranks, Iterable):
        raise TypeError(f"other_ranks must be numbers of ranks, as in a list, not {shown(other_ranks)}.")
    other_numbers = [whole_number("Each of other_ranks", count, 1) for count in other_ranks]
    most_steps = _MOST_STEPS if steps is None else whole_number("steps", steps, 2)
    number("time_limit", time_limit, above=0)
    if id_column is not None:
        text("id_column", id_column)
    no_frame("source", source)

    reader, names = BatchReader(id_column), SequenceNames()
    caller = Caller(make, reader, names, most_steps, time_limit)
    alone = None  # epochs of one rank, which has the sequences of all
    if source is None:
        caller.most_steps = most_steps * ranks
        alone = _run(caller, 1)
        caller.most_steps = most_steps
    epochs = alone if alone is not None and ranks == 1 else _run(caller, ranks)
    if not any(rank_pass.steps for rank_pass in epochs[0].passes):
        raise ValueError(f"make(0, {ranks}, 0) returned a loader that hands out nothing, nor do the other ranks.")
    if alone is not None:
        reference, right_labels = of_one_rank(alone), _labels_in(alone[0])
    else:
        reference, right_labels = _read_source(source, reader, names)

    @cache
    def later_epochs() -> list[Epoch]:
        return _run(caller, ranks, numbers=range(_MOST_EPOCHS))[2:]

    findings = [
        once(epochs, reference, names, repeats, lambda: later_epochs()[0]),
        same_tokens(epochs, reference, names),
        same_labels(epochs, reference, names, right_labels),
        equal_steps(epochs),
        another_order(epochs, shuffled, later_epochs),
    ]
    seen = {epoch.name: reference.seen(epoch.orders, names) for epoch in epochs}
    on_others = {count: _on_other_ranks(caller, count, reference, names, repeats) for count in other_numbers}
    about_stops, on_others, seen_after_stops = _after_stops(caller, epochs, on_others, reference, names, shuffled)
    all_ended = all(epoch.ended for epoch in epochs)
    limit = "" if all_ended else f" Each pass was left after {most_steps:,} steps: see --steps."
    expected = np.array([reference.expected[number] for number in reference.numbers(names)], np.int64)
    return LoaderCheck(
        (*findings, *about_stops, *on_others.values()),
        reference.sentence + limit,
        expected,
        seen | seen_after_stops,
    )


def _run(caller: Caller, ranks: int, save: Collection[int] = (), numbers: Collection[int] = (0, 1)) -> list[Epoch]:
    """Return epochs of a run, in order.

    Args:
        ranks: number of ranks of the run.
        save: the numbers of steps in an epoch after which each rank saves its state.
        numbers: of the epochs.
    """
    passes_by_rank = [caller.epochs(rank, ranks, numbers, save) for rank in range(ranks)]
    return [
        Epoch(f"epoch {number}", [passes[index] for passes in passes_by_rank]) for index, number in enumerate(numbers)
    ]


def _after_stops(
    caller: Caller,
    epochs: list[Epoch],
    on_others: dict[int, Finding],
    reference: Reference,
    names: SequenceNames,
    shuffled: bool,
) -> tuple[list[Finding], dict[int, Finding], dict[str, np.ndarray]]:
    """Ask the questions about stops.

    Args:
        epochs: 0 and 1 of a run without a stop.
        on_others: by another number of ranks, what was found about a run of it.

    Returns:
        The findings about stops; `on_others`, each now also about a run that goes on with that number of ranks; and,
        by epoch with a stop, how often each sequence of the reference was handed out.
    """
    if not caller.takes_states:
        why = "make takes no state: make(rank, ranks, epoch, state=None) does."
        return [Finding(question, NOT_ASKED, why) for question in _STOPS], on_others, {}
    ranks = len(epochs[0].passes)
    stops_of_epochs = [stops_of(epoch) for epoch in epochs]
    ends = {len(rank_pass.steps) for rank_pass in epochs[0].passes}
    saved = _run(caller, ranks, save={stop for stops in stops_of_epochs for stop in stops} | ends)
    unsaved = next((rank_pass.unsaved for epoch in saved for rank_pass in epoch.passes if rank_pass.unsaved), "")
    if unsaved:
        return [Finding(question, NOT_ASKED, f"There is no state: {unsaved}.") for question in _STOPS], on_others, {}

    questions = _StopQuestions(
        Stopped(caller, ranks, saved),
        stops=[
            [stop for stop in stops if all(stop in rank_pass.states for rank_pass in epoch.passes)]
            for stops, epoch in zip(stops_of_epochs, saved, strict=True)
        ],
        is_repeatable=all(same_steps(epoch.orders, again.orders) for epoch, again in zip(epochs, saved, strict=True)),
        names=names,
        shuffled=shuffled,
    )
    findings = [
        finding_of("stop", lambda: questions.stop_in(0, "stop")),
        finding_of("later stop", lambda: questions.stop_in(1, "later stop")),
    ]
    if any(finding.verdict == FAILED for finding in findings):
        why = "The rest after one stop is wrong already."
        findings += [Finding(question, NOT_ASKED, why) for question in _STOPS[2:]]
    else:
        findings += [
            finding_of("second stop", questions.second_stop),
            finding_of("epoch after a stop", questions.epoch_after_stop),
            finding_of("stop at the end", questions.stop_at_end),
        ]
    if questions.stops[0]:
        on_others = {count: questions.resumed_on(count, finding) for count, finding in on_others.items()}
    seen = {name: reference.seen([*rest.before, *rest.got], names) for name, rest in questions.last_rests.items()}
    return findings, on_others, seen


@dataclass(frozen=True)
class _StopQuestions:
    """Asks the questions about stops of one run.

    Attributes:
        stopped: the runs that go on from the states of that run.
        stops: by epoch, the stops at which all ranks have saved a state.
        is_repeatable: whether two runs without a stop are handed out the same.
        shuffled: whether each epoch should have another order.
        last_rests: by name of an epoch with its stop, the last rest that was compared in the epoch.
    """

    stopped: Stopped
    stops: list[list[int]]
    is_repeatable: bool
    names: SequenceNames
    shuffled: bool
    last_rests: dict[str, Rest] = field(default_factory=dict)

    @property
    def saved(self) -> Sequence[Epoch]:
        """Epochs 0 and 1 of the run that saved its states."""
        return self.stopped.saved

    def stop_in(self, epoch: int, question: str) -> Finding:
        """Ask about stops in an epoch, up to the first after which not exactly the rest comes."""
        rests = []
        middle = len(self.saved[epoch].orders[0]) // 2
        for stop in sorted(self.stops[epoch], key=lambda stop: abs(stop - middle)):  # there most can go wrong
            rests.append(self.stopped.rest(epoch, stop))
            if rests[-1].got != rests[-1].expected:
                first_stop = self.stops[epoch][0]
                if not any(rests[-1].got) and stop > first_stop:  # nothing came: an earlier stop may tell more
                    rests = [self.stopped.rest(epoch, first_stop), *rests]
                break
        if rests:
            self.last_rests[f"epoch {epoch}, stopped after step {rests[-1].stop}"] = rests[-1]
        return goes_on(question, self.saved, rests, epoch, self.is_repeatable, self.names)

    def second_stop(self) -> Finding:
        """Ask about a run that goes on in epoch 0 and is stopped again."""
        steps = min(len(rank_pass.steps) for rank_pass in self.saved[0].passes)
        first_stop = next((stop for stop in self.stops[0] if stop + 1 < steps), None)
        if first_stop is None:
            return Finding("second stop", NOT_ASKED, "An epoch of fewer than three steps has no two stops inside.")
        rests = []
        # One step after the first stop, a state may still be that of before it.
        steps_between = {1, max(1, (steps - first_stop) // 2)}
        for more in sorted(steps_between, reverse=True):
            rest = self.stopped.second_rest(0, first_stop, more)
            if isinstance(rest, str):
                return failed("second stop", f"No state could be saved after a stop: {rest}.", "raised")
            rests.append(rest)
        return goes_on("second stop", self.saved, rests, 0, self.is_repeatable, self.names)

    def epoch_after_stop(self) -> Finding:
        """Ask about epoch 1 after a stop in the middle of epoch 0."""
        stops = self.stops[0]
        if not stops:
            return Finding("epoch after a stop", NOT_ASKED, "An epoch of one step has no stop inside.")
        stop = stops[len(stops) // 2]
        _, following = self.stopped.rest_and_next(0, stop)
        return next_epoch("epoch after a stop", following, self.saved, stop, self.names, self.shuffled)

    def stop_at_end(self) -> Finding:
        """Ask about a state that was saved after the last step of epoch 0."""
        passes = self.saved[0].passes
        ends = {len(rank_pass.steps) for rank_pass in passes}
        end = max(ends)
        if not self.saved[0].ended or len(ends) > 1 or not all(end in rank_pass.states for rank_pass in passes):
            why = "Epoch 0 has no end that all ranks reach after the same steps."
            return Finding("stop at the end", NOT_ASKED, why)
        rest, following = self.stopped.rest_and_next(0, end)
        return from_the_end(rest, following, self.saved, self.names, self.shuffled)

    def resumed_on(self, count: int, without_stop: Finding) -> Finding:
        """Ask whether a run that goes on with `count` ranks is handed out the rest of epoch 0.

        Args:
            without_stop: the finding about a run of `count` ranks from its beginning; it is returned if it is not
                passed.
        """
        if without_stop.verdict != PASSED:
            return without_stop

        def ask() -> Finding:
            rests = [self.stopped.rest(0, stop, ranks=count) for stop in (self.stops[0][0], self.stops[0][-1])]
            finding = goes_on(without_stop.question, self.saved, rests, 0, self.is_repeatable, self.names)
            if finding.verdict != PASSED:
                return finding
            ranks = self.stopped.ranks
            resumed = f"A run of {ranks} ranks that goes on with {count} is handed out the rest and nothing else."
            return replace(finding, evidence=f"{without_stop.evidence} {resumed}")

        return finding_of(without_stop.question, ask)


def _on_other_ranks(caller: Caller, ranks: int, reference: Reference, names: SequenceNames, repeats: bool) -> Finding:
    """Ask whether an epoch on another number of ranks has each sequence once, in equal steps."""
    epochs = _run(caller, ranks)
    question = f"on {ranks} ranks"
    each_once = once(epochs, reference, names, repeats, lambda: _run(caller, ranks, numbers=(0, 1, 2))[2])
    for finding in (each_once, equal_steps(epochs)):
        if finding.verdict not in (PASSED, NOT_ASKED):
            return replace(finding, question=question)
    return Finding(question, PASSED, f"On {ranks} ranks all make the same number of steps. {each_once.evidence}")


def _labels_in(epoch: Epoch) -> dict[int, set[int]]:
    """Return the numbers of the labels that each sequence has in an epoch, by its number."""
    labels_of: dict[int, set[int]] = {}
    for rank_pass in epoch.passes:
        for sequences, labels in zip(rank_pass.steps, rank_pass.labels, strict=True):
            for sequence, label in zip(sequences, labels, strict=True):
                labels_of.setdefault(sequence, set()).add(label)
    return labels_of


def _read_source(source: Any, reader: BatchReader, names: SequenceNames) -> tuple[Reference, dict[int, set[int]]]:
    """Return the sequences of a source as a reference; and, by sequence, the numbers of the labels that it may have."""
    num_before = len(names)
    sequence_numbers = []
    labels_of: dict[int, set[int]] = {}
    for sequence in reader.of_source(_rows_of(source)):
        sequence_number = names.number(sequence)
        sequence_numbers.append(sequence_number)
        labels_of.setdefault(sequence_number, set()).add(names.label_number(sequence))
    if not sequence_numbers:
        raise ValueError("source must hold at least one sequence; this one has none.")
    return of_source(sequence_numbers, names, num_before), labels_of


def _rows_of(source: Any) -> Iterator[Any]:
    """Yield the samples of a source: of a data set, of files, or of any collection."""
    source = opened(source)
    is_in_arrow = hasattr(source, "with_format") and hasattr(source, "num_rows")
    are_files = isinstance(source, list) and source and isinstance(source[0], Path)
    if is_in_arrow or are_files:
        for batch in batches(source):
            yield from batch.to_pylist()
    elif hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        for index in range(len(source)):
            yield source[index]
    elif hasattr(source, "__iter__"):
        yield from source
    else:
        raise TypeError(f"source must be a file, a data set or samples, not {shown(source)}.")
