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
from packlib.tools.check.locating import POSITIONS, locate

_ANSWERS = 16  # that the model is called with


class Groups(CalledBatch):
    """A batch of groups, and where the answers and the shared tokens are in it.

    Attributes:
        behind: for each answer the tokens of its prompt and its own.
        pieces: of the answers that were found whole, and of prompts, whose numbers come after those of the answers.
        answers: the pieces of answers, by their numbers.
    """

    def __init__(self, called: CalledModel, collate: Callable, groups: Sequence[Mapping[str, Any]]) -> None:
        few = _few(groups)
        self.behind = [([*group["prompt"]], [*answer]) for group in few for answer in group["answers"]]
        batch = collated(called, collate, [dict(group) for group in few])
        shared = [group["prompt"][:-1] for group in few if len(group["prompt"]) > 2]
        wanted = [np.asarray(tokens) for tokens in ([answer for _, answer in self.behind] + shared)]
        found = locate(batch["input_ids"].cpu().numpy(), wanted)
        super().__init__(called, batch, [p for p in found if len(p.slots) == len(wanted[p.sequence])])
        self.answers = {piece.sequence: piece for piece in self.pieces if piece.sequence < len(self.behind)}
        self.limit = max(10 * self.noise[0], 256 * self.rounding)

    def alone(self, number: int) -> Tensor:
        """Compute the outputs of prompt and answer in a row of their own; shape (tokens, width)."""
        prompt, answer = self.behind[number]
        return self.called({"input_ids": torch.tensor([[*prompt, *answer]])}).outputs


def shared_prompt_findings(
    called: CalledModel, collate: Callable, groups: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Yield a finding for each question; see `check_packing`."""
    with called.mode(train=False):
        checked = Groups(called, collate, groups)
        missing = sorted(set(range(len(checked.behind))) - set(checked.answers))
        if missing:
            evidence = f"Of {len(checked.behind)} answers number {missing[0]} is not found whole."
            yield Finding.failed("tokens", evidence, "lost", which="an answer")
        else:
            yield Finding("tokens", PASSED, f"All {len(checked.behind)} answers are there.")
        moves = checked.moves(checked.batch)
        asked = [number for number, piece in enumerate(checked.pieces) if piece.sequence in checked.answers]
        foreign = np.where(np.eye(len(moves), dtype=bool), 0, moves)[:, asked]
        leak = foreign.max(initial=0)
        if leak > checked.limit:
            looks, sees = np.argwhere(foreign == leak)[0]
            answer, other = checked.pieces[asked[sees]].sequence, checked.pieces[looks].sequence
            what = f"answer {other}" if other in checked.answers else "a prompt"
            evidence = f"Answer {answer} moves {what} by {leak:.2g}."
            yield Finding.failed("isolation of answers", evidence, "branch")
        else:
            said = f"{len(checked.answers)} answers do not move one another, nor a prompt, by changed tokens."
            yield Finding("isolation of answers", PASSED, said)
        outputs = {number: checked.alone(number) for number in checked.answers}
        yield _same_as_alone(checked, outputs, moves, leak > checked.limit)
        yield _loss(checked, outputs)


def _same_as_alone(checked: Groups, alone: dict[int, Tensor], moves: np.ndarray, leaks: bool) -> Finding:
    distances, misplaced = dict[int, float](), 0
    for number, piece in checked.answers.items():
        begins = len(checked.behind[number][0])
        distances[number] = checked.apart(checked.seen.outputs[piece.slots], alone[number][begins:]).max().item()
        given = checked.batch.get(POSITIONS)
        if isinstance(given, Tensor) and given.shape == checked.batch["input_ids"].shape:
            misplaced += bool((given.flatten()[piece.slots].cpu() != begins + torch.arange(len(piece.slots))).any())
    differing = sum(one > checked.limit for one in distances.values())
    evidence = f"{differing} of {len(distances)} answers differ from what they are behind their prompt alone, by "
    evidence += (
        f"{max(distances.values(), default=0.0):.2g} of the outputs; what is below {checked.limit:.2g} is rounding."
    )
    if not differing:
        return Finding("same as alone", PASSED, evidence)
    is_answer = np.array([piece.sequence in checked.answers for piece in checked.pieces])
    by_prompts = moves[is_answer][:, ~is_answer]
    blind = by_prompts.size and by_prompts.max(1).min() <= checked.limit
    names = "above" if leaks else "branch positions" if misplaced else "blind" if blind else "otherwise"
    return Finding.failed("same as alone", evidence, names)


def _loss(checked: Groups, alone: dict[int, Tensor]) -> Finding:
    """Find out if the loss is that of all tokens of the answers, or leaves the first ones out."""
    if checked.seen.loss is None:
        return Finding("loss", INCONCLUSIVE, "The model returns no loss.")
    each = []
    for number, outputs in alone.items():
        prompt, answer = checked.behind[number]
        each.append(
            cross_entropy(outputs[len(prompt) - 1 : -1], torch.tensor(answer).to(outputs.device), reduction="none")
        )
    loss, later = checked.seen.loss.item(), [losses[1:] for losses in each if len(losses) > 1]
    means = {"a mean over all tokens of answers": torch.cat(each).mean(), "a mean over answers": _mean_of_means(each)}
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
    return torch.stack([one.mean() for one in losses]).mean()


def _few(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Take the first groups that hold few answers in all, at least 2."""
    for at, group in enumerate(groups):
        if not len(group["prompt"]) or not len(group["answers"]) or not all(len(own) for own in group["answers"]):
            raise ValueError(f"Group {at} must have a prompt and answers of at least 1 token each.")
    if len(groups) < 2:
        raise ValueError(f"sequences must be at least 2 groups, not {len(groups)}.")
    held = np.cumsum([len(group["answers"]) for group in groups])
    return list(groups[: max(2, int((held <= _ANSWERS).sum()))])
