"""Is it exact? A model and a collator are asked by calls alone whether a pack changes what a sequence gets."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np

from packlib.arguments import no_frame, one_of, shown, text, whole_number
from packlib.bars import progress_bar, wanted
from packlib.collectives import lost_ranks_named
from packlib.tools.check.accumulation import accumulation
from packlib.tools.check.called_model import CalledModel, Refused, ranks
from packlib.tools.check.causes import diagnose_leak
from packlib.tools.check.choosing import Chosen, choose
from packlib.tools.check.collated_batch import CheckedBatch, collated
from packlib.tools.check.findings import FAILED, Finding, PackingCheck
from packlib.tools.check.group_questions import shared_prompt_findings
from packlib.tools.check.loss_questions import loss_questions
from packlib.tools.check.model_questions import determinism, isolation, lacking, padding, positions, sameness, tokens
from packlib.tools.check.next_update import next_update, without_labels
from packlib.tools.check.places import is_own
from packlib.tools.check.training_noise import training
from packlib.tools.check.tree_questions import tree_findings
from packlib.tools.check.weighing import REDUCTIONS, Weighing
from packlib.tools.check.whole_sequences import whole_sequences

_MOST_SEQUENCES = 64  # of the caller's data that are looked at
_MOST_UNCUT = 32  # times max_tokens: if cut sequences fail, they are checked again uncut, unless they have more tokens


@lost_ranks_named()
def check_packing(
    model: Callable[..., Any],
    collate: Callable[[list[Any]], Any],
    sequences: Sequence[Mapping[str, Any]],
    *,
    reduction: Literal["token", "sequence", "group", "constant"] | None = None,
    group: str | None = None,
    max_tokens: int = 300,
    loss: Callable[..., Any] | None = None,
    step: Callable[..., Any] | None = None,
    keep: Collection[int] = (),
    ranks_share: Literal["batches", "rows"] = "batches",
    progress: bool | None = None,
) -> PackingCheck:
    """Test that packing does not change a model's outputs, loss or gradients.

    Model and collator are only called: their code is not read, but the parts of a module are watched as it runs. Tokens
    are found in the batch by their content, so nothing that `collate` says of them is believed; a model is called with
    the tokens of each sequence alone, with tokens and positions changed, and asked for gradients.

    Args:
        model: called as `model(**batch)`. It returns `.logits` (or other numbers for each token, such as hidden
            states) and, for what concerns the loss, `.loss`: as attributes, in a mapping, or in a tuple. A
            `torch.nn.Module` is set to evaluate while it is checked, and to train for a few calls if it is given so
            (`model.train()`); a plain function works too.
        collate: called with a list of some of the `sequences`; it packs them and returns a batch, a mapping with the
            tensor `input_ids`, shape (rows, slots) or (slots,). Use what your training uses.
        sequences: mappings with `input_ids` and what else your data set has, such as `labels`, in which -100 is not
            predicted, or a mask of the loss that `pack_dataset` knows, such as `completion_mask`. 4 to 64, of
            different lengths, some longer than the model's windows; of equal ones the first counts. The model gets 8,
            the longest among them, or more if the batch of 8 lacks several rows or padding that the batch of all has.
            Or groups of answers that share a prompt: mappings with `prompt`, tokens, and `answers`, the tokens of each.
            The questions are then whether an answer sees its prompt and itself alone, whether it gets what it gets in a
            row with its prompt and nothing else, and whether all its tokens are learned.
            Or trees, groups of sequences that share what they begin with at any depth: mappings with `paths`, the
            tokens of each, and if not all are trained on, `labels`, as long as these. The questions are then whether a
            branch sees another, whether each piece is what it is in its path alone, and whether a label that paths
            share counts for each of them.
        reduction: what the loss is meant to be: a mean over each "token", "sequence" or "group", or a sum over a
            "constant". Without it any of them passes.
        group: the column that is the same for sequences which belong together, as the two of a preference or the
            answers to one prompt; they are never parted. Without it each sequence is a group.
        max_tokens: of the longest sequence that the model gets. Longer ones are cut to their first tokens and the last;
            the two longest of them are used, or more if fewer than 4 sequences are short enough. The findings say how
            many were cut or left out. If the model refuses sequences that were cut, it gets whole ones. If nothing
            fails, all are compared whole in one batch more, of up to 4,096 slots or 8 times max_tokens.
        loss: `loss(output, batch)`, where the model does not compute it.
        step: `step(model, batches)`: what your trainer does with the micro-batches of one update, with its `backward`
            and its optimizer, which step should make once, and what clears gradients. It is called for several updates.
            Parameters and gradients are put back; what your optimizer remembers is not. Dropout is off in it. On two
            ranks each gets one micro-batch, and a model in DistributedDataParallel is handed over as it is.
        keep: tokens that are never changed, such as placeholders of images. Those that the model's config names
            (`image_token_id`, …) are kept anyway, and so are end tokens by which the model tells sequences apart.
        ranks_share: what several ranks share. "batches": each has micro-batches of its own. "rows": the slots of each
            row lie on all of them, as in context or sequence parallelism. Then each rank calls the model with the whole
            batch, of which the model takes its part, and gets `.logits` and `.loss` of the whole rows; the step of each
            rank gets all micro-batches. Let `collate` pad rows to a multiple of the ranks.
        progress: True for a bar, False for none; by default, a terminal gets one after two seconds.

    Returns:
        A finding for each question. `exact` is True if all that were asked passed, False if one failed, and None if
        one is "inconclusive", as without a loss. A question is not asked if its object is not there, as where no row
        holds two sequences: `not_asked` has the reasons.

    Raises:
        TypeError, ValueError: naming what cannot be checked, in one sentence.

    >>> from packlib import check_packing
    >>> from transformers import DataCollatorWithFlattening, LlamaConfig, LlamaForCausalLM
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=99, hidden_size=16, num_hidden_layers=1, use_cache=False,
    ...                                      num_attention_heads=2, intermediate_size=16))
    >>> sequences = [{"input_ids": list(range(start, start + 7))} for start in (10, 20, 30, 40)]
    >>> check_packing(model, DataCollatorWithFlattening(), sequences).exact
    True
    """
    _refuse_options(reduction, ranks_share, keep, collate, step)
    called = CalledModel(model, loss, share_rows=ranks_share == "rows", keep=keep)
    whole_number("max_tokens", max_tokens, 2)
    if group is not None:
        text("group", group)
    progress = wanted(progress)
    no_frame("sequences", sequences)
    rows, kind = _read(sequences)
    if kind != "sequences":
        options = {"reduction": reduction, "group": group, "step": step}
        if options_given := [name for name, value in options.items() if value is not None]:
            data = "sequences are trees" if kind == "trees" else "answers share prompts"
            raise ValueError(f"{options_given[0]} must be left out where {data}.")
        findings_of = tree_findings if kind == "trees" else shared_prompt_findings
        return PackingCheck(tuple(findings_of(called, collate, rows)))
    _refuse_packed_rows(rows)
    _refuse_columns(rows, group)
    rows = _without_equal_ones(rows)
    questions = _Questions(called, collate, rows, group, reduction, step, progress)
    with called.mode(train=False):  # up to 8 sequences, or more if faults could hide in their batch
        chosen = choose(lambda some_rows: collated(called, collate, some_rows), rows, group, max_tokens)
    return PackingCheck(tuple(_findings_of(questions, chosen, max_tokens)))


def _refuse_options(reduction: Any, ranks_share: Any, keep: Any, collate: Any, step: Any) -> None:
    """Raise an error that names the first option whose value is not allowed."""
    if reduction is not None:
        one_of("reduction", reduction, REDUCTIONS)
    one_of("ranks_share", ranks_share, ("batches", "rows"))
    if not isinstance(keep, Collection) or not all(
        isinstance(token, int | np.integer) and not isinstance(token, bool) for token in keep
    ):
        raise TypeError(f"keep must be whole numbers, the ids of tokens, not {shown(keep)}.")
    if not callable(collate):
        raise TypeError(f"collate must be callable, not {shown(collate)}.")
    if step is not None and not callable(step):
        raise TypeError(f"step must be callable, not {shown(step)}.")


def _read(sequences: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Return the first 64 of the data, and their kind: "sequences", "prompts" with answers, or "trees"."""
    try:
        rows = [dict(row) for row in islice(sequences, _MOST_SEQUENCES)]
        if rows and all({"prompt", "answers"} <= row.keys() for row in rows):
            return rows, "prompts"
        if rows and all("paths" in row for row in rows):
            return rows, "trees"
        for row in rows:
            np.asarray(row["input_ids"])
    except (TypeError, ValueError, KeyError):
        raise TypeError(f"sequences must be mappings with input_ids, not {shown(sequences)}.") from None
    return rows, "sequences"


