"""The questions about epochs: each sequence once, whole and with its labels, in equal steps and another order."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from packlib.batches.batch import IGNORED
from packlib.tools.check.findings import FAILED, NOT_ASKED, PASSED, Finding
from packlib.tools.loaders.handed_out import Epoch, Reference, Steps, counted, flat
from packlib.tools.loaders.loader_check import INCONCLUSIVE
from packlib.tools.loaders.sequence_names import OTHER_TOKENS, SequenceNames

_FEW = 5  # different sequences; the order of fewer can be the same by chance
_NO_LABELS = "neither labels nor a mask of the loss"
_GIVE_ID = "Name the sequences by a column that the batches keep: --id COLUMN."

CAUSES = {
    "ranks see all": (
        "All ranks are handed out the same sequences: nothing shares the data out.",
        "Give each rank its share: a DistributedSampler, split_dataset_by_node, or accelerate's prepare.",
    ),
    "workers see all": (
        "Each rank is handed out its sequences {times} times, as where each worker of a stream reads all of it.",
        "Let each worker take its part by torch.utils.data.get_worker_info().",
    ),
    "other orders": (
        "The ranks take their shares out of different orders, as where each shuffles with a seed of its own.",
        "Shuffle with one seed on all ranks, and then deal out.",
    ),
    "filled up": (
        "The last step is filled up by repeating sequences, as DistributedSampler and accelerate do.",
        "Choose a number of sequences that ranks × batch size divides, or leave the rest out; if repeating is meant, "
        "pass --repeats.",
    ),
    "twice": (
        "Some sequences are handed out again within the epoch, as where they are drawn with replacement, or where "
        "shares overlap.",
        "Look at how ranks and workers share the data. If a sequence is meant to come again, let the source have it so "
        "often.",
    ),
    "never": (
        "More is left out than the rest of one step.",
        "Look at drop_last of each worker or rank, at shares of different sizes, and at filters.",
    ),
    "labels lost": (
        "Tokens that the reference trains on have no label.",
        "Look at what cuts, packs or collates labels, and at the label that stands for none (-100).",
    ),
    "labels added": (
        "Tokens that the reference does not train on have a label: the mask of the loss is lost on the way.",
        "Carry labels, or the mask of the loss, through packing and collating.",
    ),
    "labels moved": (
        "Labels are moved or exchanged, as where they are shuffled apart from the tokens.",
        "Look at what collate does with labels, and that both are shuffled together.",
    ),
    "never the same": (
        "The same sequences are left out in each epoch, so no epoch ever trains on them.",
        "Shuffle before the rest is dropped, or keep the rest.",
    ),
}


def failed(question: str, evidence: str, cause: str, **values: object) -> Finding:
    """Return a failure whose cause has this name in `CAUSES`."""
    why, remedy = CAUSES[cause]
    return Finding(question, FAILED, evidence, why.format(**values), remedy.format(**values))


class _Tally(NamedTuple):
    """How often each sequence came in an epoch.

    Attributes:
        is_whole: the epoch ended, and the reference has all sequences; otherwise only its first steps are counted.
        counts: how often each sequence came.
        too_often: how many times too many, of the expected sequences that came too often.
        missing: how many times too few, of those that came too seldom.
    """

    epoch: Epoch
    is_whole: bool
    counts: Counter
    too_often: Counter
    missing: Counter

    @property
    def first_steps(self) -> str:
        """What was counted of an epoch that is not whole, in words."""
        steps = max(map(len, self.epoch.orders))
        return f"{self.counts.total():,} sequences in the first {steps:,} steps of {self.epoch.name}"


def once(
    epochs: Sequence[Epoch], reference: Reference, names: SequenceNames, repeats: bool, another: Callable[[], Epoch]
) -> Finding:
    """Ask whether each sequence is handed out once an epoch, over all ranks and workers.

    Args:
        repeats: whether the last step may be filled up by repeating sequences.
        another: takes one more epoch, where two leave out the same, as can happen by chance.
    """
    if finding := _unfit_reference(reference):
        return finding
    tallies = [_tally(epoch, reference) for epoch in epochs]
    for tally in tallies:
        if finding := _fault_of_epoch(tally, reference, names, repeats):
            return finding
    whole_epochs = [tally for tally in tallies if tally.is_whole]
    if finding := _missing_again(whole_epochs, reference, names, another):
        return finding
    begun = [tally for tally in tallies if not tally.is_whole]
    if begun:
        return _right_so_far(begun, reference)
    notes = [note for tally in whole_epochs for note in _notes(tally, names)]
    count = f"Each of {reference.expected.total():,} sequences comes once an epoch."
    return Finding("once", PASSED, count if not notes else f"{count} But {'; '.join(notes)}.")


def _unfit_reference(reference: Reference) -> Finding | None:
    """Answer if the reference does not tell which sequences an epoch should have."""
    if reference.repeated > 1:
        evidence = (
            f"One rank alone is handed out each of {len(reference.expected):,} sequences {reference.repeated} times in "
            "an epoch. If the data set has each so often, give it as --source."
        )
        return failed("once", evidence, "workers see all", times=reference.repeated)
    if reference.half_known:
        evidence = (
            "Less than half of the sequences of epoch 0 come again in epoch 1: their tokens change, as by masking."
        )
        return Finding("once", INCONCLUSIVE, f"{evidence} {_GIVE_ID}")
    return None


def _tally(epoch: Epoch, reference: Reference) -> _Tally:
    """Count how often each sequence came in an epoch, and compare that with the reference."""
    counts = reference.counts(epoch.orders)
    too_often = Counter(
        {number: times - reference.expected[number] for number, times in counts.items()
         if 0 < reference.expected[number] < times}
    )  # fmt: skip
    return _Tally(epoch, epoch.ended and reference.whole, counts, too_often, reference.expected - counts)


def _fault_of_epoch(tally: _Tally, reference: Reference, names: SequenceNames, repeats: bool) -> Finding | None:
    """Answer if one epoch alone shows that sequences are changed, come too often, or are left out."""
    if finding := _changed(tally, reference):
        return finding
    if not tally.is_whole:
        return _once_so_far(tally, reference, names)
    epoch, times_too_many = tally.epoch, tally.too_often.total()
    fills_up = repeats and times_too_many < epoch.per_step and not tally.missing
    if times_too_many and not fills_up:
        return _repeated(tally, reference, names)
    if tally.missing.total() >= max(1, epoch.per_step):
        evidence = f"{epoch.name.capitalize()}: {_never(tally.missing, reference, names)}."
        return failed("once", evidence, "never")
    return None


def _changed(tally: _Tally, reference: Reference) -> Finding | None:
    """Answer if the reference does not know most sequences of an epoch."""
    unknown = sum(times for number, times in tally.counts.items() if number not in reference.expected)
    if unknown * 2 <= tally.counts.total():
        return None
    if reference.from_source:
        why = "in the source: their tokens were changed, or the source is another one."
    else:
        why = "among what one rank is handed out: their tokens were changed."
    evidence = f"{unknown:,} of {tally.counts.total():,} sequences of {tally.epoch.name} are not {why}"
    return Finding("once", INCONCLUSIVE, f"{evidence} {_GIVE_ID}")


def _missing_again(
    tallies: Sequence[_Tally], reference: Reference, names: SequenceNames, another: Callable[[], Epoch]
) -> Finding | None:
    """Answer if whole epochs, and one more, all leave out the same sequences."""
    missing = [tally.missing for tally in tallies]
    if len(missing) < 2 or not missing[0] or any(of_epoch != missing[0] for of_epoch in missing):
        return None
    if reference.expected - reference.counts(another().orders) != missing[0]:
        return None
    evidence = f"{_never(missing[0], reference, names)}, the same in each of {len(missing) + 1} epochs."
    return failed("once", evidence.capitalize(), "never the same")


def _right_so_far(begun: Sequence[_Tally], reference: Reference) -> Finding:
    """Say what epochs show that did not end before the limit of steps."""
    first_steps = "; ".join(tally.first_steps for tally in begun)
    rounds = [times for tally in begun for times in _rounds([tally.counts[number] for number in reference.expected])]
    if min(rounds) > 0 and reference.whole:
        times = f"{min(rounds)} to {max(rounds)} times"
        evidence = f"Up to the limit, each of {len(reference.expected):,} sequences came {times}: {first_steps}."
        return Finding("once", PASSED, evidence)
    evidence = f"Up to the limit, no sequence came too often: {first_steps}. Whether all come is not known."
    return Finding("once", INCONCLUSIVE, evidence)


def _notes(tally: _Tally, names: SequenceNames) -> Iterator[str]:
    """Say what of an epoch's last step is repeated or left out."""
    epoch, too_often, missing = tally.epoch, tally.too_often, tally.missing
    if too_often:
        yield f"{epoch.name}: {too_often.total():,} repeated to fill the last step: {names.named(list(too_often))}"
    if missing:
        yield f"{epoch.name}: {missing.total():,} left out, fewer than a step has: {names.named(list(missing))}"


