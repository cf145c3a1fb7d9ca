"""Packed BERT and its causal twin: transformers' own models and weights, attending within each sequence."""

import inspect
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import BertForPreTraining, GPT2LMHeadModel, PreTrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput

from packlib.batches import IGNORED
from packlib.checks import one_of, whole_number
from packlib.model.attention import (
    BACKENDS,
    choose_backend,
    knows_varlen,
    register_backends,
    reset_positions,
    within_sequences,
)
from packlib.model.families import check_family, long_rope_limit, position_room
from packlib.model.losses import REDUCTIONS, nsp_loss, token_loss
from packlib.model.output import PackedOutput
from packlib.model.own_masks import WINDOWED, keep_apart, padding_mask

_Mixin: Any = object  # of a model of transformers, which has the attributes that are missing here


class Packed(_Mixin):
    """What `Masked` and `Causal` share: attention within segments, whatever the model and the backend.

    A model computes for each sequence what transformers' own class computes for it alone. That was compared for every
    family of transformers: `families.csv`, beside this file, says which are exact, and why others are refused.

    Args:
        backend: "auto", "sdpa", "eager", "flex" or "varlen" (see `packlib.model.attention`).
        reduction: which mean `output.loss` is: over each "token", "sequence" or "pack".

    Raises:
        TypeError: when the class is made or the model is built, if packs would change what the model computes;
            with the reason.
    """

    causal = False
    accepts_loss_kwargs = True  # a transformers.Trainer then says how many labels its update has

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if issubclass(cls, PreTrainedModel):
            check_family("causal" if cls.causal else "masked", cls)
            models = (base for base in cls.__mro__ if issubclass(base, PreTrainedModel))
            model = next(base for base in models if not issubclass(base, Packed))
            if cls.__mro__.index(model) < cls.__mro__.index(Packed):
                mixin = "Causal" if cls.causal else "Masked"
                raise TypeError(f"{cls.__name__} needs its bases in this order: {mixin}, {model.__name__}.")

    def __init__(self, config: PreTrainedConfig, backend: str = "auto", reduction: str = "token") -> None:
        check_family("causal" if self.causal else "masked", type(self), config)
        register_backends()
        super().__init__(deepcopy(config))  # its attention is set here; other models may be made of the same
        self.backend = one_of("backend", backend, ("auto", *BACKENDS))
        self.reduction = one_of("reduction", reduction, REDUCTIONS)
        chosen, able = (self.config._attn_implementation, self._supports_sdpa)  # what transformers chose, if dense
        chosen = chosen.removeprefix("packlib_")  # in the configuration of a packed model
        self._dense = chosen if chosen in ("sdpa", "eager") else "sdpa" if able else "eager"
        self.config._attn_implementation = BACKENDS[self._dense]  # from the start: a change would compile graphs again
        self._reads = frozenset(inspect.signature(self._base().forward).parameters)
        if self.causal or not hasattr(self.config, "type_vocab_size"):  # GPT-2 and XLM take them for more words
            self._reads -= {"token_type_ids"}
        self._first_position = first_position(self)
        keep_apart(self, self._dense)

    def _base(self) -> PreTrainedModel:
        if self.base_model is not self:
            return self.base_model
        return next(part for part in self.children() if isinstance(part, PreTrainedModel))  # of another name

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
                Without labels it counts nothing, and adds up the means of several batches unnoticed.

        Raises:
            ValueError: if a pack is longer than the position table, LongRoPE would change short sequences, or the
                backend cannot work here; on a CPU, if a token or a label is not in the vocabulary.
        """
        if segment_ids is None:
            raise TypeError("A packed model needs segment_ids: call it with a PackedBatch, model(**batch).")
        _check_tokens("input_ids", input_ids, 0, self.config.vocab_size)
        _check_tokens("labels", labels, IGNORED, self.config.vocab_size)
        if num_items_in_batch is not None:
            _refuse_wrong_mean(labels, num_items_in_batch)
        inputs = {"input_ids": input_ids, "inputs_embeds": inputs_embeds, "token_type_ids": token_type_ids}
        states = self.base_states(segment_ids, position_ids, **inputs)
        output = PackedOutput(hidden=states.last_hidden_state)
        batch = {"segment_ids": segment_ids, "sequence_starts": sequence_starts, "labels": labels}
        batch = {**batch, "sequence_labels": sequence_labels, "input_ids": input_ids, "states": states}
        return self.heads(output, states.last_hidden_state.flatten(0, 1), batch)

    def encode(self, segment_ids: Tensor, position_ids: Tensor | None = None, **inputs: Any) -> Tensor:
        """The last hidden states of the packs, shape (B, T, d). Positions restart with each sequence."""
        return self.base_states(segment_ids, position_ids, **inputs).last_hidden_state

    def base_states(self, segment_ids: Tensor, position_ids: Tensor | None = None, **inputs: Any) -> ModelOutput:
        """All that transformers' base model returns for the packs."""
        slots, room = segment_ids.shape[1], position_room(self.config) - self._first_position
        if slots > room:
            raise ValueError(f"The packs have {slots} slots; the model's position table ends at {room}.")
        check_long_rope(self.config, segment_ids)
        device, dtype = segment_ids.device, self.dtype
        if torch.is_autocast_enabled(device.type):
            dtype = torch.get_autocast_dtype(device.type)
        attention = BACKENDS[self._choose_backend(device, dtype)]
        if self.config._attn_implementation != attention:
            self.config._attn_implementation = attention
        positions = reset_positions(segment_ids) if position_ids is None else position_ids
        inputs = {**inputs, "position_ids": positions + self._first_position, "use_cache": False}
        inputs = {name: value for name, value in inputs.items() if name in self._reads}
        family = self.config.model_type
        mask = padding_mask(family, segment_ids)
        with within_sequences(segment_ids, dtype, own_masks=family == WINDOWED):
            return self._base()(attention_mask=mask, **inputs)

    def own_head(self, rows: Tensor, batch: dict) -> ModelOutput:
        """What transformers' own class makes of the hidden states `rows`, shape (M, d): logits, scaled as it does."""
        states = replace(batch["states"], last_hidden_state=rows[None])
        forward = super(Packed, type(self)).forward
        return forward(_Ran(self, states), attention_mask=(batch["segment_ids"] > 0).long(), inputs_embeds=rows[None])

    def _choose_backend(self, device: torch.device, dtype: torch.dtype) -> str:
        gradient = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        chosen = choose_backend(self.backend, device, dtype, gradient, self._attention_dropout())
        if self.backend == "auto" and not (chosen == "varlen" and knows_varlen(self)):
            return self._dense
        able = self._supports_sdpa if chosen == "sdpa" else self._supports_attention_backend
        if chosen != "eager" and not able:
            reason = f"{type(self).__name__} has its own attention (use eager)"
            raise ValueError(f"The attention backend {chosen!r} cannot work here: {reason}.")
        return chosen

    def _attention_dropout(self) -> float:
        names = ("attention_probs_dropout_prob", "attn_pdrop", "attention_dropout")
        return max(getattr(self.config, name, 0.0) or 0.0 for name in names) if self.training else 0.0


