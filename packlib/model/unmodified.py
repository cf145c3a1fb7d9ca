"""Packs for models of transformers as they are: what to give them, what comes back, and which of them stay exact.

What keeps the sequences of a row apart is one of two forms. Padding-free is one row of all sequences with their bounds
(`cu_seq_lens_q`), for the variable-length kernels; without such a kernel transformers makes a mask of it from positions
that restart. Dense is a row for each pack, and a mask of pairs, shape (B, 1, T, T), for each kind of layer that the
model has, such as full attention and a sliding window.
"""

import inspect
import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    create_bidirectional_mask,
    create_bidirectional_sliding_window_mask,
    create_masks_for_generate,
)

from packlib.arguments import instance, one_of, shown
from packlib.batches import IGNORED, FlatBatch, PackedBatch, flatten_packs
from packlib.batches.batch import segment_begins
from packlib.model.attention import additive_mask
from packlib.model.forms import FORMS, STATE, table
from packlib.model.losses import token_loss
from packlib.model.output import PackedOutput
from packlib.model.packed import PackedBert

Form = Literal["auto", "padding_free", "dense"]
_DENSE = ("sdpa", "eager")  # backends that take a mask of pairs
_RULE = "packlib_rule"  # the name under which transformers hands us a layer's rule in place of a mask
_STATEFUL_LAYERS = {"linear_attention", "conv", "hybrid", "hybrid_sliding"}
_BY_ROW = {  # by family, the setting that computes something from a whole row
    "esm": "token_dropout", "falcon": "alibi", "qwen4_exp_text": "ple_layer_ids",
}  # fmt: skip
_ENCODERS = frozenset(  # families whose causal models look ahead all the same, unless is_decoder is True
    "bert bert-generation big_bird camembert data2vec-text electra ernie megatron-bert rembert roberta "
    "roberta-prelayernorm roc_bert roformer xlm-roberta xlm-roberta-xl xmod".split()
)


def for_transformers(batch: PackedBatch, model: PreTrainedModel, form: Form = "auto") -> dict[str, Any]:
    """Turn a packed batch into arguments with which an unmodified `model` treats each sequence as if it were alone.

    >>> from packlib.batches import TokenStore, collate
    >>> from packlib.model import for_transformers
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    >>> two = TokenStore.from_samples([{"input_ids": [7, 8, 6]}, {"input_ids": [4, 5]}])
    >>> given = for_transformers(collate(two, [2], max_length=8), model, "padding_free")
    >>> given["position_ids"], given["labels"], given["cu_seq_lens_q"]
    (tensor([[0, 1, 2, 0, 1]]), tensor([[-100,    8,    6, -100,    5]]), tensor([0, 3, 5], dtype=torch.int32))

    Args:
        batch: packs.
        model: a causal or masked model of transformers, with the attention backend that it will run with.
        form: "padding_free", "dense", or "auto": padding-free with a flash kernel, layers that carry a state, or
            experts that balance themselves, else dense.

    Returns:
        Of the following, what the model's `forward` takes.
        In both forms: `input_ids`, `position_ids`, `token_type_ids`, and `labels` if there are any; shape (1, tokens)
        if padding-free, (B, T) if dense. For a causal model, which shifts the labels itself, the first token of each
        sequence has the label -100; if the batch has no labels, all other tokens are predicted.
        If padding-free: `cu_seq_lens_q` and `cu_seq_lens_k`, int32, shape (S + 1,); the numbers `max_length_q` and
        `max_length_k`; and for layers that carry a state `seq_idx`, int32, shape (1, tokens), which numbers the
        sequence of each token from 0.
        If dense: `attention_mask`, one mask or a mapping from kind of layer to mask.
        For a causal model: `use_cache`, which is False, since with a cache transformers does not look for packs.

    Raises:
        TypeError, ValueError: if that would not be exact with this model and backend, with the reason.
    """
    return Handover.of(model, form)(instance("batch", batch, PackedBatch))


