"""What the collator makes of rows of `pack_dataset`: a batch for models of transformers as they are, unmodified.

A row with the sequences 7 8 6 and 4 5, that is with `seq_lengths` [3, 2], becomes, for a causal model:

    input_ids        7    8    6    4    5
    position_ids     0    1    2    0    1    they start again with each sequence
    labels        -100    8    6 -100    5    the 6 must not predict the 4, which begins another sequence

The batch also has what keeps the two apart. In the form "dense", which most models without a flash kernel get, that is
an `attention_mask` of pairs, shape (rows, 1, T, T). In the form "padding_free" it is the bounds `cu_seq_lens_q` and
`cu_seq_lens_k`, [0, 3, 5], with `max_length_q` and `max_length_k`, 3. `packlib.model.unmodified` makes them.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch.nn.functional import pad
from torch.utils.data import SequentialSampler
from transformers import PreTrainedModel

from packlib.arguments import shown, whole_number
from packlib.batches import FlatBatch, PackingCollator, flatten_rows
from packlib.model.unmodified import Form, Handover


def _refuse_context_parallelism(state: Any) -> None:
    """Raise a ValueError if accelerate uses context parallelism, since it then drops every mask.

    This is checked at each call, since accelerate may be set up after the collator is made.

    Args:
        state: the module `accelerate.state`.
    """
    parallelism = state.AcceleratorState._shared_state.get("parallelism_config")
    if parallelism is not None and parallelism.cp_enabled:
        raise ValueError(
            f"cp_size of accelerate's ParallelismConfig must be 1 for packs, not {parallelism.cp_size}: with context "
            "parallelism accelerate drops the mask that keeps the sequences of a row apart."
        )


def _refuse_repeated_rows(state: Any, trains: bool, form: str) -> None:
    """Raise a ValueError if the rows do not fill the last batch of every rank, since accelerate would repeat some.

    In evaluation it removes the repeated rows again, but from dense batches alone.

    Args:
        state: the module `accelerate.state`, which knows the loader that is iterated over.
        trains: whether the model is in training. A loader that shuffles trains, too.
        form: "dense" or "padding_free", that of the batches.
    """
    num_ranks = state.PartialState._shared_state.get("num_processes", 1)
    is_active = num_ranks > 1 and state.GradientState._shared_state
    loader = state.GradientState().active_dataloader if is_active else None
    batch_sampler: Any = getattr(loader, "batch_sampler", None)
    if loader is None or loader.remainder <= 0 or not getattr(batch_sampler, "even_batches", False):
        return
    rows_in_words = (
        f"{len(loader.dataset)} rows on {num_ranks} ranks that take {loader.total_batch_size} at a time, of which "
        "accelerate would repeat some"
    )
    if trains or not isinstance(getattr(batch_sampler.batch_sampler, "sampler", None), SequentialSampler):
        raise ValueError(
            f"dataloader_drop_last (drop_last of a DataLoader) must be True for {rows_in_words}: they would be "
            "trained on twice."
        )
    if form == "padding_free":
        raise ValueError(
            f'form must be "dense" to evaluate {rows_in_words}: accelerate takes them out of dense batches alone.'
        )


class _Shape(NamedTuple):
    """Shape of every padding-free batch, with its padding: tokens, sequences, and tokens of the longest sequence."""

    tokens: int
    sequences: int
    longest: int

    @classmethod
    def of(cls, shape: Any) -> "_Shape":
        """Return three numbers as a shape; raise a ValueError if they are not three whole numbers from 1 up."""
        if not isinstance(shape, tuple | list) or len(shape) != len(cls._fields):
            raise ValueError(f"shape must be (tokens, sequences, longest), not {shown(shape)}.")
        pairs = zip(cls._fields, shape, strict=True)
        return cls(*(whole_number(f"{name} of shape", value, 1) for name, value in pairs))


class TransformersCollator:
    """A `collate_fn` or `data_collator` for rows of `pack_dataset`: it makes of them what an unmodified model takes.

    An error names columns with values for tokens that no model reads. A `transformers.Trainer` removes these before.

    Args:
        model, form: as in `for_transformers`.
        pad_id: the token in slots of padding.
        pad_to_multiple_of: round the tokens of each row up to a multiple of this, such as 8 or 64 for kernels, or twice
            the ranks that share a row in context parallelism. Padding-free, the padding is one more sequence at the
            end, without labels.
        shape: (tokens, sequences, longest) of every batch, padding-free, so that a compiler meets one shape. The row
            is padded to this number of tokens, in sequences of padding of at most `longest` tokens. The bounds have
            this number of sequences, those that are left over without tokens; and `max_length_q` is `longest`.

    Raises:
        ValueError: if `shape` is given with the form "dense" or a multiple.
        ValueError: when called, if a batch is larger than `shape`; if accelerate splits rows over ranks (`cp_size`
            above 1), since it drops every mask; or if it would repeat rows to give each rank the same number, since
            they would count twice.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> from packlib import TransformersCollator
    >>> model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=9, bos_token_id=0, eos_token_id=0))
    >>> batch = TransformersCollator(model)([{"input_ids": [7, 8, 6, 4, 5], "seq_lengths": [3, 2]}])
    >>> batch["position_ids"].tolist(), batch["labels"].tolist()
    ([[0, 1, 2, 0, 1]], [[-100, 8, 6, -100, 5]])
    """

    def __init__(
        self,
        model: PreTrainedModel,
        form: Form = "auto",
        pad_id: int = 0,
        pad_to_multiple_of: int = 1,
        shape: tuple[int, int, int] | None = None,
    ) -> None:
        self._handover = Handover.of(model, form)
        self.collator = PackingCollator(pad_id=pad_id)
        self.multiple = whole_number("pad_to_multiple_of", pad_to_multiple_of, 1)
        self.shape = None if shape is None else _Shape.of(shape)
        if self.shape and (self._handover.form != "padding_free" or self.multiple > 1):
            excluded_by = (
                f"the form {self._handover.form!r}" if self._handover.form != "padding_free" else "pad_to_multiple_of"
            )
            raise ValueError(
                f'shape must be left out with {excluded_by}: it is for the form "padding_free" by itself.'
            )
        self._model: PreTrainedModel | None = model  # it is asked whether it trains or evaluates

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the model, so that workers that are not forked get no copy of it."""
        return vars(self) | {"_model": None}

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the arguments of the model for a batch of these rows."""
        if state := sys.modules.get("accelerate.state"):
            _refuse_context_parallelism(state)
            _refuse_repeated_rows(state, self._model is not None and self._model.training, self._handover.form)
        return self._flat(rows) if self._handover.form == "padding_free" else self._dense(rows)

    def _dense(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a row for each pack, all of them as long as the fullest, rounded up to the multiple."""
        fullest = max((len(row["input_ids"]) for row in rows), default=1)
        width = fullest + -fullest % self.multiple  # -7 % 4 is 1: what is missing from 7 to 8
        batch = replace(self.collator, max_length=width)(rows)
        return self._handover.dense(batch)

    def _flat(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return one row of all sequences, then the padding that the multiple or the shape asks for."""
        flat = flatten_rows(rows)
        if self.shape:
            return self._shaped(flat, self.shape)
        if missing := -len(flat.input_ids) % self.multiple:
            flat = flat.with_padding([missing], self.collator.pad_id)
        return self._handover.flat(flat)

    def _shaped(self, flat: FlatBatch, shape: _Shape) -> dict[str, Any]:
        """Return one row of all sequences, with padding and empty sequences up to the fixed shape."""
        missing_tokens = max(shape.tokens - len(flat.input_ids), 0)
        padding_lengths = [shape.longest] * (missing_tokens // shape.longest) + [missing_tokens % shape.longest]
        padding_lengths = [length for length in padding_lengths if length]
        smallest = _Shape(len(flat.input_ids), len(flat.lengths) + len(padding_lengths), int(flat.lengths.max()))
        for name, minimum, limit in zip(_Shape._fields, smallest, shape, strict=True):
            if minimum > limit:
                raise ValueError(f"{name} of shape must be at least {minimum} for this batch, not {limit}.")
        arguments = self._handover.flat(flat.with_padding(padding_lengths, self.collator.pad_id))
        num_empty = shape.sequences - smallest.sequences  # sequences without a token begin and end behind the row
        bounds = {name: arguments[name] for name in ("cu_seq_lens_q", "cu_seq_lens_k") if name in arguments}
        arguments |= {name: pad(values, (0, num_empty), value=shape.tokens) for name, values in bounds.items()}
        return arguments | {name: shape.longest for name in ("max_length_q", "max_length_k") if name in arguments}