def first_position(model: PreTrainedModel) -> int:
    """The position of a sequence's first token: RoBERTa and its kin begin after the place of padding."""
    tables = (part for part in model.modules() if hasattr(part, "position_embeddings"))
    return next((part.padding_idx + 1 for part in tables if hasattr(part, "padding_idx")), 0)


def check_long_rope(config: PreTrainedConfig, segment_ids: Tensor) -> None:
    """Raise a ValueError if the model would treat the short sequences of a batch as it treats its long ones."""
    limit = long_rope_limit(config)
    if limit is None:
        return
    ends = (segment_ids > 0) & (segment_ids != torch.nn.functional.pad(segment_ids[:, 1:], (0, 1)))
    shortest, longest = (int(length) + 1 for length in reset_positions(segment_ids)[ends].aminmax())
    if shortest <= limit < longest:
        raise ValueError(
            f"A batch must hold sequences of at most {limit} tokens (original_max_position_embeddings), or only longer "
            f"ones, not of {shortest} to {longest}: LongRoPE turns all by its long factors if one is longer."
        )


class _Ran:
    """Stands in for a model whose base model has run: `forward` finds `states` there and computes the head."""

    def __init__(self, module: Packed | PreTrainedModel, states: ModelOutput) -> None:
        self._module, self._states = module, states

    def __getattr__(self, name: str) -> Any:
        part = getattr(self._module, name)
        return _Ran(part, self._states) if isinstance(part, PreTrainedModel) else part

    def __call__(self, *_: Any, **__: Any) -> ModelOutput:
        return self._states


class Masked(Packed):
    """Mix into a transformers encoder with a head for masked tokens: `class Mine(Masked, RobertaForMaskedLM): …`.

    The head works on the tokens to predict only.

    Args:
        max_predictions_per_pack: None for as many rows of MLM logits as there are masked tokens; a number for that many
            for each pack of the batch, filled up with empty ones, as in the papers: static shapes.
        options: `backend` and `reduction` (see `Packed`).
    """

    def __init__(
        self, config: PreTrainedConfig, *, max_predictions_per_pack: int | None = None, **options: str
    ) -> None:
        super().__init__(config, **options)
        if max_predictions_per_pack is not None:
            whole_number("max_predictions_per_pack", max_predictions_per_pack, 1)
        self.max_predictions_per_pack = max_predictions_per_pack

    def heads(self, output: PackedOutput, flat: Tensor, batch: dict) -> PackedOutput:
        if batch["labels"] is not None:
            output.token_positions = self._predicted(batch["labels"] != IGNORED)
            at = output.token_positions.clamp(min=0)
            labels = batch["labels"].flatten()[at]
            output.token_labels = torch.where(output.token_positions < 0, IGNORED, labels)
            output.token_logits = self.token_logits(flat[at], batch)
            output.loss = token_loss(output, batch, self.reduction).mean
        return output

    def token_logits(self, rows: Tensor, batch: dict) -> Tensor:
        return self.own_head(rows, batch).logits[0]

    def _predicted(self, masked: Tensor) -> Tensor:
        """Where the masked tokens are among the B·T slots, -1 in empty places."""
        if self.max_predictions_per_pack is None:
            return masked.flatten().nonzero().flatten()
        places, count = self.max_predictions_per_pack * masked.shape[0], masked.sum()
        if masked.device.type == "cpu" and not torch.compiler.is_compiling() and count > places:
            raise ValueError(f"The batch has {count} masked tokens; there are places for {places}.")
        torch._assert_async(count <= places)  # on a GPU, or compiled, no token is lost silently either
        first = (~masked).flatten().int().argsort(stable=True)[:places]  # the masked ones come first, in their order
        return torch.where(torch.arange(len(first), device=first.device) < count, first, -1)