def packed_output(model: nn.Module, batch: PackedBatch, form: Form = "auto") -> PackedOutput:
    """Run `model` on packs: logits, labels and positions of the predicted tokens, as the losses of packlib read them.

    >>> from packlib.batches import TokenStore, collate
    >>> from packlib.model import packed_output, token_loss
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1))
    >>> two = TokenStore.from_samples([{"input_ids": [7, 8, 6]}, {"input_ids": [4, 5]}])
    >>> batch = collate(two, [2], max_length=8)
    >>> output = packed_output(model, batch)
    >>> output.token_labels, token_loss(output, batch, "sequence").count
    (tensor([8, 6, 5]), tensor(2))

    Args:
        model: a causal or masked model of transformers, unmodified; or a `PackedBert`, or a module or function of your
            own that takes the fields of a batch and returns a `PackedOutput`. Each may be compiled, or in
            `DistributedDataParallel`.
        form: as in `for_transformers`.

    Raises:
        TypeError, ValueError: as `for_transformers`; and for a mixture of experts that computes its balancing loss,
            which is a mean over whatever shares a batch and no sum over sequences.
    """
    if not callable(model):
        raise TypeError(f"model must be a module or a function, not {shown(model)}.")
    instance("batch", batch, PackedBatch)
    one_of("form", form, get_args(Form))
    bare: Any = model.module if isinstance(model, DistributedDataParallel) else model
    bare = getattr(bare, "_orig_mod", bare)  # of a compiled one
    if isinstance(bare, PackedBert) or not isinstance(bare, PreTrainedModel):
        return model(**batch)
    if getattr(bare.config, "output_router_logits", False):
        raise ValueError(
            "The balancing loss of experts depends on all tokens that share a batch: set output_router_logits of the "
            "model's configuration to False."
        )
    handover = Handover.of(bare, form)
    arguments = {name: value for name, value in handover(batch).items() if name != "labels"}
    logits, output = model(**arguments).logits.flatten(0, 1), PackedOutput()
    target = causal_labels(batch) if handover.kind == "causal" else batch.labels
    if target is None:
        return output
    if handover.kind == "causal":  # a slot predicts the token in the next one
        target = nn.functional.pad(target[:, 1:], (0, 1), value=IGNORED)
    labeled_slots = (target.flatten() != IGNORED).nonzero().flatten()
    output.token_labels, output.token_positions = target.flatten()[labeled_slots], labeled_slots
    if handover.form == "padding_free":  # the slots without padding
        labeled_slots = (batch.segment_ids > 0).flatten().cumsum(0)[labeled_slots] - 1
    output.token_logits = logits[labeled_slots]
    output.loss = token_loss(output, batch).mean
    return output


def causal_labels(batch: PackedBatch) -> Tensor:
    """Take the labels, or the tokens if there are none; mask the first of each sequence and padding; shape (B, T)."""
    labels = batch.input_ids if batch.labels is None else batch.labels
    return labels.masked_fill(segment_begins(batch.segment_ids) | (batch.segment_ids == 0), IGNORED)


def kind_of(model: PreTrainedModel) -> str:
    """Tell a "causal" from a "masked" model of transformers.

    Raises:
        TypeError: if packs change what it computes, with the reason.
    """
    rows = {kind: table().get((kind, model.config.model_type)) for kind in ("masked", "causal")}
    kind_of_class = {row["class"]: kind for kind, row in rows.items() if row}
    bases = [base.__name__ for base in type(model).__mro__]
    kind = next((kind_of_class[name] for name in bases if name in kind_of_class), None)
    reason = _uncompared(model.config, sorted(kind_of_class)) if kind is None else _reason(kind, model.config)
    if kind is None or reason:
        raise TypeError(f"{type(model).__name__} cannot take packs: {reason}.")
    return kind


