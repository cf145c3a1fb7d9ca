"""The questions about stops: a run that goes on from a saved state is handed out the rest, and nothing else.

A stop is given by the number of steps before it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from packlib.tools.check.findings import FAILED, NOT_ASKED, PASSED, Finding
from packlib.tools.loaders.handed_out import Epoch, Steps, counted, flat
from packlib.tools.loaders.loader_check import INCONCLUSIVE
from packlib.tools.loaders.passes import Caller, LoaderHungError, LoaderRaisedError, new_process
from packlib.tools.loaders.questions import same_steps
from packlib.tools.loaders.sequence_names import SequenceNames

CAUSES = {  # by name, what most likely makes a question fail, and what to do about it
    "nothing": (
        "The state is taken for the end of the epoch.",
        "Look at what load_state_dict does with the position.",
    ),
    "begins again": (
        "The epoch begins again: the state is not read, or is not applied to what hands out the batches.",
        "Load the state in make before it returns the loader, or skip the batches that were handed out.",
    ),
    "other epoch": (
        "The order is that of epoch {epoch}: the position is restored, and the epoch is not.",
        "Restore the epoch too, by set_epoch before the batches are skipped, or keep it in the state.",
    ),
    "too far": (
        "The position is {steps} too far, as where batches that workers fetched ahead are counted, or where "
        "batches are skipped twice.",
        "Count the batches that were handed out, and not those that were fetched.",
    ),
    "too early": (
        "The position is {steps} too early, so what was handed out comes again.",
        "Count all batches of the epoch that were handed out, those before an earlier stop too.",
    ),
    "next order": (
        "The order is that of epoch {epoch}, a later one: the generator's state is from after it had drawn the order.",
        "Save the generator's state from the begin of the epoch, or derive the order from a seed and the epoch.",
    ),
    "come again": (
        "Sequences from before the stop come again: the position is behind, as where packs are counted as samples, or "
        "where a rank knows only what it was handed out itself.",
        "Save how much of the data was handed out, by all ranks and in the unit in which it is skipped.",
    ),
    "of one rank": (
        "Rank 0 goes on where it stopped and the others do not, as where all ranks load the state of rank 0.",
        "Save the state of each rank, or a position that is the same for all.",
    ),
    "lost": (
        "The position is ahead, and what was read and not yet handed out is lost, as what a shuffle buffer, a packer "
        "or workers hold; or steps are counted that have another size now.",
        "Keep the buffer in the state, or save the number of sequences that all ranks were handed out.",
    ),
    "other order": (
        "The rest is drawn from another order: what shuffles (its seed, generator or buffer) is not restored.",
        "Derive the order from a seed and the epoch, or save the state that the generator had as the epoch began.",
    ),
    "raised": ("The state cannot be loaded.", "Look at the error that the loader raises."),
    "skips again": (
        "What was skipped after the stop is skipped in the next epoch too.",
        "Skip in the epoch of the stop alone, and reset the position once it has ended.",
    ),
    "stays at the end": (
        "The position of the state stays at the end, and the next epoch is skipped.",
        "Begin the next epoch at position 0 if the state is from the end of one.",
    ),
    "epoch not counted": (
        "The epoch after the stop repeats the order of the epoch before it: it does not know that one has ended.",
        "Call set_epoch with the number of the epoch after a stop as well.",
    ),
    "next epoch": (
        "The epoch after the stop is not a whole one.",
        "Look at what of the state is still applied once the epoch of the stop has ended.",
    ),
}


class Rest(NamedTuple):
    """The steps of an epoch before and after one stop.

    Attributes:
        stop: number of steps before it.
        before: by rank, the steps before the stop.
        expected: by rank, the steps that should come after it.
        got: by rank, the steps that came after it.
    """

    stop: int
    before: list[Steps]
    expected: list[Steps]
    got: list[Steps]


def failed(question: str, evidence: str, cause: str, **values: object) -> Finding:
    """Return a finding that failed, with the cause of this name in `CAUSES`; `values` fill the text of the cause."""
    why, remedy = CAUSES[cause]
    return Finding(question, FAILED, evidence, why.format(**values), remedy)


def stops_of(epoch: Epoch) -> list[int]:
    """Choose where to stop: after each step of a short epoch, or else after a few of its steps.

    These are the first, the second, the one in the middle and the last but one.
    """
    steps = min(len(rank_pass.steps) for rank_pass in epoch.passes)
    return list(range(1, steps)) if steps <= 5 else sorted({1, 2, steps // 2, steps - 1})


def goes_on(
    question: str, saved: Sequence[Epoch], rests: Sequence[Rest], epoch: int, is_repeatable: bool, names: SequenceNames
) -> Finding:
    """Ask whether after each stop in an epoch the rest of it is handed out, and nothing else.

    Args:
        saved: epochs 0 and 1 of the run that saved its states.
        epoch: the number of the epoch that was stopped.
        is_repeatable: whether two runs without a stop are handed out the same.
    """
    if not rests:
        return Finding(question, NOT_ASKED, "An epoch of one step has no stop inside.")
    ended = saved[epoch].ended
    stops_with_other_order = []
    for rest in rests:
        if same_steps(rest.expected, rest.got):
            continue
        if counted(rest.expected) == counted(rest.got):
            stops_with_other_order.append(rest.stop)
            continue
        if not ended and not is_repeatable:
            evidence = (
                "Each run is handed out another order, and an epoch does not end: what is the rest is not known."
            )
            return Finding(question, INCONCLUSIVE, evidence)
        return _wrong_rest(question, saved, rest, epoch, names)
    steps_in_words = ", ".join(f"{stop:,}" for stop in sorted(rest.stop for rest in rests))
    stops = "a stop at step" if len(rests) == 1 else "stops at steps"
    evidence = f"In epoch {epoch}, after {stops} {steps_in_words}, each rank is handed out the rest and nothing else."
    if stops_with_other_order:
        steps_in_words = ", ".join(map(str, stops_with_other_order))
        evidence += f" After step {steps_in_words} it comes in another order than without the stop."
    return Finding(question, PASSED, evidence)


def _wrong_rest(question: str, saved: Sequence[Epoch], rest: Rest, epoch: int, names: SequenceNames) -> Finding:
    """Return the failure that after a stop other sequences come than the rest, with the most likely cause."""
    expected, got, before = counted(rest.expected), counted(rest.got), counted(rest.before)
    missing, unexpected = expected - got, got - expected
    parts = []
    if missing:
        are = "is" if missing.total() == 1 else "are"
        parts.append(
            f"{missing.total():,} of {expected.total():,} sequences {are} never handed out: "
            f"{names.named(list(missing))}"
        )
    if unexpected:
        again = unexpected & before
        come = "comes" if unexpected.total() == 1 else "come"
        parts.append(
            f"{unexpected.total():,} {come} besides, {again.total():,} of them a second time: "
            f"{names.named(list(unexpected))}"
        )
    evidence = f"Epoch {epoch}, stopped after step {rest.stop:,}: {'; '.join(parts)}."
    cause, values = _cause_of(saved, rest, epoch)
    return failed(question, evidence, cause, **values)


def _cause_of(saved: Sequence[Epoch], rest: Rest, epoch: int) -> tuple[str, dict[str, object]]:
    """Return the most likely cause of a wrong rest, by its name in `CAUSES`, with the values that fill its text."""
    got_by_rank = [flat(steps) for steps in rest.got]
    if not any(got_by_rank):
        return "nothing", {}
    if len(got_by_rank) == len(saved[epoch].orders) and (cause := _cause_by_rank(saved, rest, got_by_rank, epoch)):
        return cause
    expected, got, before = counted(rest.expected), counted(rest.got), counted(rest.before)
    missing, unexpected = expected - got, got - expected
    if not unexpected:
        return "lost", {}
    is_behind = unexpected <= before and unexpected.total() > 2 * missing.total()
    return ("come again" if is_behind else "other order"), {}


def _cause_by_rank(
    saved: Sequence[Epoch], rest: Rest, got_by_rank: list[list[int]], epoch: int
) -> tuple[str, dict[str, object]] | None:
    """Return the cause that gives each rank exactly these sequences, as `_cause_of` does; None if no cause does.

    Args:
        got_by_rank: the sequences that came after the stop; the same number of ranks has gone on.
    """
    orders = saved[epoch].orders
    if all(_begins(flat(steps), got) for steps, got in zip(orders, got_by_rank, strict=True)):
        return "begins again", {}
    for other_number, other_epoch in enumerate(saved):
        tails = [flat(steps[rest.stop :]) for steps in other_epoch.orders]
        whole_by_rank = [flat(steps) for steps in other_epoch.orders]
        if other_number != epoch and got_by_rank in (tails, whole_by_rank):
            return "next order" if other_number > epoch else "other epoch", {"epoch": other_number}
    for distance in range(1, max(map(len, orders)) + 1):
        if [flat(steps[rest.stop + distance :]) for steps in orders] == got_by_rank:
            return "too far", {"steps": _batches(distance)}
        if distance <= rest.stop and all(
            _begins(flat(steps[rest.stop - distance :]), got) for steps, got in zip(orders, got_by_rank, strict=True)
        ):
            return "too early", {"steps": _batches(distance)}
    is_right = [flat(steps) == got for steps, got in zip(rest.expected, got_by_rank, strict=True)]
    return ("of one rank", {}) if is_right[0] and not any(is_right[1:]) else None


def _batches(count: int) -> str:
    """Return "1 batch", "2 batches" and so on."""
    return f"{count:,} batch{'es' * (count != 1)}"


def _begins(whole: list[int], part: list[int]) -> bool:
    """Return True if `whole` begins with `part`, which may be all of it; False if `part` is empty."""
    return bool(part) and whole[: len(part)] == part


class Stopped:
    """Runs that go on from the states that another run has saved.

    Args:
        ranks: number of ranks of the run that saved its states.
        saved: epochs 0 and 1 of that run.
    """

    def __init__(self, caller: Caller, ranks: int, saved: Sequence[Epoch]) -> None:
        self.caller = caller
        self.ranks = ranks
        self.saved = saved

    def rest(self, epoch: int, stop: int, ranks: int | None = None) -> Rest:
        """Let all ranks go on after a stop in an epoch, or another number of ranks; return what they are handed out."""
        ranks = self.ranks if ranks is None else ranks
        got = []
        for rank in range(ranks):
            with new_process():
                got.append(self.caller.one_pass(rank, ranks, epoch, self._state(rank, epoch, stop), done=stop).steps)
        return self._rest(epoch, stop, got)

    def rest_and_next(self, epoch: int, stop: int) -> tuple[Rest, Epoch]:
        """Let all ranks go on after a stop in an epoch, and take the next epoch too; return both."""
        got, next_passes = [], []
        for rank in range(self.ranks):
            with new_process():
                state = self._state(rank, epoch, stop)
                got.append(self.caller.one_pass(rank, self.ranks, epoch, state, done=stop).steps)
                next_passes.append(self.caller.one_pass(rank, self.ranks, epoch + 1))
        following = Epoch(f"epoch {epoch + 1}, after a stop at step {stop} of epoch {epoch}", next_passes)
        return self._rest(epoch, stop, got), following

    def second_rest(self, epoch: int, stop: int, more: int) -> Rest | str:
        """Let all ranks go on after a stop, stop again after `more` steps, and go on from there.

        Returns:
            What they are handed out after the second stop; or why no state was saved there.
        """
        got = []
        for rank in range(self.ranks):
            with new_process():
                state = self._state(rank, epoch, stop)
                first_pass = self.caller.one_pass(rank, self.ranks, epoch, state, save=(more,), done=stop)
            if more not in first_pass.states:
                return first_pass.unsaved or "the run ends before the second stop"
            with new_process():
                second_state = first_pass.states[more]
                got.append(self.caller.one_pass(rank, self.ranks, epoch, second_state, done=stop + more).steps)
        return self._rest(epoch, stop + more, got)

    def _rest(self, epoch: int, stop: int, got: list[Steps]) -> Rest:
        """Return what came after a stop, by rank, with the steps before it and those that should come."""
        orders = self.saved[epoch].orders
        return Rest(stop, [steps[:stop] for steps in orders], [steps[stop:] for steps in orders], got)

    def _state(self, rank: int, epoch: int, stop: int) -> bytes:
        """Return the state that a rank loads: its own, or, if more ranks go on than had saved one, that of another."""
        return self.saved[epoch].passes[rank % self.ranks].states[stop]


def finding_of(question: str, ask: Callable[[], Finding]) -> Finding:
    """Return the finding of `ask`, or a failure if the loader raises an error or hangs, as with a state."""
    try:
        return ask()
    except (LoaderRaisedError, LoaderHungError) as error:
        return failed(question, f"{str(error).rstrip('.')}.", "raised")


def from_the_end(
    rest: Rest, following: Epoch, saved: Sequence[Epoch], names: SequenceNames, shuffled: bool
) -> Finding:
    """Ask whether after a stop at the end of epoch 0 no more of it is handed out, and epoch 1 is whole.

    A loader that counts the epochs itself may hand out epoch 1 at once.

    Args:
        rest: what is handed out after that stop.
        following: epoch 1 after that.
        saved: epochs 0 and 1 of the run that saved its states.
        shuffled: whether each epoch should have another order.
    """
    question = "stop at the end"
    if any(map(flat, rest.got)):
        if same_steps(rest.got, saved[1].orders):
            return Finding(question, PASSED, "The state from the end of epoch 0 goes on with epoch 1, all of it.")
        got = counted(rest.got)
        evidence = (
            f"After a stop at the end of epoch 0, {got.total():,} sequences come again: {names.named(list(got))}."
        )
        begins_again = all(
            _begins(flat(steps), flat(got_steps)) for steps, got_steps in zip(saved[0].orders, rest.got, strict=True)
        )
        return failed(question, evidence, "begins again" if begins_again else "come again")
    if not any(map(flat, following.orders)):
        return failed(question, "After a stop at the end of epoch 0, epoch 1 hands out nothing.", "stays at the end")
    return next_epoch(question, following, saved, rest.stop, names, shuffled)


def next_epoch(
    question: str, following: Epoch, saved: Sequence[Epoch], stop: int, names: SequenceNames, shuffled: bool
) -> Finding:
    """Ask whether epoch 1 after a stop in epoch 0 is the same as epoch 1 without the stop.

    Args:
        following: epoch 1 after the stop.
        saved: epochs 0 and 1 of the run that saved its states.
        shuffled: whether each epoch should have another order.
    """
    without_stop = saved[1]
    if same_steps(without_stop.orders, following.orders):
        return Finding(question, PASSED, f"After a stop at step {stop:,} of epoch 0, epoch 1 is as without it.")
    expected, got = counted(without_stop.orders), counted(following.orders)
    if shuffled and same_steps(saved[0].orders, following.orders):
        evidence = f"After a stop at step {stop:,} of epoch 0, epoch 1 has the order of epoch 0 again."
        return failed(question, evidence, "epoch not counted")
    missing, unexpected = expected - got, got - expected
    # Another order may leave other sequences out of the last step, so up to a step's sequences may be exchanged.
    may_be_another_order = missing.total() + unexpected.total() < 2 * max(1, without_stop.per_step)
    if may_be_another_order and abs(expected.total() - got.total()) <= 1:
        return Finding(question, PASSED, f"After a stop at step {stop:,} of epoch 0, epoch 1 has another order.")
    evidence = (
        f"After a stop at step {stop:,} of epoch 0, epoch 1 lacks {missing.total():,} of {expected.total():,} "
        f"sequences and has {unexpected.total():,} besides"
    )
    evidence += f": {names.named(list(missing))}." if missing else "."
    tails = [flat(steps[stop:]) for steps in without_stop.orders]
    sizes = [len(flat(steps)) for steps in following.orders]
    is_tail = [flat(steps) for steps in following.orders] == tails or sizes == [len(tail) for tail in tails]
    return failed(question, evidence, "skips again" if is_tail else "next epoch")
