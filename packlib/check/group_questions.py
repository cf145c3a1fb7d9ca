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

from packlib.check.called_model import CalledModel
from packlib.check.causes import POSITIONS
from packlib.check.findings import PASSED, UNKNOWN, Finding
from packlib.check.locating import Piece, locate
from packlib.checks import shown

_ANSWERS = 16  # that the model is called with


class Groups:
    """A batch of groups, and where the answers and the shared tokens are in it.

    Attributes:
        behind: for each answer the tokens of its prompt and its own.
        pieces: of the answers that were found whole, and of prompts, whose numbers come after those of the answers.
    """

    def __init__(self, called: CalledModel, collate: Callable, groups: Sequence[Mapping[str, Any]]) -> None:
        self.called, few = called, _few(groups)
        self.behind = [([*group["prompt"]], [*answer]) for group in few for answer in group["answers"]]
        batch = collate([dict(group) for group in few])
        if not isinstance(batch, Mapping) or not isinstance(batch.get("input_ids"), Tensor):
            raise TypeError(f"collate must return a mapping with the tensor input_ids, not {shown(batch)}.")
        self.batch = dict(batch)
        shared = [group["prompt"][:-1] for group in few if len(group["prompt"]) > 2]
        wanted = [np.asarray(tokens) for tokens in ([answer for _, answer in self.behind] + shared)]
        found = locate(self.batch["input_ids"].cpu().numpy(), wanted)
        self.pieces = [piece for piece in found if len(piece.slots) == len(wanted[piece.sequence])]
        self.answers = {piece.sequence: piece for piece in self.pieces if piece.sequence < len(self.behind)}
        self.seen, again = called(self.batch), called(self.batch)
        self.size = max(self.seen.outputs.detach().double().square().mean().sqrt().item(), 1e-30)
        self.limit = max(10 * self.apart(again.outputs, self.seen.outputs), 256 * self.seen.rounding)

    def apart(self, outputs: Tensor, others: Tensor) -> float:
        """How far outputs are apart at most, relative to their size in the whole batch."""
        return (outputs.detach().double() - others.detach().double()).norm(dim=1).max().item() / self.size

    def moved(self, piece: Piece) -> Tensor:
        """The outputs of all slots with other tokens in a piece."""
        ids = self.batch["input_ids"].flatten().clone()
        pool = torch.tensor(sorted({token for prompt, answer in self.behind for token in (*prompt, *answer)})).to(ids)
        ids[piece.slots] = pool[(torch.searchsorted(pool, ids[piece.slots]) + 1) % len(pool)]
        return self.called({**self.batch, "input_ids": ids.view_as(self.batch["input_ids"])}).outputs

    def alone(self, number: int) -> Tensor:
        """The outputs of prompt and answer in a row of their own; shape (tokens, width)."""
        prompt, answer = self.behind[number]
        return self.called({"input_ids": torch.tensor([[*prompt, *answer]])}).outputs


def shared_prompt_findings(
    called: CalledModel, collate: Callable, groups: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """A finding for each question; see `check_packing`."""
    with called.mode(train=False):
        checked = Groups(called, collate, groups)
        missing = sorted(set(range(len(checked.behind))) - set(checked.answers))
        if missing:
            evidence = f"Of {len(checked.behind)} answers number {missing[0]} is not found whole."
            yield Finding.failed("tokens", evidence, "lost", which="an answer")
        else:
            yield Finding("tokens", PASSED, f"All {len(checked.behind)} answers are there.")
        leak = max(_leaks(checked), default=(0.0, ""))
        if leak[0] > checked.limit:
            yield Finding.failed("isolation of answers", f"{leak[1]} by {leak[0]:.2g}.", "branch")
        else:
            said = f"{len(checked.answers)} answers do not move one another, nor a prompt, by changed tokens."
            yield Finding("isolation of answers", PASSED, said)
        outputs = {number: checked.alone(number) for number in checked.answers}
        yield _same_as_alone(checked, outputs, leak[0] > checked.limit)
        yield _loss(checked, outputs)


def _leaks(checked: Groups) -> Iterator[tuple[float, str]]:
    """How far each answer moves what it must not move, and what that is."""
    for number, piece in checked.answers.items():
        outputs = checked.moved(piece)
        for other in checked.pieces:
            if other is not piece:
                what = f"answer {other.sequence}" if other.sequence < len(checked.behind) else "a prompt"
                yield (
                    checked.apart(outputs[other.slots], checked.seen.outputs[other.slots]),
                    f"Answer {number} moves {what}",
                )


def _same_as_alone(checked: Groups, alone: dict[int, Tensor], leaks: bool) -> Finding:
    far, misplaced = dict[int, float](), 0
    for number, piece in checked.answers.items():
        begins = len(checked.behind[number][0])
        far[number] = checked.apart(checked.seen.outputs[piece.slots], alone[number][begins:])
        given = checked.batch.get(POSITIONS)
        if isinstance(given, Tensor) and given.shape == checked.batch["input_ids"].shape:
            misplaced += bool((given.flatten()[piece.slots].cpu() != begins + torch.arange(len(piece.slots))).any())
    differing = sum(one > checked.limit for one in far.values())
    evidence = f"{differing} of {len(far)} answers differ from what they are behind their prompt alone, by "
    evidence += f"{max(far.values(), default=0.0):.2g} of the outputs; what is below {checked.limit:.2g} is rounding."
    if not differing:
        return Finding("same as alone", PASSED, evidence)
    names = "above" if leaks else "branch positions" if misplaced else "blind" if _blind(checked) else "otherwise"
    return Finding.failed("same as alone", evidence, names)


def _blind(checked: Groups) -> bool:
    """Whether an answer moves with no prompt that was found."""
    prompts = [checked.moved(piece) for piece in checked.pieces if piece.sequence >= len(checked.behind)]
    return bool(prompts) and any(
        max(checked.apart(outputs[piece.slots], checked.seen.outputs[piece.slots]) for outputs in prompts)
        <= checked.limit
        for piece in checked.answers.values()
    )


def _loss(checked: Groups, alone: dict[int, Tensor]) -> Finding:
    """Whether the loss is that of all tokens of the answers, or leaves the first ones out."""
    if checked.seen.loss is None:
        return Finding("loss", UNKNOWN, "The model returns no loss.")
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
        "loss", UNKNOWN, f"The loss is {loss:.6g}; the mean over all tokens of answers is {means.popitem()[1]:.6g}."
    )


def _mean_of_means(losses: list[Tensor]) -> Tensor:
    return torch.stack([one.mean() for one in losses]).mean()


def _few(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first groups, as many as hold few answers, and at least 2."""
    for at, group in enumerate(groups):
        if not len(group["prompt"]) or not len(group["answers"]) or not all(len(own) for own in group["answers"]):
            raise ValueError(f"Group {at} must have a prompt and answers of at least 1 token each.")
    if len(groups) < 2:
        raise ValueError(f"sequences must be at least 2 groups, not {len(groups)}.")
    held = np.cumsum([len(group["answers"]) for group in groups])
    return list(groups[: max(2, int((held <= _ANSWERS).sum()))])