def _once_so_far(tally: _Tally, reference: Reference, names: SequenceNames) -> Finding | None:
    """Return the finding that the first steps of an unfinished epoch already allow; None if there is none."""
    epoch, more, missing = tally.epoch, tally.too_often, tally.missing
    times = [tally.counts[number] for number in reference.expected]
    if not more or min(_rounds(times)) > 0:
        return None
    begin = f"{epoch.name.capitalize()}: in its first {max(map(len, epoch.orders)):,} steps"
    evidence = (
        f"{begin} {more.total():,} come too often: {names.named(list(more))}; {missing.total():,} did not come yet."
    )
    return _with_cause_of_repeats(evidence, epoch, reference, more, missing)


def _rounds(times: list[int]) -> list[int]:
    """Return the fewest and the most times that a stream has handed out all; [0] if they differ by more than one.

    Args:
        times: how often each sequence came.
    """
    return [min(times), max(times)] if max(times) - min(times) <= 1 and min(times) > 0 else [0]


def _repeated(tally: _Tally, reference: Reference, names: SequenceNames) -> Finding:
    """Say which sequences came too often in an epoch, and why."""
    epoch, more, missing = tally.epoch, tally.too_often, tally.missing
    most_times = max(tally.counts[number] for number in more)
    evidence = (
        f"{epoch.name.capitalize()}: {len(more):,} of {len(reference.expected):,} different sequences come too often, "
        f"up to {most_times} times: {names.named(list(more))}"
    )
    if missing:
        evidence += f"; {_never(missing, reference, names)}"
    return _with_cause_of_repeats(f"{evidence}.", epoch, reference, more, missing)


