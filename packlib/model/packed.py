"""Packed BERT and its causal twin: transformers' own models and weights, attending within each sequence."""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import BertForPreTraining, GPT2LMHeadModel
from transformers.utils import ModelOutput

from packlib.batches import IGNORED
from packlib.checks import one_of, whole_number
from packlib.model.attention import BACKENDS, attention_arguments, choose_backend, reset_positions
from packlib.model.losses import MEANS, nsp_loss, token_loss


@dataclass
class PackedOutput(ModelOutput):
    """What a packed model returns; M predicted tokens, S sequences.

    Attributes:
        loss: scalar: the mean token loss, plus BERT's mean next-sentence loss; None without labels.
        token_logits: shape (M, vocabulary), of the predicted tokens only.
        token_labels: shape (M,), what they should be; -100 in empty slots.
        token_positions: shape (M,), where among the B·T slots they are predicted; -1 in empty slots.
        nsp_logits: shape (S, 2), one row a sequence; BERT only.
        pooled: shape (S, d), the pooled first token of each sequence; BERT only.
        hidden: shape (B, T, d), the last hidden states.
    """

    loss: Tensor | None = None
    token_logits: Tensor | None = None
    token_labels: Tensor | None = None
    token_positions: Tensor | None = None
    nsp_logits: Tensor | None = None
    pooled: Tensor | None = None
    hidden: Tensor | None = None


