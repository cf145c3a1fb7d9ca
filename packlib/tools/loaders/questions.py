"""The questions about epochs: each sequence once, whole and with its labels, in equal steps and another order.

A function that asks a question returns a `Finding`. A function that answers only if it finds a fault returns a finding
or None.
"""

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
_NEITHER = "neither labels nor a mask of the loss"  # in sentences
_GIVE_ID = "Name the sequences by a column that the batches keep: --id COLUMN."

CAUSES = {  # by name, what most likely makes a question fail, and what to do about it
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
    """Return a finding that failed, with the cause of this name in `CAUSES`; `values` fill its texts."""
    why, remedy = CAUSES[cause]
    return Finding(question, FAILED, evidence, why.format(**values), remedy.format(**values))


class _Tally(NamedTuple):
    """How often each sequence came in an epoch.

    Attributes:
        is_whole: the epoch ended, and the reference has all sequences; otherwise only its first steps are counted.
        counts: by sequence, how often it came.
        too_often: by sequence of the reference that came too often, how many times too many.
        missing: by sequence of the reference that came too seldom, how many times too few.
    """

    epoch: Epoch
    is_whole: bool
    counts: Counter
    too_often: Counter
    missing: Counter

    @property
    def first_steps(self) -> str:
        """The number of sequences and steps that were counted, in words, for an epoch that is not whole."""
        steps = max(map(len, self.epoch.orders))
        return f"{self.counts.total():,} sequences in the first {steps:,} steps of {self.epoch.name}"


def once(
    epochs: Sequence[Epoch], reference: Reference, names: SequenceNames, repeats: bool, another: Callable[[], Epoch]
) -> Finding:
    """Ask whether each sequence is handed out once an epoch, over all ranks and workers.

    Args:
        repeats: whether the last step may be filled up by repeating sequences.
        another: a function that runs and returns one more epoch. It is called if two epochs leave out the same
            sequences, as can happen by chance.
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
    unfinished = [tally for tally in tallies if not tally.is_whole]
    if unfinished:
        return _right_so_far(unfinished, reference)
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
    expected = reference.expected
    too_often = Counter(
        {number: times - expected[number] for number, times in counts.items() if 0 < expected[number] < times}
    )
    is_whole = epoch.ended and reference.whole
    return _Tally(epoch, is_whole, counts, too_often, missing=expected - counts)


def _fault_of_epoch(tally: _Tally, reference: Reference, names: SequenceNames, repeats: bool) -> Finding | None:
    """Answer if one epoch alone shows that sequences are changed, come too often, or are left out."""
    if finding := _changed(tally, reference):
        return finding
    if not tally.is_whole:
        return _fault_so_far(tally, reference, names)
    epoch, num_repeated = tally.epoch, tally.too_often.total()
    may_repeat = repeats and num_repeated < epoch.per_step and not tally.missing  # to fill up the last step
    if num_repeated and not may_repeat:
        return _repeated(tally, reference, names)
    if tally.missing.total() >= max(1, epoch.per_step):  # fewer may be the remainder of the last step
        evidence = f"{epoch.name.capitalize()}: {_never(tally.missing, reference, names)}."
        return failed("once", evidence, "never")
    return None


def _changed(tally: _Tally, reference: Reference) -> Finding | None:
    """Answer if the reference does not know most sequences of an epoch."""
    unknown = sum(times for number, times in tally.counts.items() if number not in reference.expected)
    if unknown * 2 <= tally.counts.total():
        return None
    if reference.from_source:
        place_and_reason = "in the source: their tokens were changed, or the source is another one."
    else:
        place_and_reason = "among what one rank is handed out: their tokens were changed."
    evidence = f"{unknown:,} of {tally.counts.total():,} sequences of {tally.epoch.name} are not {place_and_reason}"
    return Finding("once", INCONCLUSIVE, f"{evidence} {_GIVE_ID}")


def _missing_again(
    tallies: Sequence[_Tally], reference: Reference, names: SequenceNames, another: Callable[[], Epoch]
) -> Finding | None:
    """Answer if two whole epochs or more, and one more epoch, all leave out the same sequences."""
    missing = [tally.missing for tally in tallies]
    if len(missing) < 2 or not missing[0] or any(of_epoch != missing[0] for of_epoch in missing):
        return None
    if reference.expected - reference.counts(another().orders) != missing[0]:
        return None
    evidence = f"{_never(missing[0], reference, names)}, the same in each of {len(missing) + 1} epochs."
    return failed("once", evidence.capitalize(), "never the same")


def _right_so_far(unfinished: Sequence[_Tally], reference: Reference) -> Finding:
    """Answer by epochs without a fault that did not end before the limit of steps.

    They pass if all sequences came equally often, up to one time.
    """
    first_steps = "; ".join(tally.first_steps for tally in unfinished)
    counts_of_epochs = [[tally.counts[number] for number in reference.expected] for tally in unfinished]
    rounds = [times for counts in counts_of_epochs for times in _rounds(counts)]
    if min(rounds) > 0 and reference.whole:
        times = f"{min(rounds)} to {max(rounds)} times"
        evidence = f"Up to the limit, each of {len(reference.expected):,} sequences came {times}: {first_steps}."
        return Finding("once", PASSED, evidence)
    evidence = f"Up to the limit, no sequence came too often: {first_steps}. Whether all come is not known."
    return Finding("once", INCONCLUSIVE, evidence)


def _notes(tally: _Tally, names: SequenceNames) -> Iterator[str]:
    """Yield, in words, the sequences that are repeated to fill an epoch's last step, and those left out of it."""
    epoch, too_often, missing = tally.epoch, tally.too_often, tally.missing
    if too_often:
        yield f"{epoch.name}: {too_often.total():,} repeated to fill the last step: {names.named(list(too_often))}"
    if missing:
        yield f"{epoch.name}: {missing.total():,} left out, fewer than a step has: {names.named(list(missing))}"


def _fault_so_far(tally: _Tally, reference: Reference, names: SequenceNames) -> Finding | None:
    """Answer if the first steps of an unfinished epoch already show that sequences come too often.

    A stream without an end hands out all sequences several times; that is no fault if all came equally often, up to
    one time.
    """
    epoch, too_often, missing = tally.epoch, tally.too_often, tally.missing
    counts = [tally.counts[number] for number in reference.expected]
    if not too_often or min(_rounds(counts)) > 0:
        return None
    evidence = (
        f"{epoch.name.capitalize()}: in its first {max(map(len, epoch.orders)):,} steps {too_often.total():,} come too "
        f"often: {names.named(list(too_often))}; {missing.total():,} did not come yet."
    )
    return _with_cause_of_repeats(evidence, tally, reference)


def _rounds(counts: list[int]) -> list[int]:
    """Return the fewest and the most times that a stream has handed out each sequence.

    Args:
        counts: how often each sequence came.

    Returns:
        [0] if these differ by more than one, or if a sequence did not come: it is then unknown whether all come.
    """
    fewest, most = min(counts), max(counts)
    return [fewest, most] if most - fewest <= 1 and fewest > 0 else [0]


def _repeated(tally: _Tally, reference: Reference, names: SequenceNames) -> Finding:
    """Return the failure that sequences came too often in an epoch, with the most likely cause."""
    too_often = tally.too_often
    most_times = max(tally.counts[number] for number in too_often)
    evidence = (
        f"{tally.epoch.name.capitalize()}: {len(too_often):,} of {len(reference.expected):,} different sequences come "
        f"too often, up to {most_times} times: {names.named(list(too_often))}"
    )
    if tally.missing:
        evidence += f"; {_never(tally.missing, reference, names)}"
    return _with_cause_of_repeats(f"{evidence}.", tally, reference)


def _with_cause_of_repeats(evidence: str, tally: _Tally, reference: Reference) -> Finding:
    """Return the failure that sequences come too often, with the cause that the sequences of each rank point to."""
    counts_by_rank = [reference.counts([steps]) for steps in tally.epoch.orders]
    counts_by_rank = [counts for counts in counts_by_rank if counts]
    # For each rank, of each of its sequences, how often it came over how often it should.
    ratios_by_rank = [
        [times / reference.expected[number] for number, times in counts.items() if reference.expected[number]]
        for counts in counts_by_rank
    ]
    most_by_rank = [max(ratios) for ratios in ratios_by_rank if ratios]
    has_equal_ratios = all(len(set(ratios)) <= 1 for ratios in ratios_by_rank)

    has_several_ranks = len(counts_by_rank) > 1
    if has_several_ranks and all(counts == counts_by_rank[0] for counts in counts_by_rank):
        return failed("once", evidence, "ranks see all")
    if not tally.missing and most_by_rank and min(most_by_rank) > 1 and has_equal_ratios:
        return failed("once", evidence, "workers see all", times=f"{min(most_by_rank):g}")
    if not tally.missing and tally.too_often.total() < tally.epoch.per_step:
        return failed("once", evidence, "filled up")
    if tally.missing and has_several_ranks and max(most_by_rank, default=0) <= 1:
        return failed("once", evidence, "other orders")
    return failed("once", evidence, "twice")


def _never(missing: Counter, reference: Reference, names: SequenceNames) -> str:
    """Return in words how many sequences are left out, and which."""
    count = f"{missing.total():,} of {reference.expected.total():,} sequences"
    return f"{count} {'is' if missing.total() == 1 else 'are'} left out: {names.named(list(missing))}"


def same_tokens(epochs: Sequence[Epoch], reference: Reference, names: SequenceNames) -> Finding:
    """Ask whether each sequence has the tokens that the source has."""
    if not reference.from_source:
        return Finding("tokens", NOT_ASKED, "Whether sequences are whole takes a source: --source.")
    handed_out = counted(steps for epoch in epochs for steps in epoch.orders)
    unknown = [number for number in handed_out if number not in reference.expected]
    if not unknown:
        criterion = "by their ids" if names.first and names.first[0].name is not None else "with all their tokens"
        return Finding("tokens", PASSED, f"All sequences that are handed out are in the source, {criterion}.")
    cut = [number for number in unknown if number in reference.alias and _is_shorter(number, reference, names)]
    added = [number for number in unknown if number in reference.alias and number not in cut]
    without_origin = [number for number in unknown if number not in reference.alias]
    parts = []
    if cut:
        origin = reference.alias[cut[0]]
        tokens_before, tokens_after = len(names.first[origin].tokens), len(names.first[cut[0]].tokens)
        example = f"row {names.rows[origin]:,} to {tokens_after} of {tokens_before} tokens"
        parts.append(f"{len(cut):,} are cut, such as {example}")
    if added:
        parts.append(f"{len(added):,} have a token more at their beginning or end: {names.named(added)}")
    if without_origin:
        parts.append(f"{len(without_origin):,} are none of the source's: {names.named(without_origin)}")
    evidence = f"Of {len(handed_out):,} different sequences that are handed out, {'; '.join(parts)}."
    if len(unknown) == len(handed_out) or len(without_origin) * 2 > len(handed_out):
        return Finding("tokens", INCONCLUSIVE, f"{evidence} {_GIVE_ID}")
    return Finding(
        "tokens", FAILED, evidence, "The loader cuts or changes sequences.",
        "Give the source as the loader reads it, cut to its longest length, or mend the loader.",
    )  # fmt: skip


def _is_shorter(number: int, reference: Reference, names: SequenceNames) -> bool:
    """Return True if a sequence has fewer tokens than the one of the source that it was made from."""
    return len(names.first[number].tokens) < len(names.first[reference.alias[number]].tokens)


def equal_steps(epochs: Sequence[Epoch]) -> Finding:
    """Ask whether each rank makes the same number of steps, and none of them is empty."""
    for epoch in epochs:
        empty_steps = [
            (rank, number)
            for rank, rank_pass in enumerate(epoch.passes)
            for number, sequences in enumerate(rank_pass.steps)
            if not sequences and number not in rank_pass.blank
        ]
        if empty_steps:
            rank, step = empty_steps[0]
            evidence = f"{epoch.name.capitalize()}: rank {rank} gets a batch without a sequence, at step {step:,}."
            return Finding(
                "steps", FAILED, evidence,
                "The last step has fewer sequences than the ranks have places.",
                "Deal the last step out to all ranks, or drop it on all of them.",
            )  # fmt: skip
    if len(epochs[0].passes) == 1:
        return Finding("steps", NOT_ASKED, "One rank has nobody to wait for: --ranks.")
    for epoch in epochs:
        step_counts = [len(rank_pass.steps) for rank_pass in epoch.passes]
        fewest, most = min(step_counts), max(step_counts)
        if fewest != most:
            evidence = (
                f"{epoch.name.capitalize()}: rank {step_counts.index(fewest)} makes {fewest:,} steps and rank "
                f"{step_counts.index(most)} {most:,}."
            )
            return Finding(
                "steps", FAILED, evidence, "The shares of the ranks differ in size.",
                "Share out so that each rank gets the same number of batches; else ranks wait for each other forever.",
            )  # fmt: skip
    steps_by_epoch = " and ".join(f"{len(epoch.passes[0].steps):,} in {epoch.name}" for epoch in epochs)
    limit = "" if all(epoch.ended for epoch in epochs) else " within the limit of steps"
    evidence = f"Each rank makes the same number of steps{limit}: {steps_by_epoch}."
    for epoch in epochs:
        num_blank = sum(len(rank_pass.blank) for rank_pass in epoch.passes)
        if num_blank:
            hold = "batch of {} holds" if num_blank == 1 else "batches of {} hold"
            evidence += (
                f" {num_blank:,} {hold.format(epoch.name)} padding alone: a mean over its labels would be 0 / 0."
            )
    return Finding("steps", PASSED, evidence)


def another_order(epochs: Sequence[Epoch], shuffled: bool, later: Callable[[], list[Epoch]]) -> Finding:
    """Ask whether each epoch has another order.

    Args:
        later: a function that runs and returns the epochs from epoch 2 on. It is called if epochs 0 and 1 have the same
            order, as few shards or few groups of batches can have by chance.
    """
    if not shuffled:
        return Finding("order", NOT_ASKED, "No shuffling is meant: --no-shuffle.")
    first, second = epochs[0].orders, epochs[1].orders
    ranks = [rank for rank, steps in enumerate(first) if len(set(flat(steps))) > 1]
    if not ranks:
        return Finding("order", NOT_ASKED, "No rank has two different sequences.")
    unchanged = [rank for rank in ranks if flat(first[rank]) == flat(second[rank])]
    later_epochs = later() if unchanged else []
    for epoch in later_epochs:
        unchanged = [rank for rank in unchanged if flat(epoch.orders[rank]) == flat(first[rank])]
    num_epochs = 2 + len(later_epochs)
    if unchanged and len(set(flat(first[unchanged[0]]))) < _FEW:
        evidence = f"So few sequences can come in one order {num_epochs} times by chance."
        return Finding("order", INCONCLUSIVE, evidence)
    if unchanged:
        whose = "each rank" if len(unchanged) == len(first) else f"rank {', '.join(map(str, unchanged))}"
        return Finding(
            "order", FAILED, f"Epochs 0 to {num_epochs - 1} of {whose} have the same order.",
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
        right: by sequence of the reference, the numbers of the labels that it may have, as `SequenceNames` gives them;
            a number below 0 stands for none to compare.
    """
    pairs = _labeled(epochs, reference)
    if all(label < 0 for _, label in pairs):
        if any(label >= 0 for labels in right.values() for label in labels):
            whose = "source has" if reference.from_source else "batches of one rank alone have"
            return Finding("labels", INCONCLUSIVE, f"The {whose} labels, and the batches have {_NEITHER}.")
        return Finding("labels", NOT_ASKED, "Neither side has labels or a mask of the loss.")
    has_right = {number for number, labels in right.items() if any(label >= 0 for label in labels)}
    compared = [(number, label) for number, label in pairs if number in has_right]
    if not compared and _changes_tokens(epochs):
        return Finding(
            "labels", NOT_ASKED, "The loader makes the labels itself, anew in each epoch, as it masks tokens."
        )
    if not compared:
        lacks = "the source has" if reference.from_source else "those of one rank alone have"
        return Finding("labels", INCONCLUSIVE, f"The batches have labels, and {lacks} {_NEITHER}.")
    num_compared = len({number for number, _ in compared})  # each sequence once, in however many epochs it comes
    # The labels of the batches may be at their own tokens, or at the tokens that predict them.
    differing = min((_differing(compared, right, names, shift) for shift in (0, 1)), key=len)
    if not differing:
        return Finding("labels", PASSED, f"{num_compared:,} sequences have the labels of the reference.")
    lost, added = _lost_and_added(differing, right, names)
    numbers = list(dict.fromkeys(number for number, _ in differing))
    evidence = f"{len(numbers):,} of {num_compared:,} sequences have other labels: {names.named(numbers)}"
    evidence += f"; {lost:,} labels are lost and {added:,} added." if lost or added else "."
    cause = "labels moved"
    if lost and not added:
        cause = "labels lost"
    if added and not lost:
        cause = "labels added"
    return failed("labels", evidence, cause)


def _labeled(epochs: Sequence[Epoch], reference: Reference) -> list[tuple[int, int]]:
    """Return the number of each sequence and the number of its labels, a pair for each time that it was handed out."""
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
    """Return the pairs of a sequence and its labels whose labels are not right, each pair once.

    Args:
        pairs: the number of a sequence that has labels in the reference, and the number of its labels in a batch.
        right: as in `same_labels`.
        shift: 1 if the batches have each label at the token before its own, which predicts it; 0 if at its own.
    """
    differing = []
    for number, label in dict.fromkeys(pairs):
        has_no_labels = label < 0
        if has_no_labels or not any(
            _equal(names.labels[label], names.labels[right_label], shift)
            for right_label in right[number]
            if right_label >= 0
        ):
            differing.append((number, label))
    return differing


def _equal(labels: np.ndarray, right: np.ndarray, shift: int) -> bool:
    """Return True if the labels of a sequence are right, up to its cut if it was cut.

    The label of the first token is not compared, since no token predicts it.

    Args:
        labels: a label for each token, `shift` tokens before its own; or one for the sequence.
        right: the labels of the reference, each at its own token; or one for the sequence.
    """
    if len(right) == 1 == len(labels):
        return bool(labels[0] == right[0])
    size = min(len(labels), len(right))
    return np.array_equal(labels[1 - shift : size - shift], right[1:size])


def _lost_and_added(
    differing: list[tuple[int, int]], right: dict[int, set[int]], names: SequenceNames
) -> tuple[int, int]:
    """Return how many labels of tokens are lost, and how many are added, in these sequences."""
    lost = added = 0
    for number, label in differing:
        labels = names.labels[label] if label >= 0 else np.empty(0)
        right_labels = names.labels[next(right_label for right_label in right[number] if right_label >= 0)]
        if len(labels) == len(right_labels) > 1:  # or else the sequence was cut, or has one label
            lost += int(((labels == IGNORED) & (right_labels != IGNORED))[1:].sum())
            added += int(((labels != IGNORED) & (right_labels == IGNORED))[1:].sum())
    return lost, added


def same_steps(first: list[Steps], second: list[Steps]) -> bool:
    """Return True if all ranks get the same sequences in the same order, however batches cut them."""
    return [flat(steps) for steps in first] == [flat(steps) for steps in second]
