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
        loss: scalar: the mean token loss, plus BERT's mean next-sentence loss; None where nothing is to predict.
        token_logits: shape (M, vocabulary), of the predicted tokens only.
        token_labels: shape (M,), what they should be; -100 in empty slots.
        token_positions: shape (M,), where they are among the B·T slots (for a causal model: from where they are
            predicted).
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

    Attributes:
        backend: "auto", "sdpa", "eager", "flex" or "varlen" (see `packlib.model.attention`).
        mean: which mean `output.loss` is: over each "token", "sequence" or "pack".
    """

    causal = False
    accepts_loss_kwargs = False  # for transformers.Trainer: it divides the loss by the accumulation steps

    def __init__(self, config, backend: str = "auto", mean: str = "token"):
        super().__init__(config)
        self.backend = one_of("attention backend", backend, ("auto", *BACKENDS))
        self.mean = one_of("mean", mean, MEANS)

    def encode(self, segment_ids: Tensor, position_ids: Tensor | None = None, **inputs) -> Tensor:
        """The last hidden states of the packs, shape (B, T, d). Positions restart with each sequence.

        Raises:
            ValueError: if a pack is longer than the position table, or the backend cannot work here.
        """
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
        return self.base_model(
            position_ids=reset_positions(segment_ids) if position_ids is None else position_ids,
            **attention_arguments(segment_ids, backend, self.causal, dtype),
            **inputs,
        ).last_hidden_state

    def _attention_dropout(self) -> float:
        config = self.config
        names = ("attention_probs_dropout_prob", "attn_pdrop", "attention_dropout")
        return max(getattr(config, name, 0.0) or 0.0 for name in names) if self.training else 0.0


class PackedBert(Packed, BertForPreTraining):
    """BERT for pre-training on packs: `BertForPreTraining` with the same weights under the same names.

    `PackedBert(config)` starts at random, `PackedBert.from_pretrained(folder)` from a checkpoint of either class.
    The MLM head works on the tokens to predict only; pooler and NSP head on every sequence's first token.

    Args:
        mlm_slots: None for as many rows of MLM logits as there are masked tokens; a number for that many for each
            pack of the batch, filled up with empty ones, as in the papers: static shapes.
    """

    def __init__(self, config, backend: str = "auto", mean: str = "token", mlm_slots: int | None = None):
        super().__init__(config, backend, mean)
        self.mlm_slots = None if mlm_slots is None else whole_number("mlm_slots", mlm_slots, 1)

    def forward(
        self,
        input_ids: Tensor | None = None,
        segment_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        mlm_labels: Tensor | None = None,
        sequence_starts: Tensor | None = None,
        sequence_labels: Tensor | None = None,
        sample_ids: Tensor | None = None,
        num_sequences: int | None = None,
        useful_tokens: int | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> PackedOutput:
        """Takes the fields of a `PackedBatch`: `model(**batch)`. Those that say nothing to it are ignored."""
        tokens = {"inputs_embeds": inputs_embeds} if input_ids is None else {"input_ids": input_ids}
        hidden = self.encode(segment_ids, position_ids, token_type_ids=token_type_ids, **tokens)
        flat = hidden.flatten(0, 1)
        firsts = flat[sequence_starts.clamp(max=len(flat) - 1)]  # an empty slot says B·T
        pooled = self.bert.pooler(firsts[:, None])
        output = PackedOutput(pooled=pooled, nsp_logits=self.cls.seq_relationship(pooled), hidden=hidden)
        batch = {
            "segment_ids": segment_ids,
            "sequence_starts": sequence_starts,
            "sequence_labels": sequence_labels,
        }
        if mlm_labels is not None:
            output.token_positions = self._predicted(mlm_labels != IGNORED)
            at = output.token_positions.clamp(min=0)
            labels = mlm_labels.flatten()[at]
            output.token_labels = torch.where(output.token_positions < 0, IGNORED, labels)
            output.token_logits = self.cls.predictions(flat[at])
            output.loss = token_loss(output, batch, self.mean).mean
        if sequence_labels is not None:
            nsp = nsp_loss(output, batch, self.mean).mean
            output.loss = nsp if output.loss is None else output.loss + nsp
        return output

    def _predicted(self, masked: Tensor) -> Tensor:
        """Where the masked tokens are among the B·T slots, -1 in empty slots."""
        if self.mlm_slots is None:
            return masked.flatten().nonzero().flatten()
        slots, count = self.mlm_slots * masked.shape[0], masked.sum()
        if masked.device.type == "cpu" and count > slots:
            raise ValueError(f"The batch has {count} masked tokens; there are MLM slots for {slots}.")
        torch._assert_async(count <= slots)  # on a GPU too no token is dropped silently, and nothing waits
        return torch.nonzero_static(masked.flatten(), size=slots, fill_value=-1).flatten()


class Causal(Packed):
    """Mix into a transformers decoder: each token looks back within its sequence and predicts the next one there."""

    causal = True

    def forward(
        self,
        input_ids: Tensor | None = None,
        segment_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        mlm_labels: Tensor | None = None,
        sequence_starts: Tensor | None = None,
        sequence_labels: Tensor | None = None,
        sample_ids: Tensor | None = None,
        num_sequences: int | None = None,
        useful_tokens: int | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> PackedOutput:
        """Takes the fields of a `PackedBatch`: `model(**batch)`; `labels` says the tokens where there are only embeddings."""
        tokens = {"inputs_embeds": inputs_embeds} if input_ids is None else {"input_ids": input_ids}
        hidden = self.encode(segment_ids, position_ids, use_cache=False, **tokens)
        target = next_tokens(input_ids if labels is None else labels, segment_ids).flatten()
        at = (target != IGNORED).nonzero().flatten()
        logits = self.get_output_embeddings()(hidden.flatten(0, 1)[at])
        output = PackedOutput(token_logits=logits, token_labels=target[at], token_positions=at, hidden=hidden)
        output.loss = token_loss(
            output, {"segment_ids": segment_ids, "sequence_starts": sequence_starts}, self.mean
        ).mean
        return output


class PackedCausal(Causal, GPT2LMHeadModel):
    """GPT-2 on packs, with the weights of `GPT2LMHeadModel`. Any other decoder: `class PackedX(Causal, X): pass`."""


def next_tokens(input_ids: Tensor, segment_ids: Tensor) -> Tensor:
    """The token that follows within the same sequence, or -100 after its last one and on padding; shape (B, T)."""
    following = torch.full_like(input_ids, IGNORED)
    same = (segment_ids[:, 1:] == segment_ids[:, :-1]) & (segment_ids[:, 1:] > 0)
    following[:, :-1] = torch.where(same, input_ids[:, 1:], IGNORED)
    return following
