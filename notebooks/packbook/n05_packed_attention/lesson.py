"""The explorer and the questions of notebook 05."""

from collections.abc import Sequence

import torch
from ipywidgets import Checkbox
from matplotlib.figure import Figure
from torch.nn.functional import pad

from packbook.explorers import Explorer
from packbook.figures import INK, new_figure, percent, styled
from packbook.n05_packed_attention.runs import hidden_states
from packbook.questions import Questions
from packbook.shared.segments import STRANGER, draw_mask, spans, spoiled
from packbook.shared.small_models import small_bert, small_gpt
from packlib.arguments import shown, whole_number
from packlib.batches import PackedBatch
from packlib.model.attention import allowed_pairs


class LeakExplorer(Explorer):
    """Show how much each token's output changes if a model reads a pack with another mask or other positions.

    Args:
        lengths: of the sequences in the pack, 32 tokens at most in all.
    """

    title = "What reaches a sequence from outside?"
    shown_controls = ("mask", "restart")

    def __init__(self, lengths: Sequence[int] = (6, 4, 3)):
        try:
            self.lengths = [whole_number("lengths", length, 1) for length in lengths]
        except (TypeError, ValueError):
            self.lengths = []
        if not self.lengths or sum(self.lengths) > 32:
            raise ValueError(f"lengths must be whole numbers from 1, 32 tokens at most in all, not {shown(lengths)}.")
        self.models = {False: small_bert(), True: small_gpt()}
        super().__init__()

    def controls(self):
        return {
            "mask": Checkbox(True, description="The mask is block-diagonal"),
            "restart": Checkbox(False, description="Positions restart"),
            "causal": Checkbox(False, description="The model is causal"),
        }

    @styled()
    def draw(self, mask: bool, restart: bool, causal: bool) -> tuple[Figure, str]:
        lengths, num_tokens = self.lengths, sum(self.lengths)
        padding = 2  # slots at the end
        segment_ids = torch.repeat_interleave(torch.arange(1, len(lengths) + 1), torch.tensor(lengths))
        segment_ids = pad(segment_ids, (0, padding))[None]
        tokens = (5 + 37 * torch.arange(num_tokens + padding))[None] * (segment_ids > 0)  # any, but all different
        batch, model = PackedBatch(input_ids=tokens, segment_ids=segment_ids), self.models[causal]
        fields = spoiled(batch, mask, restart)
        with torch.no_grad():
            right = hidden_states(model, tokens, batch.segment_ids, batch.position_ids)
            changed = hidden_states(model, tokens, fields["segment_ids"], fields["position_ids"])
        relative_change = (changed - right).norm(dim=-1) / right.norm(dim=-1)  # of each slot
        change = relative_change[0].numpy().round(9)[:num_tokens]
        allowed = allowed_pairs(fields["segment_ids"], causal)[0]
        num_across = int((allowed & ~allowed_pairs(segment_ids)[0]).sum())  # pairs of different sequences
        top = max(100 * change.max(), 100)  # of the axis, in percent

        fig, (left, axis) = new_figure(1, 2, width_ratios=(3, 4))
        draw_mask(left, segment_ids[0], allowed, f"{num_across} pairs of strangers")
        axis.bar(range(num_tokens), 100 * change, color=STRANGER)
        worst = {}  # the largest change, in words, by sequence
        for name, start, end in spans(segment_ids[0])[: len(lengths)]:
            worst[name] = percent(change[start:end].max(), 0)
            axis.axvline(end - 0.5, color=INK, linestyle="-", linewidth=1)
            axis.text((start + end - 1) / 2, 1.03 * top, f"{name}: {worst[name]}", ha="center", fontsize=11)
        axis.set_xticks(range(num_tokens), fields["position_ids"][0, :num_tokens].tolist(), fontsize=10)
        axis.set(xlabel="position of the token", ylabel="change of its answer, %", ylim=(0, 1.12 * top))
        axis.set_title("Not as if alone" if change.any() else "As if alone")
        return fig, (
            f"Sequences of {', '.join(map(str, lengths))} tokens, {'causal' if causal else 'bidirectional'}, "
            f"mask {'within each sequence' if mask else 'of padding only'}, "
            f"positions {'restart' if restart else 'run on'}: {int(allowed.sum())} pairs allowed, "
            f"{num_across} of them between strangers. Largest change of an answer: "
            f"{', '.join(f'{name} {change}' for name, change in worst.items())}."
        )


QUESTIONS = Questions.beside(__file__)
reveal = QUESTIONS.reveal