@dataclass(frozen=True)
class _Questions:
    """The questions of a check, with all that they need but the few sequences that the model is called with.

    Attributes:
        called: the model, with the loss if the caller gave one.
        rows: all sequences.
        collate, group, reduction, step, progress: as in `check_packing`.
    """

    called: CalledModel
    collate: Callable
    rows: list[dict]
    group: str | None
    reduction: str | None
    step: Callable | None
    progress: bool | None

    def ask(self, sequences: list[dict]) -> tuple[list[Finding], Weighing]:
        """Ask all questions of a batch of these sequences.

        Returns:
            The findings, and what each sequence weighs in the loss.
        """
        with self.called.mode(train=False), _unforeseen_in_one_sentence():
            checked = CheckedBatch(self.called, self.collate, self.rows, sequences, self.group)
            return _ask(checked, self.reduction, self.step, self.progress)


def _findings_of(questions: _Questions, chosen: Chosen, max_tokens: int) -> list[Finding]:
    """Ask the questions of the chosen sequences, and again uncut if they fail; then compare all sequences whole."""
    is_cut = any(sequence is not row for sequence, row in zip(chosen.sequences, chosen.uncut, strict=True))
    try:
        findings, weighing = questions.ask(chosen.sequences)
    except ValueError as error:
        if not is_cut:
            raise
        with suppress(ValueError):
            return questions.ask(chosen.uncut)[0]
        raise ValueError(f"{error} {chosen.note}") from error
    uncut_tokens = sum(len(row["input_ids"]) for row in chosen.uncut)
    if _has_failed(findings) and is_cut and ranks() == 1 and uncut_tokens <= _MOST_UNCUT * max_tokens:
        with suppress(ValueError):  # the cut may be at fault, as where a column counts the tokens of a prompt
            findings_of_uncut, _ = questions.ask(chosen.uncut)
            if not _has_failed(findings_of_uncut):
                return findings_of_uncut
    findings_with_note = [_with_note(finding, chosen.note) for finding in findings]
    if _has_failed(findings):
        return findings_with_note
    with questions.called.mode(train=False), _unforeseen_in_one_sentence():
        of_whole = whole_sequences(weighing, questions.group, max_tokens, lambda rows: questions.ask(rows)[0])
    replacements = {finding.question: finding for finding in of_whole}
    replaced = [replacements.pop(finding.question, finding) for finding in findings_with_note]
    return [*replaced, *replacements.values()]  # those left answer a question that was not asked before