def _uncompared(config: Any, compared_classes: list[str]) -> str:
    """Say why nobody has compared the packed outputs of this kind of model with its unpacked ones.

    Args:
        compared_classes: the names of the classes of the same `model_type` that were compared; may be none.
    """
    if compared_classes:
        return f"it has another head than {' or '.join(compared_classes)}, which was compared, packed and alone"
    if config.is_encoder_decoder:
        return "it is an encoder-decoder model, and a pack holds no second text for the decoder"
    return f"{config.model_type!r} is not among the models that were compared, packed and alone"


def _reason(kind: str, config: Any) -> str | None:
    """Say why no form would be exact with this configuration; None if some may be."""
    family = config.model_type
    row = table()[kind, family]
    reasons = {row[column] for column in (*FORMS, "flash")}
    if len(reasons) == 1 and "" not in reasons:  # each form is inexact, for the same reason
        return reasons.pop()
    if not row["kernels"] and _STATEFUL_LAYERS & set(getattr(config, "layer_types", None) or ()):
        return STATE
    if kind == "causal" and family in _ENCODERS and not config.is_decoder:
        return "is_decoder=False lets its tokens look ahead"
    if family == "big_bird" and config.attention_type != "original_full":
        return (
            "attention_type='block_sparse' draws blocks from the whole pack; attention_type='original_full' does not"
        )
    if (setting := _BY_ROW.get(family)) and getattr(config, setting):
        return f"{setting}={getattr(config, setting)} computes from whole rows"
    return None


