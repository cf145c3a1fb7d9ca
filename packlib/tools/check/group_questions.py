"""The questions about answers that share a prompt in a row: does one see another, and is each what it is alone?

Answers are found in the batch by their content, as sequences are. The prompt may stand there once for all of them, in
any layout: an answer is compared with what it is behind its prompt in a row of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from packlib.tools.check.called_model import CalledModel
from packlib.tools.check.collated_batch import CalledBatch, collated
from packlib.tools.check.findings import INCONCLUSIVE, PASSED, Finding
from packlib.tools.check.locating import POSITIONS, has_slots, locate

_APART = 256  # roundings by which outputs in rows of other lengths may differ
_ANSWERS = 16  # that the model is called with at most, unless two groups have more


class Groups(CalledBatch):
    """A batch of groups, and where the answers and the shared tokens are in it.

    Attributes:
        prompts_and_answers: for each answer the tokens of its prompt, and its own.
        pieces: of the answers and prompts that are whole in the batch. The sequence of a piece is the number of an
            answer; prompts have the numbers that follow those of all answers.
        answers: the pieces of answers, by their numbers.
        limit: the largest distance of outputs that counts as noise or rounding.
    """

    def __init__(self, called: CalledModel, collate: Callable, groups: Sequence[Mapping[str, Any]]) -> None:
        chosen_groups = _few(groups)
        self.prompts_and_answers = [
            ([*group["prompt"]], [*answer]) for group in chosen_groups for answer in group["answers"]
        ]
        batch = collated(called, collate, [dict(group) for group in chosen_groups])
        answers = [answer for _, answer in self.prompts_and_answers]
        # the last token of a prompt may be at the head of each answer instead; one token alone is found anywhere
        prompts = [group["prompt"][:-1] for group in chosen_groups if len(group["prompt"]) > 2]
        contents = [np.asarray(tokens) for tokens in (*answers, *prompts)]
        pieces = locate(batch["input_ids"].cpu().numpy(), contents)
        super().__init__(called, batch, [p for p in pieces if len(p.slots) == len(contents[p.sequence])])
        self.answers = {piece.sequence: piece for piece in self.pieces if piece.sequence < len(answers)}
        self.limit = max(10 * self.noise.same_seed, _APART * self.rounding)

    def unpacked_outputs(self, number: int) -> Tensor:
        """Compute the outputs of prompt and answer in a row of their own; shape (tokens, width)."""
        prompt, answer = self.prompts_and_answers[number]
        return self.called({"input_ids": torch.tensor([[*prompt, *answer]])}).outputs


def shared_prompt_findings(
    called: CalledModel, collate: Callable, groups: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Yield a finding for each question; see `check_packing`."""
    with called.mode(train=False):
        checked = Groups(called, collate, groups)
        missing = sorted(set(range(len(checked.prompts_and_answers))) - set(checked.answers))
        if missing:
            evidence = f"Of {len(checked.prompts_and_answers)} answers number {missing[0]} is not found whole."
            yield Finding.failed("tokens", evidence, "lost", which="an answer")
        else:
            yield Finding("tokens", PASSED, f"All {len(checked.prompts_and_answers)} answers are there.")
        moves = checked.moves(checked.batch)
        answer_pieces = [number for number, piece in enumerate(checked.pieces) if piece.sequence in checked.answers]
        # how much each answer (column) moves another piece (row), which it should not
        foreign = np.where(np.eye(len(moves), dtype=bool), 0, moves)[:, answer_pieces]
        leak = foreign.max(initial=0)
        if leak > checked.limit:
            looks, sees = np.argwhere(foreign == leak)[0]
            answer, moved_sequence = checked.pieces[answer_pieces[sees]].sequence, checked.pieces[looks].sequence
            moved_part = f"answer {moved_sequence}" if moved_sequence in checked.answers else "a prompt"
            evidence = f"Answer {answer} moves {moved_part} by {leak:.2g}."
            yield Finding.failed("isolation of answers", evidence, "branch")
        else:
            evidence = f"{len(checked.answers)} answers do not move one another, nor a prompt, by changed tokens."
            yield Finding("isolation of answers", PASSED, evidence)
        outputs = {number: checked.unpacked_outputs(number) for number in checked.answers}
        yield _same_as_alone(checked, outputs, moves, leak > checked.limit)
        yield _loss(checked, outputs)