def _has_failed(findings: Iterable[Finding]) -> bool:
    return any(finding.verdict == FAILED for finding in findings)


def _with_note(finding: Finding, note: str) -> Finding:
    """Add to a finding that failed, or that counts tokens, which sequences were cut or left out."""
    if note and (finding.verdict == FAILED or finding.question == "tokens"):
        return replace(finding, evidence=f"{finding.evidence} {note}")
    return finding


@contextmanager
def _unforeseen_in_one_sentence() -> Iterator[None]:
    """Turn an error that no code of packlib raised on purpose into one sentence: the check stopped half way."""
    try:
        yield
    except Exception as error:
        if is_own(error):
            raise
        sentence = (
            "The check stopped half way, so nothing is said of your packing: it cannot handle this model or batch"
        )
        raise Refused(sentence, error) from error


def _ask(
    checked: CheckedBatch, reduction: str | None, step: Callable | None, progress: bool | None
) -> tuple[list[Finding], Weighing]:
    """Ask all questions of a batch, one after the other; return findings and weights as `_Questions.ask` does."""
    if checked.without_numbers:
        return [_of_nan(checked)], Weighing(checked, reduction)
    weighing = Weighing(checked, reduction)
    diagnosis = diagnose_leak(checked) if checked.own_leak() is not None else None
    questions: list[Callable[[], Iterable[Finding]]] = [
        lambda: [determinism(checked), tokens(checked, weighing.whole.loss.concerned)],
        lambda: isolation(checked, diagnosis),
        lambda: [padding(checked, diagnosis), positions(checked, diagnosis), sameness(checked, diagnosis)],
        lambda: loss_questions(checked, weighing, diagnosis is not None),
        lambda: [*accumulation(checked, weighing, step), *next_update(checked, weighing, step)],
        lambda: [*without_labels(checked, step), *training(checked), *lacking(checked)],
    ]
    with_bar = progress_bar(questions, progress=progress, desc="check", unit="question", leave=False)
    return [finding for question in with_bar for finding in question()], weighing


