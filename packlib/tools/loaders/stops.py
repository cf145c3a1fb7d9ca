"""The questions about stops: a run that goes on from a saved state is handed out the rest, and nothing else."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from packlib.tools.check.findings import FAILED, NOT_ASKED, PASSED, Finding
from packlib.tools.loaders.handed_out import Epoch, Steps, counted, flat
from packlib.tools.loaders.loader_check import INCONCLUSIVE
from packlib.tools.loaders.passes import Caller, LoaderHungError, LoaderRaisedError, new_process
from packlib.tools.loaders.questions import same_steps
from packlib.tools.loaders.sequence_names import SequenceNames

CAUSES = {
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
    """The steps before and after one stop.

    Attributes:
        stop: steps before it.
        before, expected, got: by rank, the steps before the stop, those that should come, and those that came.
    """

    stop: int
    before: list[Steps]
    expected: list[Steps]
    got: list[Steps]


def failed(question: str, evidence: str, cause: str, **values: object) -> Finding:
    """Return a failure whose cause has this name in `CAUSES`."""
    why, remedy = CAUSES[cause]
    return Finding(question, FAILED, evidence, why.format(**values), remedy)


def stops_of(epoch: Epoch) -> list[int]:
    """Choose where to stop: after all steps of a short epoch, else the first two, the middle and the last but one."""
    steps = min(len(rank_pass.steps) for rank_pass in epoch.passes)
    inside = range(1, steps)
    return list(inside) if steps <= 5 else sorted({1, 2, steps // 2, steps - 1})


def goes_on(
    question: str, saved: Sequence[Epoch], rests: Sequence[Rest], epoch: int, is_repeatable: bool, names: SequenceNames
) -> Finding:
    """Ask whether after each stop in an epoch the rest of it is handed out, and nothing else.

    Args:
        saved: epochs 0 and 1 of the run that saved its states.
        is_repeatable: whether two runs are handed out the same.
    """
    if not rests:
        return Finding(question, NOT_ASKED, "An epoch of one step has no stop inside.")
    ended = saved[epoch].ended
    other_order = []
    for rest in rests:
        if same_steps(rest.expected, rest.got):
            continue
        want, came = counted(rest.expected), counted(rest.got)
        if want == came:
            other_order.append(rest.stop)
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
    if other_order:
        evidence += f" After step {', '.join(map(str, other_order))} it comes in another order than without the stop."
    return Finding(question, PASSED, evidence)


def _wrong_rest(question: str, saved: Sequence[Epoch], rest: Rest, epoch: int, names: SequenceNames) -> Finding:
    want, came, before = counted(rest.expected), counted(rest.got), counted(rest.before)
    missing, besides = want - came, came - want
    begin = f"Epoch {epoch}, stopped after step {rest.stop:,}: "
    parts = []
    if missing:
        verb = "is" if missing.total() == 1 else "are"
        parts.append(
            f"{missing.total():,} of {want.total():,} sequences {verb} never handed out: {names.named(list(missing))}"
        )
    if besides:
        twice = besides & before
        comes = "comes" if besides.total() == 1 else "come"
        parts.append(
            f"{besides.total():,} {comes} besides, {twice.total():,} of them a second time: "
            f"{names.named(list(besides))}"
        )
    cause, values = _cause_of(saved, rest, epoch)
    return failed(question, f"{begin}{'; '.join(parts)}.", cause, **values)


def _cause_of(saved: Sequence[Epoch], rest: Rest, epoch: int) -> tuple[str, dict[str, object]]:
    """Name the fault that gives exactly these steps after a stop."""
    came_by_rank = [flat(steps) for steps in rest.got]
    if not any(came_by_rank):
        return "nothing", {}
    if len(came_by_rank) == len(saved[epoch].orders) and (cause := _cause_by_rank(saved, rest, came_by_rank, epoch)):
        return cause
    want, came, before = counted(rest.expected), counted(rest.got), counted(rest.before)
    missing, besides = (want - came).total(), came - want
    if not besides:
        return "lost", {}
    return ("come again" if besides <= before and besides.total() > 2 * missing else "other order"), {}


def _cause_by_rank(
    saved: Sequence[Epoch], rest: Rest, came_by_rank: list[list[int]], epoch: int
) -> tuple[str, dict[str, object]] | None:
    """Name the fault that gives each rank exactly these steps, if the same number of ranks goes on; None if none does.

    Args:
        got: by rank, the sequences that came.
    """
    full = [flat(steps) for steps in saved[epoch].orders]
    if all(_begins(whole_epoch, came) for whole_epoch, came in zip(full, came_by_rank, strict=True)):
        return "begins again", {}
    for other_epoch, epoch_saved in enumerate(saved):
        tails = [flat(steps[rest.stop :]) for steps in epoch_saved.orders]
        whole_by_rank = [flat(steps) for steps in epoch_saved.orders]
        if other_epoch != epoch and (came_by_rank == tails or came_by_rank == whole_by_rank):
            return "next order" if other_epoch > epoch else "other epoch", {"epoch": other_epoch}
    for off in range(1, max(map(len, saved[epoch].orders)) + 1):
        if [flat(steps[rest.stop + off :]) for steps in saved[epoch].orders] == came_by_rank:
            return "too far", {"steps": _batches(off)}
        if off <= rest.stop and all(
            _begins(flat(steps[rest.stop - off :]), came)
            for steps, came in zip(saved[epoch].orders, came_by_rank, strict=True)
        ):
            return "too early", {"steps": _batches(off)}
    right = [flat(want) == came for want, came in zip(rest.expected, came_by_rank, strict=True)]
    return ("of one rank", {}) if right[0] and not any(right[1:]) else None


def _batches(count: int) -> str:
    return f"{count:,} batch{'es' * (count != 1)}"


def _begins(whole: list[int], part: list[int]) -> bool:
    """Return True if `whole` begins with `part`, or equals it; False if `part` is empty."""
    return bool(part) and whole[: len(part)] == part


class Stopped:
    """Runs that go on from the states that another run has saved.

    Args:
        saved: epochs 0 and 1 of the run that saved its states.
    """

    def __init__(self, caller: Caller, ranks: int, saved: Sequence[Epoch]) -> None:
        self.caller = caller
        self.ranks = ranks
        self.saved = saved

    def rest(self, epoch: int, stop: int, ranks: int | None = None) -> Rest:
        """Let all ranks go on after a stop in an epoch."""
        ranks = self.ranks if ranks is None else ranks
        orders = self.saved[epoch].orders
        came = []
        for rank in range(ranks):
            with new_process():
                came.append(self.caller.one_pass(rank, ranks, epoch, self._state(rank, epoch, stop), done=stop).steps)
        before = [steps[:stop] for steps in orders]
        return Rest(stop, before, [steps[stop:] for steps in orders], came)

    def rest_and_next(self, epoch: int, stop: int) -> tuple[Rest, Epoch]:
        """Let all ranks go on after a stop in an epoch, and take the next epoch too."""
        came, following = [], []
        for rank in range(self.ranks):
            with new_process():
                state = self._state(rank, epoch, stop)
                came.append(self.caller.one_pass(rank, self.ranks, epoch, state, done=stop).steps)
                following.append(self.caller.one_pass(rank, self.ranks, epoch + 1))
        orders = self.saved[epoch].orders
        rest = Rest(stop, [steps[:stop] for steps in orders], [steps[stop:] for steps in orders], came)
        return rest, Epoch(f"epoch {epoch + 1}, after a stop at step {stop} of epoch {epoch}", following)

    def second_rest(self, epoch: int, stop: int, more: int) -> Rest | str:
        """Let all ranks go on after a stop, and again after so many more steps; or why no state was saved there."""
        came = []
        for rank in range(self.ranks):
            with new_process():
                state = self._state(rank, epoch, stop)
                first = self.caller.one_pass(rank, self.ranks, epoch, state, save=(more,), done=stop)
            if more not in first.states:
                return first.unsaved or "the run ends before the second stop"
            with new_process():
                second_state = first.states[more]
                came.append(self.caller.one_pass(rank, self.ranks, epoch, second_state, done=stop + more).steps)
        orders, second_stop = self.saved[epoch].orders, stop + more
        return Rest(
            second_stop, [steps[:second_stop] for steps in orders], [steps[second_stop:] for steps in orders], came
        )

    def _state(self, rank: int, epoch: int, stop: int) -> bytes:
        """Return the state that a rank loads; where there are more ranks than had saved one, in turn."""
        return self.saved[epoch].passes[rank % self.ranks].states[stop]


def asked(question: str, ask: Callable[[], Finding]) -> Finding:
    """Return the finding, or the failure where a loader does not take its state."""
    try:
        return ask()
    except (LoaderRaisedError, LoaderHungError) as error:
        return failed(question, f"{str(error).rstrip('.')}.", "raised")


def from_the_end(
    rest: Rest, following: Epoch, saved: Sequence[Epoch], names: SequenceNames, shuffled: bool
) -> Finding:
    """Ask whether after a stop at the end of an epoch nothing is left of it, and the next one is whole.

    A loader that counts the epochs itself may hand out the next one at once.

    Args:
        rest: what the state of the end of epoch 0 hands out.
        following: what comes then as epoch 1.
    """
    question = "stop at the end"
    if any(map(flat, rest.got)):
        if same_steps(rest.got, saved[1].orders):
            return Finding(question, PASSED, "The state from the end of epoch 0 goes on with epoch 1, all of it.")
        came = counted(rest.got)
        evidence = (
            f"After a stop at the end of epoch 0, {came.total():,} sequences come again: {names.named(list(came))}."
        )
        begins = all(_begins(flat(full), flat(steps)) for full, steps in zip(saved[0].orders, rest.got, strict=True))
        return failed(question, evidence, "begins again" if begins else "come again")
    if not any(map(flat, following.orders)):
        return failed(question, "After a stop at the end of epoch 0, epoch 1 hands out nothing.", "stays at the end")
    return next_epoch(question, following, saved, rest.stop, names, shuffled)


def next_epoch(
    question: str, following: Epoch, saved: Sequence[Epoch], stop: int, names: SequenceNames, shuffled: bool
) -> Finding:
    """Ask whether the epoch after a stop is the one that comes without it."""
    straight = saved[1]
    if same_steps(straight.orders, following.orders):
        return Finding(question, PASSED, f"After a stop at step {stop:,} of epoch 0, epoch 1 is as without it.")
    want, came = counted(straight.orders), counted(following.orders)
    if shuffled and same_steps(saved[0].orders, following.orders):
        evidence = f"After a stop at step {stop:,} of epoch 0, epoch 1 has the order of epoch 0 again."
        return failed(question, evidence, "epoch not counted")
    missing, besides = want - came, came - want
    if missing.total() + besides.total() < 2 * max(1, straight.per_step) and abs(want.total() - came.total()) <= 1:
        return Finding(question, PASSED, f"After a stop at step {stop:,} of epoch 0, epoch 1 has another order.")
    evidence = (
        f"After a stop at step {stop:,} of epoch 0, epoch 1 lacks {missing.total():,} of {want.total():,} sequences "
        f"and has {besides.total():,} besides"
    )
    evidence += f": {names.named(list(missing))}." if missing else "."
    tails = [flat(steps[stop:]) for steps in straight.orders]
    size = [len(flat(steps)) for steps in following.orders]
    is_tail = [flat(steps) for steps in following.orders] == tails or size == [len(tail) for tail in tails]
    return failed(question, evidence, "skips again" if is_tail else "next epoch")