@dataclass(frozen=True)
class Handover:
    """Hands packs to one model: called with a batch, it returns the arguments.

    Attributes:
        form: "padding_free" or "dense".
        kind: "causal" or "masked".
        config, dtype: those of the model.
        first_position: the position of the first token of a sequence.
        reads: the names of the arguments that the model's `forward` uses; "**" among them if it takes any other name.
    """

    form: str
    kind: str
    config: Any
    dtype: torch.dtype
    first_position: int
    reads: frozenset[str]

    @classmethod
    def of(cls, model: PreTrainedModel, form: Form) -> "Handover":
        """Choose the form for a model; arguments and errors are as of `for_transformers`."""
        one_of("form", form, get_args(Form))
        if not isinstance(model, PreTrainedModel) or isinstance(model, PackedBert):
            raise TypeError(
                f"model must be a model of transformers, unmodified, not {type(model).__name__}"
                f"{', which takes a PackedBatch as it is' if isinstance(model, PackedBert) else ''}."
            )
        kind = kind_of(model)
        return cls(
            _exact_form(model, kind, form),
            kind,
            model.config,
            model.dtype,
            first_position(model),
            _names_that_are_read(model, kind),
        )

    def __call__(self, batch: PackedBatch) -> dict[str, Any]:
        """Make the arguments for a batch, in this form."""
        return self.dense(batch) if self.form == "dense" else self.flat(flatten_packs(batch))

    def flat(self, batch: FlatBatch) -> dict[str, Any]:
        """Make the arguments for sequences end to end, in one row without padding."""
        lengths = batch.lengths[: len(batch.lengths) - batch.padding_sequences]
        self.check_lengths(int(lengths.max()), int(lengths.min()), int(lengths.max()))
        bounds, longest = batch.bounds.to(torch.int32), int(batch.lengths.max())
        by_token = {
            "input_ids": batch.input_ids,
            "position_ids": batch.position_ids + self.first_position,
            "token_type_ids": batch.token_type_ids,
            "labels": batch.causal_labels() if self.kind == "causal" else self._masked_labels(batch),
            "seq_idx": batch.sequence_of_token.to(torch.int32),
        }
        arguments: dict[str, Any] = {name: values[None] for name, values in by_token.items() if values is not None}
        arguments |= {
            "cu_seq_lens_q": bounds,
            "cu_seq_lens_k": bounds,
            "max_length_q": longest,
            "max_length_k": longest,
        }
        return self._taken(arguments)

    def dense(self, batch: PackedBatch) -> dict[str, Any]:
        """Make the arguments for a row for each pack, with a mask of pairs."""
        self.check_lengths(batch.max_length, int(batch.lengths.min()), int(batch.lengths.max()))
        arguments = {
            "input_ids": batch.input_ids,
            "position_ids": batch.position_ids + self.first_position,
            "token_type_ids": batch.token_type_ids,
            "labels": causal_labels(batch) if self.kind == "causal" else self._masked_labels(batch),
            "attention_mask": self.masks(batch.input_ids, partial(additive_mask, batch.segment_ids)),
        }
        return self._taken({name: value for name, value in arguments.items() if value is not None})

    def _taken(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return those of these arguments that the model takes, and for a causal one `use_cache=False`."""
        if self.kind == "causal":
            arguments["use_cache"] = False
        return {name: value for name, value in arguments.items() if self.takes(name)}

    def check_lengths(self, slots: int, shortest: int, longest: int) -> None:
        """Refuse sequences of these lengths if the model would not place each as it does alone.

        Args:
            slots: those that get a position: of a row if dense, of the longest sequence if padding-free.
            shortest, longest: the tokens of the shortest and of the longest sequence.
        """
        positions = getattr(self.config, "max_position_embeddings", None) or 0
        space = positions - self.first_position if positions > 0 else math.inf
        if slots > space:
            what = "The rows have" if self.form == "dense" else "A sequence has"
            raise ValueError(f"{what} {slots} tokens; the model's position table ends at {space}.")
        limit = long_rope_limit(self.config)
        if limit is not None and shortest <= limit < longest:
            raise ValueError(
                f"A batch must hold sequences of at most {limit} tokens (original_max_position_embeddings), or only "
                f"longer ones, not of {shortest} to {longest}: LongRoPE turns all by its long factors if one is longer."
            )

    def takes(self, name: str) -> bool:
        """Return whether the model takes an argument of this name.

        Where `forward` has `**kwargs`, only the bounds and `use_cache` go into these: transformers hands them on to the
        layers that read them.
        """
        passed_on = name.startswith(("cu_seq_lens", "max_length")) or name == "use_cache"
        return name in self.reads or (passed_on and "**" in self.reads)

    def _masked_labels(self, batch: PackedBatch | FlatBatch) -> Tensor | None:
        """Return the labels of a masked model; refuse labels that are the tokens themselves, as for a causal one."""
        is_later = batch.position_ids > 0  # the first token of a sequence has no label for a causal model
        if batch.labels is not None and is_later.any() and batch.labels[is_later].equal(batch.input_ids[is_later]):
            raise ValueError("labels are those of a causal model; a masked one needs pack_dataset(labels=False).")
        return batch.labels

    def masks(self, input_ids: Tensor, within: Callable[..., Tensor]) -> Tensor | dict[str, Tensor]:
        """Make the masks that transformers has for this model's kinds of layers, within sequences.

        Each model says which rule each of its layers follows: causal or not, a window, a chunk. Where transformers
        would make a mask, it hands us the rule. We add our own: both tokens are of the same sequence.

        Args:
            input_ids: shape (B, T).
            within: a function that makes a mask as `additive_mask` does, from three arguments: whether it is causal,
                the precision, and a further rule or None.
        """
        if _RULE not in AttentionMaskInterface._global_mapping:
            AttentionMaskInterface.register(_RULE, lambda *, mask_function, **_: mask_function)
        # of hidden states, transformers reads here only the shape (B, T, …), the dtype and the device
        states = torch.empty((*input_ids.shape, 1), dtype=self.dtype, device=input_ids.device)
        config = deepcopy(self.config)  # the model's own stays as it is
        config._attn_implementation = _RULE
        no_padding_mask = no_cache = None
        arguments = config, states, no_padding_mask  # by place, since names differ between versions
        if self.kind == "causal":
            rules = create_masks_for_generate(*arguments, no_cache)
        else:
            rules = {"full_attention": create_bidirectional_mask(*arguments)}
            if "sliding_attention" in (getattr(self.config, "layer_types", None) or ()):
                rules["sliding_attention"] = create_bidirectional_sliding_window_mask(*arguments)
        rules = rules if isinstance(rules, dict) else {"": rules}  # one rule alone holds for all layers
        masks = {name: self._mask(within, rule) for name, rule in rules.items()}
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _mask(self, within: Callable[..., Tensor], rule: Any) -> Tensor:
        """Make the mask of one kind of layer from transformers' rule for it; `within` is as of `masks`."""
        if rule is None:
            raise ValueError("The model makes its attention mask its own way, so its sequences cannot be kept apart.")
        is_causal = rule is causal_mask_function
        is_plain = is_causal or rule is bidirectional_mask_function
        mask = within(is_causal, self.dtype, None if is_plain else rule)
        # sdpa knows masks of bool, of whatever precision the model is
        return mask == 0 if self.config._attn_implementation == "sdpa" else mask


def _exact_form(model: PreTrainedModel, kind: str, form: Form) -> str:
    """Return the form, or choose one for "auto"; raise a TypeError if the model would not be exact with it."""
    family, backend = model.config.model_type, model.config._attn_implementation
    carries_state = bool(table()[kind, family]["kernels"])
    balances_experts = getattr(model.config, "output_router_logits", False)
    if form == "auto":
        form = "padding_free" if carries_state or balances_experts or "flash" in backend else "dense"
    reason = _refusal(form, kind, family, backend)
    if form == "dense" and balances_experts:
        reason = "output_router_logits=True computes a balancing loss that takes no mask of pairs; choose padding_free"
    if reason:
        raise TypeError(f"{type(model).__name__} cannot take packs in the form {form!r}: {reason}.")
    return form


def _names_that_are_read(model: PreTrainedModel, kind: str) -> frozenset[str]:
    """Return the names of the arguments that the model's `forward` uses; "**" among them if it takes any other name."""
    parameters = inspect.signature(model.forward).parameters
    names = set(parameters)
    if not hasattr(model.config, "type_vocab_size"):
        names.discard("token_type_ids")  # it takes them, but has no embeddings for them
    if table()[kind, model.config.model_type]["kernels"]:  # of layers that begin their state anew where this changes
        names.add("seq_idx")
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        names.add("**")
    return frozenset(names)


def _refusal(form: str, kind: str, family: str, backend: str) -> str | None:
    """Say why this form would not be exact with this family and backend; None if it is."""
    if form == "dense" and backend not in _DENSE:
        return f"the attention backend {backend!r} takes no mask of pairs; choose sdpa or eager, or padding_free"
    if form == "padding_free" and backend not in _DENSE and "flash" not in backend:
        return f"the attention backend {backend!r} was not compared; choose sdpa, eager, or a flash kernel"
    return table()[kind, family]["flash" if "flash" in backend else form] or None


def first_position(model: PreTrainedModel) -> int:
    """Return the position of a sequence's first token: 0, but RoBERTa and its kin begin after the place of padding."""
    embeddings = (part for part in model.modules() if hasattr(part, "position_embeddings"))
    return next((part.padding_idx + 1 for part in embeddings if hasattr(part, "padding_idx")), 0)


def long_rope_limit(config: Any) -> int | None:
    """Return the length above which a sequence gets the long factors of LongRoPE, and all others of its batch with it.

    None without LongRoPE. Some models have a rope of their own for each kind of layer.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope, *(part for part in rope.values() if isinstance(part, dict))]
    limits = (kind["original_max_position_embeddings"] for kind in kinds if kind.get("rope_type") == "longrope")
    return next(limits, None)