def _with_cause_of_repeats(
    evidence: str, epoch: Epoch, reference: Reference, more: Counter, missing: Counter
) -> Finding:
    """Return the failure, with its cause by what each rank is handed out."""
    by_rank = [reference.counts([steps]) for steps in epoch.orders]
    nonempty = [counts for counts in by_rank if counts]
    most_times = [max(counts[number] / reference.expected[number] for number in counts if reference.expected[number])
           for counts in nonempty if any(reference.expected[number] for number in counts)]  # fmt: skip
    if len(nonempty) > 1 and all(counts == nonempty[0] for counts in nonempty):
        return failed("once", evidence, "ranks see all")
    if not missing and most_times and min(most_times) > 1 and _all_so_often(by_rank, reference):
        return failed("once", evidence, "workers see all", times=f"{min(most_times):g}")
    if not missing and more.total() < epoch.per_step:
        return failed("once", evidence, "filled up")
    if missing and len(nonempty) > 1 and max(most_times, default=0) <= 1:
        return failed("once", evidence, "other orders")
    return failed("once", evidence, "twice")


def _all_so_often(by_rank: list[Counter], reference: Reference) -> bool:
    """Return True if each rank has all of its own sequences equally often, relative to the reference."""
    return all(
        len({times / reference.expected[number] for number, times in counts.items() if reference.expected[number]})
        <= 1
        for counts in by_rank
    )


def _never(missing: Counter, reference: Reference, names: SequenceNames) -> str:
    count = f"{missing.total():,} of {reference.expected.total():,} sequences"
    return f"{count} {'is' if missing.total() == 1 else 'are'} left out: {names.named(list(missing))}"


def whole(epochs: Sequence[Epoch], reference: Reference, names: SequenceNames) -> Finding:
    """Ask whether each sequence has the tokens that the source has."""
    if not reference.from_source:
        return Finding("tokens", NOT_ASKED, "Whether sequences are whole takes a source: --source.")
    handed_out = counted(steps for epoch in epochs for steps in epoch.orders)
    unknown = [number for number in handed_out if number not in reference.expected]
    if not unknown:
        by = "by their ids" if names.first and names.first[0].name is not None else "with all their tokens"
        return Finding("tokens", PASSED, f"All sequences that are handed out are in the source, {by}.")
    cut = [number for number in unknown if number in reference.alias and _is_shorter(number, reference, names)]
    added = [number for number in unknown if number in reference.alias and number not in cut]
    strangers = [number for number in unknown if number not in reference.alias]
    parts = []
    if cut:
        first_cut = cut[0]
        of = len(names.first[reference.alias[first_cut]].tokens)
        example = (
            f"row {names.rows[reference.alias[first_cut]]:,} to {len(names.first[first_cut].tokens)} of {of} tokens"
        )
        parts.append(f"{len(cut):,} are cut, such as {example}")
    if added:
        parts.append(f"{len(added):,} have a token more at their beginning or end: {names.named(added)}")
    if strangers:
        parts.append(f"{len(strangers):,} are none of the source's: {names.named(strangers)}")
    evidence = f"Of {len(handed_out):,} different sequences that are handed out, {'; '.join(parts)}."
    if len(unknown) == len(handed_out) or len(strangers) * 2 > len(handed_out):
        return Finding("tokens", INCONCLUSIVE, f"{evidence} {_GIVE_ID}")
    return Finding(
        "tokens", FAILED, evidence, "The loader cuts or changes sequences.",
        "Give the source as the loader reads it, cut to its longest length, or mend the loader.",
    )  # fmt: skip


