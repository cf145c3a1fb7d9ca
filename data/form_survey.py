"""Every family of transformers: in which form does its unmodified model take packs?

`python data/record.py forms` compares all of them with each sequence alone and writes packlib/model/forms.csv; with
names, it compares only these families and prints what it finds.
"""

import csv
import inspect
import itertools
import sys
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch
import transformers
from transformers import modeling_flash_attention_utils as flash

import small_families
from packlib.batches import IGNORED, PackedBatch
from packlib.files import atomic_path
from packlib.model import for_transformers, unmodified
from packlib.model.forms import FORMS, STATE, TABLE
from small_families import MAPPINGS, TOLERANCE, InDouble, alone, make_batch, quiet, randomize, small_config

SHORT = dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), 18)  # a row may be longer


def reference(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
              causal=False, window_size=(-1, -1), softcap=0.0, deterministic=False):  # fmt: skip
    """Return what flash_attn's `flash_attn_varlen_func` computes, in plain PyTorch; shapes (tokens, heads, width)."""
    assert cu_seqlens_q.dtype == torch.int32 and max_seqlen_q == int(cu_seqlens_q.diff().max())
    outputs, bounds = [], cu_seqlens_q.tolist()
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    for start, end in itertools.pairwise(bounds):
        query, key, value = (x[start:end].transpose(0, 1) for x in (q, k, v))
        key, value = (x.repeat_interleave(len(query) // len(x), 0) for x in (key, value))
        scores = query @ key.transpose(1, 2) * scale
        scores = softcap * torch.tanh(scores / softcap) if softcap else scores
        place = torch.arange(end - start)
        ahead = place[None] - place[:, None]
        left, right = window_size if not causal else (window_size[0], 0)
        hidden = (ahead > right if right >= 0 else False) | (-ahead > left if left >= 0 else torch.tensor(False))
        outputs.append((scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value).transpose(0, 1))
    return torch.cat(outputs)


@contextmanager
def stand_in():
    """Take transformers' own way to a flash kernel, on a CPU: all is its own but the kernel."""
    process = flash._lazy_define_process_function(reference)
    found = (None, reference, None, None, None), (process, process)
    with mock.patch.object(flash, "lazy_import_flash_attention", lambda *_, **__: found):
        yield


# Functions of transformers for which a package has a kernel that begins anew with each sequence: the package, the axis
# of the tokens, and the argument that says where sequences begin. Kernels that are not here would run on.
KERNELS = {
    "causal_conv1d_fn": ("causal_conv1d", 2, "seq_idx"),
    "mamba2_chunk_scan": ("mamba_ssm", 1, "seq_idx"),
    "torch_chunk_gated_delta_rule": ("fla", 1, "cu_seqlens"),
    "chunk_kimi_delta_attention": ("fla", 1, "cu_seqlens"),
}


def kernels_of(own):
    """Return what keeps the sequences of this class apart, by name: transformers' functions that ask for a kernel."""
    here = sys.modules[own.__module__]
    return {name: getattr(here, name) for name in KERNELS if hasattr(getattr(here, name, None), "__wrapped__")}


def by_sequence(function, axis, bounded_by):
    """Return what a kernel with bounds computes: the plain function, a sequence at a time."""

    def run(*arguments, **options):
        given = options.pop(bounded_by, None)
        if given is None:
            return function(*arguments, **options)
        assert given.dtype == torch.int32
        if bounded_by == "seq_idx":
            assert len(given) == 1
            counts = given[0].unique_consecutive(return_counts=True)[1]
            given = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        tokens, parts = arguments[0].shape[axis], []
        for start, end in itertools.pairwise(given.tolist()):

            def cut(x, start=start, end=end):
                whole = isinstance(x, torch.Tensor) and x.dim() > axis and x.shape[axis] == tokens
                return x.narrow(axis, start, end - start) if whole else x

            parts.append(function(*map(cut, arguments), **{name: cut(x) for name, x in options.items()}))
        if isinstance(parts[0], tuple):
            return torch.cat([part[0] for part in parts], axis), None
        return torch.cat(parts, axis)

    return run


@contextmanager
def with_kernels(model):
    """Put the packages' kernels in place of transformers' functions, for this model's family."""
    with ExitStack() as stack:
        for name, function in kernels_of(type(model)).items():
            plain, here = inspect.unwrap(function), sys.modules[type(model).__module__]
            stack.enter_context(mock.patch.object(here, name, by_sequence(plain, *KERNELS[name][1:])))
        yield


@contextmanager
def double():
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with InDouble(), mock.patch.dict(small_families.SMALL, SHORT), stand_in(), quiet():
            yield
    finally:
        torch.set_default_dtype(default)


def make(kind, model_type, **changes):
    model = (
        getattr(transformers, MAPPINGS[kind][model_type])(small_config(kind, model_type, **changes)).double().eval()
    )
    randomize(model)
    return model


def gap_of(a, b):
    """Return the largest difference, relative to the largest number of `b` if that is above 1."""
    if not b.numel():
        return 0.0
    gap = (a - b).abs().max() / b.abs().max().clamp(min=1)
    return float("inf") if not gap.isfinite() else float(gap)


def difference(kind, model_type, form, backend, **changes):
    """Return how far an unmodified model, given packs, is from each sequence alone: logits, loss and gradients."""
    with double():
        model, batch = make(kind, model_type, **changes), make_batch(kind)
        logits, loss = alone(model, kind, batch)
        loss.backward()
        expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        model.config._attn_implementation = backend
        given = for_transformers(batch, model, form)
        with with_kernels(model):
            output = model(**given)
        output.loss.backward()
    target = given["labels"]
    if kind == "causal":
        target = torch.nn.functional.pad(target, (0, 1), value=IGNORED)[:, 1:]
    gaps = [gap_of(output.logits[target != IGNORED], logits), gap_of(output.loss, loss)]
    for name, p in model.named_parameters():
        if p.grad is not None or name in expected:
            ours, theirs = (g if g is not None else torch.zeros_like(p) for g in (p.grad, expected.get(name)))
            gaps.append(gap_of(ours, theirs))
    return max(gaps)


def leaks(kind, model_type, form, backend):
    """Return whether another first sequence changes what the model computes for the other sequences of its pack."""
    with double(), torch.no_grad():
        model, batch = make(kind, model_type), make_batch(kind)
        model.config._attn_implementation = backend
        here = (batch.segment_ids == 1) & (torch.arange(len(batch.input_ids))[:, None] == 0)
        changed = torch.where(here, batch.input_ids % 60 + 1, batch.input_ids)
        both = [PackedBatch(input_ids=ids, segment_ids=batch.segment_ids) for ids in (batch.input_ids, changed)]
        same = ~here[batch.segment_ids > 0] if form == "padding_free" else ~here.flatten()
        given = [for_transformers(some, model, form) for some in both]
        with with_kernels(model):
            before, after = (model(**some).logits.flatten(0, 1)[same] for some in given)
    return gap_of(after, before) > 1e-6


def own_way_with_flash(kind, model_type):
    """Return whether a sequence alone comes out otherwise with a flash kernel than without."""
    with double(), torch.no_grad():
        model, batch = make(kind, model_type), make_batch(kind)
        ids = batch.input_ids[1:2, :13]
        alone = PackedBatch(input_ids=ids, segment_ids=torch.ones_like(ids))
        own = model(**for_transformers(alone, model, "padding_free")).logits
        model.config._attn_implementation = "flash_attention_2"
        return gap_of(model(**for_transformers(alone, model, "padding_free")).logits, own) > 1e-6


CONVOLUTION = "it convolves over neighboring tokens, of which some belong to another sequence"
REFUSED = {
    **dict.fromkeys(("lfm2", "lfm2_moe", "lfm3", "inkling_text", "inkling2_text", "inkling2_loop_text"), CONVOLUTION),
    **dict.fromkeys(("convbert", "mobilebert"), CONVOLUTION),
    "nystromformer": "it convolves over neighboring tokens, and attends to averages over the whole pack",
    "mra": "its attention is computed from averages of blocks, of which some hold several sequences",
    "yoso": "its hashing attention takes a mask of keys only, so its tokens would see every sequence of the pack",
    "fnet": "its Fourier transform mixes all tokens of the pack",
    "funnel": "it pools neighboring tokens, of which some belong to another sequence",
    "minimax": STATE,
}
ONLY_NEWER = {"inkling2_text": CONVOLUTION}  # exact from transformers 5.24 on, and packlib takes 5.23, too
RUN_ON = {  # transformers does not hand their kernels the bounds
    "bailing_hybrid", "falcon_mamba", "jamba", "kimi_linear", "mamba", "mamba2", "qwen4_exp_text", "zamba",
}  # fmt: skip
NOT_TRIED = {
    "cpmant": "its input is a prompt and a text, with lengths of their own",
    "dots3_note_text": "its sliding layers have a size of their own, and are not small",
    "gemma4_assistant": "it reads the states of another model",
    "moss_transcribe_diarize": "it is made of several models",
    "perceiver": "it reads bytes through a few latent vectors",
    "reformer": "it hashes tokens into buckets at random",
    "tapas": "its input is a table",
    "trocr": "it is half of an encoder-decoder model",
}
NOT_COMPARED = "it was not compared: "
LEAKS = "its mask does not see that positions restart, so its tokens would attend to other sequences"
OTHERWISE = "with a flash kernel it computes something else, also for a sequence alone"
NO_FLASH = "transformers knows no flash kernel for it"
FAILS = "the code that transformers has for it fails with a flash kernel"
NO_PAIRS = "it makes its mask its own way, and takes none of pairs"
SHORT_ROWS = "its rows cannot be longer than its position table"


def reason(kind, model_type, form, backend):
    """Return "" if the form is exact with this backend; otherwise why not.

    Raises:
        AssertionError: if it is not, and nobody has said why.
    """
    try:
        gap = difference(kind, model_type, form, backend)
        if gap < TOLERANCE.get(model_type, 1e-10):
            return ""
        said = f"it differs by {gap:.1e}"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    if model_type in REFUSED:
        return REFUSED[model_type]
    if model_type in RUN_ON:
        return STATE
    if "Error: " in said:
        if form == "dense":
            return NO_PAIRS
        if "size of tensor" in said or "out of range" in said:
            return SHORT_ROWS
        if "flash" in backend:
            return FAILS
    if "flash" in backend and own_way_with_flash(kind, model_type):
        return OTHERWISE
    if leaks(kind, model_type, form, backend):
        return LEAKS
    raise AssertionError(f"{kind} {model_type}, {form}, {backend}: {said}; find out why")


def not_compared(kind, model_type):
    """Return why a family is not compared; "" if it is."""
    own = getattr(transformers, MAPPINGS[kind][model_type])
    if model_type in NOT_TRIED:
        return NOT_COMPARED + NOT_TRIED[model_type]
    if own._is_stateful and not kernels_of(own):
        return STATE
    with quiet():
        config = small_config(kind, model_type)
        if config.is_encoder_decoder:
            return NOT_COMPARED + "it is half of an encoder-decoder model"
        if set(config.sub_configs) - {"attn_config", "ffn_config", "esmfold_config"}:
            return NOT_COMPARED + "it is made of several models"
        with torch.device("meta"):
            assert own(config).num_parameters() < 3_000_000, f"{model_type} is not small"
    return ""


def survey(kind, model_type):
    """Return the row of the table: the packages whose kernels it needs, and for each form "" if exact, or why not."""
    own = getattr(transformers, MAPPINGS[kind][model_type])
    found = forms_of(kind, model_type, own)
    exact = kernels_of(own) if "" in found.values() else ()
    return {"kernels": " ".join(sorted({KERNELS[name][0] for name in exact})), **found}


def forms_of(kind, model_type, own):
    """Return, by form of the table, "" if exact, or why not."""
    if why := ONLY_NEWER.get(model_type) or not_compared(kind, model_type):
        return dict.fromkeys((*FORMS, "flash"), why)
    dense = ["sdpa", "eager"] if own._supports_sdpa else ["eager"]
    with (
        mock.patch.object(unmodified, "kind_of", lambda _: kind),
        mock.patch.object(unmodified, "_refusal", lambda *_: None),
        mock.patch.object(unmodified, "table", lambda: defaultdict(lambda: {"kernels": " ".join(kernels_of(own))})),
    ):
        found = {}
        for form in FORMS:
            found[form] = next(filter(None, (reason(kind, model_type, form, backend) for backend in dense)), "")
            if form == "dense" and kernels_of(own):
                found[form] = REFUSED.get(model_type, STATE)  # their bounds are those of one row
        if own._supports_flash_attn:
            found["flash"] = reason(kind, model_type, "padding_free", "flash_attention_2")
        else:
            found["flash"] = REFUSED.get(model_type, NO_FLASH)
    return found


def rows():
    for kind, mapping in MAPPINGS.items():
        for model_type, name in mapping.items():
            yield {"kind": kind, "model_type": model_type, "class": name, **survey(kind, model_type)}


def main(*names):
    if names:
        for kind, mapping in MAPPINGS.items():
            for model_type in set(names) & set(mapping):
                print(kind, model_type, survey(kind, model_type))
        return
    with atomic_path(TABLE) as path, open(path, "w", encoding="utf-8", newline="") as file:
        file.write(f"# python data/record.py forms (transformers {transformers.__version__})\n")
        writer = csv.DictWriter(file, ("kind", "model_type", "class", "kernels", *FORMS, "flash"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows())
