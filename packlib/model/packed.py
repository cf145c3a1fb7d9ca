"""Packed BERT: transformers' own model and weights, attending within each sequence, with a loss for each sequence."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from transformers import BertConfig, BertForPreTraining

from packlib.arguments import instance, one_of, whole_number
from packlib.batches import IGNORED
from packlib.batches.batch import reset_positions
from packlib.model.attention import (
    BACKENDS,
    CHOICES,
    Backend,
    attention_arguments,
    check_integers,
    choose_backend,
    register_backends,
)
from packlib.model.losses import REDUCTIONS, Reduction, nsp_loss, token_loss
from packlib.model.output import PackedOutput


class PackedBert(BertForPreTraining):
    """BERT for pre-training on packs: `BertForPreTraining` with the same weights under the same names.

    `PackedBert(config)` starts at random, `PackedBert.from_pretrained(folder)` from a checkpoint of either
    class. Pooler and NSP head work on every sequence's first token, the MLM head on the masked tokens only. Other
    models take packs as they are: see `packlib.model.for_transformers`.

    >>> from packlib.batches import TokenStore, collate
    >>> from packlib.model import PackedBert
    >>> from transformers import BertConfig
    >>> config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    >>> two = TokenStore.from_samples([{"input_ids": [7, 8, 9]}, {"input_ids": [4, 5]}])
    >>> PackedBert(config)(**collate(two, [2], max_length=8)).nsp_logits.shape
    torch.Size([2, 2])

    Args:
        backend: "auto", "sdpa", "eager", "flex" or "varlen" (see `packlib.model.attention`).
        reduction: which mean `output.loss` is: over each "token", "sequence" or "pack".
        max_predictions_per_pack: None for as many rows of MLM logits as there are masked tokens; a number for that many
            for each pack of the batch, filled up with empty ones, as in the papers: static shapes.
    """

    accepts_loss_kwargs = True  # so that a transformers.Trainer says what it divides by, and can be refused

    def __init__(
        self,
        config: BertConfig,
        backend: Backend = "auto",
        reduction: Reduction = "token",
        max_predictions_per_pack: int | None = None,
    ) -> None:
        instance("config", config, BertConfig)
        # a copy, since `encode` sets its attention, and other models may be made of the same config
        super().__init__(deepcopy(config))
        register_backends()  # now, since a graph that is compiled later must not change a table
        self.backend = one_of("backend", backend, CHOICES)
        self.reduction = one_of("reduction", reduction, REDUCTIONS)
        if max_predictions_per_pack is not None:
            whole_number("max_predictions_per_pack", max_predictions_per_pack, 1)
        self.max_predictions_per_pack = max_predictions_per_pack

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
        """Run the model on the fields of a `PackedBatch`: `model(**batch)`.

        `loss` is the token loss plus the next-sentence loss; a part without any label counts as 0.

        Args:
            inputs_embeds: shape (B, T, d), embeddings in place of `input_ids`.
            labels: shape (B, T): see `PackedBatch`.

        Raises:
            TypeError, ValueError: if a field is no tensor of whole numbers of the shape of `segment_ids`.
            ValueError: if a pack is longer than the position table, or the backend cannot work here; on a CPU, if a
                token is not in the vocabulary; and if a `transformers.Trainer` trains the model.
        """
        if segment_ids is None or sequence_starts is None:
            raise TypeError("A packed model needs segment_ids: call it with a PackedBatch, model(**batch).")
        if num_items_in_batch is not None:
            raise ValueError(
                "A transformers.Trainer cannot train PackedBert: it does not count the sequences of the next-sentence "
                "loss. Use packlib.fit."
            )
        check_integers("segment_ids", segment_ids)
        by_slot = {
            "input_ids": input_ids,
            "position_ids": position_ids,
            "token_type_ids": token_type_ids,
            "labels": labels,
        }
        for name, values in by_slot.items():
            if values is not None:
                check_integers(name, values, segment_ids.shape)
        if input_ids is not None and input_ids.device.type == "cpu" and not torch.compiler.is_compiling():
            whole_number("input_ids", int(input_ids.max()), 0, self.config.vocab_size - 1)  # a GPU would have to wait
        hidden = self.encode(segment_ids, position_ids, input_ids, token_type_ids, inputs_embeds)
        batch = {"segment_ids": segment_ids, "sequence_starts": sequence_starts, "labels": labels}
        return self.heads(hidden, batch | {"sequence_labels": sequence_labels})

    def heads(self, hidden: Tensor, batch: Mapping[str, Any]) -> PackedOutput:
        """Compute the outputs of the heads from the last hidden states of a batch, shape (B, T, d)."""
        states = hidden.flatten(0, 1)  # shape (B·T, d)
        output = PackedOutput(hidden=hidden)
        labels = batch.get("labels")
        # of an empty place among the sequences, which says B·T, the last slot: its outputs are not counted
        first_states = states[batch["sequence_starts"].clamp(max=len(states) - 1)]
        output.pooled = self.bert.pooler(first_states[:, None])
        output.nsp_logits = self.cls.seq_relationship(output.pooled)
        if labels is not None:
            output.token_positions = self._predicted(labels != IGNORED)
            slots = output.token_positions.clamp(min=0)  # of an empty place, which says -1, the first: without a label
            output.token_labels = torch.where(output.token_positions < 0, IGNORED, labels.flatten()[slots])
            output.token_logits = self.cls.predictions(states[slots])
            output.loss = token_loss(output, batch, self.reduction).mean
        if batch.get("sequence_labels") is not None:
            nsp = nsp_loss(output, batch, self.reduction).mean
            output.loss = nsp if output.loss is None else output.loss + nsp
        return output

    def encode(
        self,
        segment_ids: Tensor,
        position_ids: Tensor | None = None,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Compute the last hidden states of the packs, shape (B, T, d). Positions restart with each sequence."""
        slots, space = segment_ids.shape[1], self.config.max_position_embeddings
        if slots > space:
            raise ValueError(f"The packs have {slots} slots; the model's position table ends at {space}.")
        device, dtype = segment_ids.device, self.dtype
        if torch.is_autocast_enabled(device.type):
            dtype = torch.get_autocast_dtype(device.type)
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        gradient = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        backend = choose_backend(self.backend, device, dtype, gradient, dropout)
        if self.config._attn_implementation != BACKENDS[backend]:  # a change would compile graphs again
            self.config._attn_implementation = BACKENDS[backend]
        positions = reset_positions(segment_ids) if position_ids is None else position_ids
        states = self.bert.embeddings(input_ids, token_type_ids, positions, inputs_embeds)
        return self.bert.encoder(states, **attention_arguments(segment_ids, backend, dtype=dtype)).last_hidden_state

    def _predicted(self, masked: Tensor) -> Tensor:
        """Find the masked tokens among the B·T slots, -1 in empty places; int64, shape (M,).

        Args:
            masked: whether each slot has a label; bool, shape (B, T).
        """
        if self.max_predictions_per_pack is None:
            return masked.flatten().nonzero().flatten()
        places = self.max_predictions_per_pack * masked.shape[0]
        count = masked.sum()
        if masked.device.type == "cpu" and not torch.compiler.is_compiling() and count > places:
            raise ValueError(f"The batch has {count} masked tokens; there are places for {places}.")
        torch._assert_async(count <= places)  # on a GPU, or compiled, no token is lost silently either
        slots = (~masked).flatten().int().argsort(stable=True)[:places]  # the masked ones come first, in their order
        is_masked = torch.arange(len(slots), device=slots.device) < count
        return torch.where(is_masked, slots, -1)