def _is_shorter(number: int, reference: Reference, names: SequenceNames) -> bool:
    return len(names.first[number].tokens) < len(names.first[reference.alias[number]].tokens)


def equal_steps(epochs: Sequence[Epoch]) -> Finding:
    """Ask whether each rank makes the same number of steps, and none of them is empty."""
    for epoch in epochs:
        empty = [
            (rank, at)
            for rank, rank_pass in enumerate(epoch.passes)
            for at, step in enumerate(rank_pass.steps)
            if not step and at not in rank_pass.blank
        ]
        if empty:
            rank, at = empty[0]
            evidence = f"{epoch.name.capitalize()}: rank {rank} gets a batch without a sequence, at step {at:,}."
            return Finding(
                "steps", FAILED, evidence,
                "The last step has fewer sequences than the ranks have places.",
                "Deal the last step out to all ranks, or drop it on all of them.",
            )  # fmt: skip
    if len(epochs[0].passes) == 1:
        return Finding("steps", NOT_ASKED, "One rank has nobody to wait for: --ranks.")
    for epoch in epochs:
        steps = [len(rank_pass.steps) for rank_pass in epoch.passes]
        if len(set(steps)) > 1:
            shortest, longest = steps.index(min(steps)), steps.index(max(steps))
            evidence = (
                f"{epoch.name.capitalize()}: rank {shortest} makes {steps[shortest]:,} steps and rank {longest} "
                f"{steps[longest]:,}."
            )
            return Finding(
                "steps", FAILED, evidence, "The shares of the ranks differ in size.",
                "Share out so that each rank gets the same number of batches; else ranks wait for each other forever.",
            )  # fmt: skip
    steps_by_epoch = " and ".join(f"{len(epoch.passes[0].steps):,} in {epoch.name}" for epoch in epochs)
    least = "" if all(epoch.ended for epoch in epochs) else " within the limit of steps"
    evidence = f"Each rank makes the same number of steps{least}: {steps_by_epoch}."
    for epoch in epochs:
        if blank := sum(len(rank_pass.blank) for rank_pass in epoch.passes):
            holds = "batch of {} holds" if blank == 1 else "batches of {} hold"
            evidence += f" {blank:,} {holds.format(epoch.name)} padding alone: a mean over its labels would be 0 / 0."
    return Finding("steps", PASSED, evidence)


def another_order(epochs: Sequence[Epoch], shuffled: bool, later: Callable[[], list[Epoch]]) -> Finding:
    """Ask whether each epoch has another order.

    Args:
        later: takes more epochs, where two have the same order, as few shards or few groups of batches can have by
            chance.
    """
    if not shuffled:
        return Finding("order", NOT_ASKED, "No shuffling is meant: --no-shuffle.")
    first, second = epochs[0].orders, epochs[1].orders
    several = [rank for rank, steps in enumerate(first) if len(set(flat(steps))) > 1]
    if not several:
        return Finding("order", NOT_ASKED, "No rank has two different sequences.")
    same = [rank for rank in several if flat(first[rank]) == flat(second[rank])]
    more = later() if same else []
    for epoch in more:
        same = [rank for rank in same if flat(epoch.orders[rank]) == flat(first[rank])]
    if same and len(set(flat(first[same[0]]))) < _FEW:
        return Finding(
            "order", INCONCLUSIVE, f"So few sequences can come in one order {1 + len(more) + 1} times by chance."
        )
    if same:
        whose = "each rank" if len(same) == len(first) else f"rank {', '.join(map(str, same))}"
        return Finding(
            "order", FAILED, f"Epochs 0 to {1 + len(more)} of {whose} have the same order.",
            "The epoch does not reach what shuffles, as where set_epoch is not called, or nothing shuffles.",
            "Call set_epoch(epoch) before each epoch, or pass --no-shuffle if one order is meant.",
        )  # fmt: skip
    if [sorted(map(sorted, steps)) for steps in first] == [sorted(map(sorted, steps)) for steps in second]:
        return Finding("order", PASSED, "The batches come in another order; each holds the same sequences as before.")
    return Finding("order", PASSED, "Epochs 0 and 1 have different orders.")