def _of_nan(checked: CheckedBatch) -> Finding:
    """Return the failed finding that the model returns NaN for tokens of packs.

    Raises:
        ValueError: if the model returns NaN for a sequence alone too: that is no fault of packing.
    """
    count, tokens = checked.without_numbers, int((checked.owner >= 0).sum())
    sentence = f"model returned NaN or infinity for {count} of {tokens} tokens"
    if any(unpacked is None or not bool(unpacked.outputs.isfinite().all()) for unpacked in checked.unpacked):
        raise ValueError(f"{sentence}, and for a sequence alone too: see that it is right before it is checked.")
    return Finding.failed("same as alone", f"The {sentence} of a batch of packs, and for none alone.", "nan tokens")


def _refuse_packed_rows(rows: list[dict[str, Any]]) -> None:
    """Raise a ValueError for rows that hold several sequences: such a row would be compared as one sequence."""
    for number, row in enumerate(rows):
        positions = np.asarray(row.get("position_ids", ()))
        starts = np.count_nonzero(positions == 0) if positions.ndim == 1 else 0
        count = max(np.size(row.get("seq_lengths", ())), starts)
        if count > 1:
            raise ValueError(
                f"Row {number} of sequences holds {count} sequences, as its seq_lengths or position_ids say: give "
                "single sequences, and let collate pack them, as lambda rows: collate(list(pack_dataset(rows, 128))) "
                "does."
            )


def _refuse_columns(rows: list[dict], group: str | None) -> None:
    """Raise an error that names the first sequence whose tokens are no whole numbers, or that has no group."""
    for number, row in enumerate(rows):
        ids = np.asarray(row["input_ids"])
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids):
            raise ValueError(
                f"input_ids of sequence {number} must be whole numbers in one row, not {shown(row['input_ids'])}."
            )
        if ids.min() < 0:
            raise ValueError(f"input_ids of sequence {number} must be at least 0, not {ids.min()}.")
        if group is not None and group not in row:
            raise ValueError(
                f"group must be a column of all sequences, not {group!r}, which sequence {number} does not have."
            )
        if group is not None and not isinstance(row[group], Hashable):
            raise TypeError(f"group must name a column of numbers or names, not of {shown(row[group])}.")


def _without_equal_ones(rows: list[dict]) -> list[dict]:
    """Keep only the first of sequences with equal tokens, since nothing tells them apart in a batch."""
    first_with = dict[tuple[int, ...], dict]()
    for row in rows:
        first_with.setdefault(tuple(np.asarray(row["input_ids"]).tolist()), row)
    if len(first_with) < 2:
        raise ValueError(f"sequences must be at least 2 different ones, not {len(first_with)} of {len(rows)}.")
    return [*first_with.values()]