class Packed:
    """Mix into a transformers model: attention within segments, whatever the backend.

    Args:
        backend: "auto", "sdpa", "eager", "flex" or "varlen" (see `packlib.model.attention`).
        mean: which mean `output.loss` is: over each "token", "sequence" or "pack".
    """

    causal = False
    accepts_loss_kwargs = True  # a transformers.Trainer then says how many labels its update has

    def __init__(self, config, backend: str = "auto", mean: str = "token"):
        super().__init__(config)
        self.backend = one_of("backend", backend, ("auto", *BACKENDS))
        self.mean = one_of("mean", mean, MEANS)

    def forward(
        self,
        input_ids: Tensor | None = None,
        segment_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        sequence_starts: Tensor | None = None,
        sequence_labels: Tensor | None = None,
        sample_ids: Tensor | None = None,
        num_sequences: int | None = None,
        useful_tokens: int | None = None,
        inputs_embeds: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> PackedOutput:
        """Takes the fields of a `PackedBatch`: `model(**batch)`; without labels there is no loss.

        Args:
            inputs_embeds: shape (B, T, d), embeddings in place of `input_ids`.
            labels: shape (B, T): see `PackedBatch`; for a causal model by default `input_ids`.
            num_items_in_batch: labels in the whole update, as a `transformers.Trainer` counts them. It does not count
                the sequences of a batch, nor stop at their borders, so no more than this batch may be in the update.

        Raises:
            ValueError: if a pack is longer than the position table, or the backend cannot work here.
        """
        if segment_ids is None:
            raise TypeError("A packed model needs segment_ids: call it with a PackedBatch, model(**batch).")
        if num_items_in_batch is not None:
            own = [int((part != IGNORED).sum()) for part in (labels, labels[:, 1:])]
            if int(num_items_in_batch) not in own:
                raise ValueError(
                    "A transformers.Trainer weighs packs of several micro-batches or ranks wrongly: use "
                    "packlib.training.PackTrainer in its place."
                )
        inputs = {"inputs_embeds": inputs_embeds} if input_ids is None else {"input_ids": input_ids}
        if not self.causal:
            inputs["token_type_ids"] = token_type_ids
        output = PackedOutput(hidden=self.encode(segment_ids, position_ids, **inputs))
        batch = {"segment_ids": segment_ids, "sequence_starts": sequence_starts, "labels": labels}
        batch |= {"sequence_labels": sequence_labels, "input_ids": input_ids}
        return self.heads(output, output.hidden.flatten(0, 1), batch)

    def encode(self, segment_ids: Tensor, position_ids: Tensor | None = None, **inputs) -> Tensor:
        """The last hidden states of the packs, shape (B, T, d). Positions restart with each sequence."""
        slots, table = segment_ids.shape[1], self.config.max_position_embeddings
        if slots > table:
            raise ValueError(f"The packs have {slots} slots; the model's position table ends at {table}.")
        device, dtype = segment_ids.device, self.dtype
        if torch.is_autocast_enabled(device.type):
            dtype = torch.get_autocast_dtype(device.type)
        gradient = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        backend = choose_backend(self.backend, device, dtype, gradient, self._attention_dropout())
        if self.config._attn_implementation != BACKENDS[backend]:
            self.config._attn_implementation = BACKENDS[backend]
        if self.causal:
            inputs["use_cache"] = False
        return self.base_model(
            position_ids=reset_positions(segment_ids) if position_ids is None else position_ids,
            **attention_arguments(segment_ids, backend, self.causal, dtype),
            **inputs,
        ).last_hidden_state

    def _attention_dropout(self) -> float:
        names = ("attention_probs_dropout_prob", "attn_pdrop", "attention_dropout")
        return max(getattr(self.config, name, 0.0) or 0.0 for name in names) if self.training else 0.0


class PackedBert(Packed, BertForPreTraining):
    """BERT for pre-training on packs: `BertForPreTraining` with the same weights under the same names.

    `PackedBert(config)` starts at random, `PackedBert.from_pretrained(folder)` from a checkpoint of either
    class. The MLM head works on the tokens to predict only, pooler and NSP head on every sequence's first
    token.

    Args:
        mlm_slots: None for as many rows of MLM logits as there are masked tokens; a number for that many for
            each pack of the batch, filled up with empty ones, as in the papers: static shapes.
    """

    def __init__(self, config, backend: str = "auto", mean: str = "token", mlm_slots: int | None = None):
        super().__init__(config, backend, mean)
        self.mlm_slots = None if mlm_slots is None else whole_number("mlm_slots", mlm_slots, 1)

    def heads(self, output: PackedOutput, flat: Tensor, batch: dict) -> PackedOutput:
        firsts = flat[batch["sequence_starts"].clamp(max=len(flat) - 1)]  # an empty slot says B·T
        output.pooled = self.bert.pooler(firsts[:, None])
        output.nsp_logits = self.cls.seq_relationship(output.pooled)
        if batch["labels"] is not None:
            output.token_positions = self._predicted(batch["labels"] != IGNORED)
            at = output.token_positions.clamp(min=0)
            labels = batch["labels"].flatten()[at]
            output.token_labels = torch.where(output.token_positions < 0, IGNORED, labels)
            output.token_logits = self.cls.predictions(flat[at])
            output.loss = token_loss(output, batch, self.mean).mean
        if batch["sequence_labels"] is not None:
            nsp = nsp_loss(output, batch, self.mean).mean
            output.loss = nsp if output.loss is None else output.loss + nsp
        return output

    def _predicted(self, masked: Tensor) -> Tensor:
        """Where the masked tokens are among the B·T slots, -1 in empty slots."""
        if self.mlm_slots is None:
            return masked.flatten().nonzero().flatten()
        slots, count = self.mlm_slots * masked.shape[0], masked.sum()
        if masked.device.type == "cpu" and not torch.compiler.is_compiling() and count > slots:
            raise ValueError(f"The batch has {count} masked tokens; there are MLM slots for {slots}.")
        torch._assert_async(count <= slots)  # on a GPU, or compiled, no token is lost silently either
        first = (
            (~masked).flatten().int().argsort(stable=True)[:slots]
        )  # the masked ones come first, in their order
        return torch.where(torch.arange(len(first), device=first.device) < count, first, -1)


class Causal(Packed):
    """Mix into a transformers decoder: a token looks back within its sequence and predicts the next one."""

    causal = True

    def heads(self, output: PackedOutput, flat: Tensor, batch: dict) -> PackedOutput:
        labels = batch["input_ids"] if batch["labels"] is None else batch["labels"]
        if labels is not None:
            target = next_tokens(labels, batch["segment_ids"]).flatten()
            output.token_positions = (target != IGNORED).nonzero().flatten()
            output.token_labels = target[output.token_positions]
            output.token_logits = self.get_output_embeddings()(flat[output.token_positions])
            output.loss = token_loss(output, batch, self.mean).mean
        return output


class PackedCausal(Causal, GPT2LMHeadModel):
    """GPT-2 on packs, with the weights of `GPT2LMHeadModel`. Other decoders: `class Mine(Causal, …): …`."""


def next_tokens(labels: Tensor, segment_ids: Tensor) -> Tensor:
    """The label of the next token of the same sequence, or -100 after its last one and on padding; shape (B, T)."""
    following = torch.full_like(labels, IGNORED)
    same = (segment_ids[:, 1:] == segment_ids[:, :-1]) & (segment_ids[:, 1:] > 0)
    following[:, :-1] = torch.where(same, labels[:, 1:], IGNORED)
    return following