def same_labels(
    epochs: Sequence[Epoch], reference: Reference, names: SequenceNames, right: dict[int, set[int]]
) -> Finding:
    """Ask whether each sequence keeps its labels.

    Args:
        right: the labels that each sequence of the reference may have.
    """
    pairs = _labeled(epochs, reference)
    if all(label < 0 for _, label in pairs):
        if any(label >= 0 for labels in right.values() for label in labels):
            whose = "source has" if reference.from_source else "batches of one rank alone have"
            return Finding("labels", INCONCLUSIVE, f"The {whose} labels, and the batches have {_NO_LABELS}.")
        return Finding("labels", NOT_ASKED, "Neither side has labels or a mask of the loss.")
    compared = [(number, label) for number, label in pairs if any(each >= 0 for each in right.get(number, ()))]
    if not compared and _changes_tokens(epochs):
        return Finding(
            "labels", NOT_ASKED, "The loader makes the labels itself, anew in each epoch, as it masks tokens."
        )
    if not compared:
        lacks = "the source has" if reference.from_source else "those of one rank alone have"
        return Finding("labels", INCONCLUSIVE, f"The batches have labels, and {lacks} {_NO_LABELS}.")
    moved = min((_differing(compared, right, names, shift) for shift in (0, 1)), key=len)
    if not moved:
        return Finding("labels", PASSED, f"{len(compared):,} sequences have the labels of the reference.")
    lost, added = _lost_and_added(moved, right, names)
    evidence = (
        f"{len(moved):,} of {len(compared):,} sequences have other labels: {names.named([one for one, _ in moved])}"
    )
    evidence += f"; {lost:,} labels are lost and {added:,} added." * bool(lost or added) or "."
    cause = "labels lost" if lost and not added else "labels added" if added and not lost else "labels moved"
    return failed("labels", evidence, cause)


def _labeled(epochs: Sequence[Epoch], reference: Reference) -> list[tuple[int, int]]:
    """Return each sequence with its labels, as often as it was handed out."""
    return [
        (reference.alias.get(number, number), label)
        for epoch in epochs
        for rank_pass in epoch.passes
        for step, labels in zip(rank_pass.steps, rank_pass.labels, strict=True)
        for number, label in zip(step, labels, strict=True)
        if label != OTHER_TOKENS
    ]


def _changes_tokens(epochs: Sequence[Epoch]) -> bool:
    """Return True if a sequence came again with other tokens."""
    return any(OTHER_TOKENS in step for epoch in epochs for rank_pass in epoch.passes for step in rank_pass.labels)


def _differing(
    pairs: list[tuple[int, int]], right: dict[int, set[int]], names: SequenceNames, shift: int
) -> list[tuple[int, int]]:
    """Find the sequences whose labels differ, if those of the batches are shifted by so many tokens; each pair once."""
    verdicts: dict[tuple[int, int], bool] = {}
    for pair in pairs:
        if pair not in verdicts:
            number, label = pair
            verdicts[pair] = label < 0 or not any(  # none, where the reference has some
                _equal(names.labels[label], names.labels[index], shift) for index in right[number] if index >= 0
            )
    return [pair for pair, differs in verdicts.items() if differs]


def _equal(labels: np.ndarray, right: np.ndarray, shift: int) -> bool:
    """Return True if labels are right; the first of a sequence is not compared, since no token predicts it."""
    if len(right) == 1 == len(labels):
        return bool(labels[0] == right[0])
    size = min(len(labels), len(right))  # of a sequence that is cut
    return np.array_equal(labels[1 - shift : size - shift], right[1:size])


def _lost_and_added(moved: list[tuple[int, int]], right: dict[int, set[int]], names: SequenceNames) -> tuple[int, int]:
    """Count the labels of tokens that are lost, and those that are added, in these sequences."""
    lost = added = 0
    for number, label in moved:
        labels = names.labels[label] if label >= 0 else np.empty(0)
        right_labels = names.labels[next(index for index in right[number] if index >= 0)]
        if len(labels) == len(right_labels) > 1:
            lost += int(((labels == IGNORED) & (right_labels != IGNORED))[1:].sum())
            added += int(((labels != IGNORED) & (right_labels == IGNORED))[1:].sum())
    return lost, added


def same_steps(first: list[Steps], second: list[Steps]) -> bool:
    """Return True if all ranks get the same sequences in the same order, however batches cut them."""
    return [flat(steps) for steps in first] == [flat(steps) for steps in second]