def _same_as_alone(checked: Groups, unpacked_outputs: dict[int, Tensor], moves: np.ndarray, leaks: bool) -> Finding:
    """Find out if each answer has the outputs that it has behind its prompt alone.

    Args:
        unpacked_outputs: by answer, of prompt and answer in a row of their own; each of shape (tokens, width).
        moves: between pieces, as `CalledBatch.moves` returns them.
        leaks: whether answers see others, which then is the cause.
    """
    distances = dict[int, float]()
    misplaced = 0  # answers with other positions than behind their prompt
    positions = checked.batch.get(POSITIONS)
    for number, piece in checked.answers.items():
        answer_start = len(checked.prompts_and_answers[number][0])
        outputs_alone = unpacked_outputs[number][answer_start:]
        distances[number] = checked.distance(checked.call.outputs[piece.slots], outputs_alone).max().item()
        if has_slots(positions, checked.ids):
            expected = answer_start + torch.arange(len(piece.slots))
            misplaced += bool((positions.flatten()[piece.slots].cpu() != expected).any())  # type: ignore[union-attr]
    differing = sum(distance > checked.limit for distance in distances.values())
    evidence = f"{differing} of {len(distances)} answers differ from what they are behind their prompt alone, by "
    evidence += (
        f"{max(distances.values(), default=0.0):.2g} of the outputs; what is below {checked.limit:.2g} is rounding."
    )
    if not differing:
        return Finding("same as alone", PASSED, evidence)
    is_answer = np.array([piece.sequence in checked.answers for piece in checked.pieces])
    by_prompts = moves[is_answer][:, ~is_answer]
    one_sees_no_prompt = by_prompts.size and by_prompts.max(1).min() <= checked.limit
    if leaks:
        cause = "above"
    elif misplaced:
        cause = "branch positions"
    else:
        cause = "blind" if one_sees_no_prompt else "otherwise"
    return Finding.failed("same as alone", evidence, cause)


def _loss(checked: Groups, unpacked_outputs: dict[int, Tensor]) -> Finding:
    """Find out if the loss is that of all tokens of the answers, or leaves the first ones out."""
    if checked.call.loss is None:
        return Finding("loss", INCONCLUSIVE, "The model returns no loss.")
    losses_by_answer = []
    for number, outputs in unpacked_outputs.items():
        prompt, answer = checked.prompts_and_answers[number]
        losses_by_answer.append(
            cross_entropy(outputs[len(prompt) - 1 : -1], torch.tensor(answer).to(outputs.device), reduction="none")
        )
    loss = checked.call.loss.item()
    later = [losses[1:] for losses in losses_by_answer if len(losses) > 1]  # of all tokens but the first
    means = {
        "a mean over all tokens of answers": torch.cat(losses_by_answer).mean(),
        "a mean over answers": _mean_of_means(losses_by_answer),
    }
    for name, mean in means.items():
        if abs(mean.item() - loss) < 1e-4 * max(1.0, abs(loss)):
            return Finding("loss", PASSED, f"The loss is {loss:.6g}: {name}, each behind its prompt alone.")
    if later and any(abs(m.item() - loss) < 1e-4 for m in (torch.cat(later).mean(), _mean_of_means(later))):
        return Finding.failed(
            "loss", f"The loss is {loss:.6g}: that of all tokens but the first ones.", "first tokens"
        )
    return Finding(
        "loss",
        INCONCLUSIVE,
        f"The loss is {loss:.6g}; the mean over all tokens of answers is {means.popitem()[1]:.6g}.",
    )


def _mean_of_means(losses: list[Tensor]) -> Tensor:
    """Return the mean over answers of the mean loss of each."""
    return torch.stack([of_answer.mean() for of_answer in losses]).mean()


def _few(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the first groups that hold up to 16 answers in all, at least 2 groups; refuse groups without tokens."""
    for index, group in enumerate(groups):
        has_answers = len(group["answers"]) and all(len(answer) for answer in group["answers"])
        if not len(group["prompt"]) or not has_answers:
            raise ValueError(f"Group {index} must have a prompt and answers of at least 1 token each.")
    if len(groups) < 2:
        raise ValueError(f"sequences must be at least 2 groups, not {len(groups)}.")
    answer_counts = np.cumsum([len(group["answers"]) for group in groups])
    return list(groups[: max(2, int((answer_counts <= _ANSWERS).sum()))])