class PackedBert(Masked, BertForPreTraining):
    """BERT for pre-training on packs: `BertForPreTraining` with the same weights under the same names.

    `PackedBert(config)` starts at random, `PackedBert.from_pretrained(folder)` from a checkpoint of either
    class. Pooler and NSP head work on every sequence's first token.

    >>> from transformers import BertConfig
    >>> config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    >>> two = TokenStore.from_samples([{"input_ids": [7, 8, 9]}, {"input_ids": [4, 5]}])
    >>> PackedBert(config)(**collate(two, [2], max_length=8)).nsp_logits.shape
    torch.Size([2, 2])
    """

    def heads(self, output: PackedOutput, flat: Tensor, batch: dict) -> PackedOutput:
        firsts = flat[batch["sequence_starts"].clamp(max=len(flat) - 1)]  # an empty place says B·T
        output.pooled = self.bert.pooler(firsts[:, None])
        output.nsp_logits = self.cls.seq_relationship(output.pooled)
        output = super().heads(output, flat, batch)
        if batch["sequence_labels"] is not None:
            nsp = nsp_loss(output, batch, self.reduction).mean
            output.loss = nsp if output.loss is None else output.loss + nsp
        return output

    def token_logits(self, rows: Tensor, batch: dict) -> Tensor:
        return self.cls.predictions(rows)


class Causal(Packed):
    """Mix into a transformers decoder: `class Mine(Causal, LlamaForCausalLM): …`.

    A token looks back within its sequence, as far as the model's own windows let it, and predicts the next one.

    A mixture of experts computes the same for each token as alone, but for the loss that balances the experts,
    which `config.output_router_logits=True` asks for: it is a mean over all tokens that share the batch, packed or
    padded, and so depends on a sequence's company.
    """

    causal = True

    def heads(self, output: PackedOutput, flat: Tensor, batch: dict) -> PackedOutput:
        labels = batch["input_ids"] if batch["labels"] is None else batch["labels"]
        if labels is not None:
            target = next_tokens(labels, batch["segment_ids"]).flatten()
            output.token_positions = (target != IGNORED).nonzero().flatten()
            output.token_labels = target[output.token_positions]
            own = self.own_head(flat[output.token_positions], batch)
            output.token_logits = own.logits[0]
            output.loss = token_loss(output, batch, self.reduction).mean
            output.aux_loss = own.get("aux_loss")
            if output.aux_loss is not None:
                output.loss = output.loss + self.router_aux_loss_coef * output.aux_loss
        return output


class PackedCausal(Causal, GPT2LMHeadModel):
    """GPT-2 on packs, with the weights of `GPT2LMHeadModel`."""


def _check_tokens(name: str, ids: Tensor | None, at_least: int, vocabulary: int) -> None:
    """Only on a CPU: a GPU would have to wait for the answer, and its own kernels stop there."""
    if ids is None or ids.device.type != "cpu" or torch.compiler.is_compiling():
        return
    wrong = ids[(ids < at_least) | (ids >= vocabulary)]
    if len(wrong):
        raise ValueError(f"{name} must be from {at_least} to {vocabulary - 1}, not {int(wrong[0])}.")


def _refuse_wrong_mean(labels: Tensor | None, num_items_in_batch: Tensor | int) -> None:
    """Refuse what a plain Trainer weighs wrongly: an update of more than this batch."""
    own = [] if labels is None else [int((part != IGNORED).sum()) for part in (labels, labels[:, 1:])]
    ranks = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    if ranks > 1 or int(num_items_in_batch) not in own:
        raise ValueError(
            "A transformers.Trainer weighs packs of several micro-batches or ranks wrongly: use "
            "packlib.rows.PackTrainer in its place."
        )


def next_tokens(labels: Tensor, segment_ids: Tensor) -> Tensor:
    """The label of the next token of the same sequence, or -100 after its last one and on padding; shape (B, T)."""
    following = torch.full_like(labels, IGNORED)
    same = (segment_ids[:, 1:] == segment_ids[:, :-1]) & (segment_ids[:, 1:] > 0)
    following[:, :-1] = torch.where(same, labels[:, 1:], IGNORED)
    return following
