"""Set-ups for `check_packing` after public reports, made after its code; each name begins with its report.

A faulty one has what the report complains of, in a model of a few numbers; a right one is as it was mended, or looks
like a fault and is none.
"""

import check_cases as cases
import check_today as today
import torch
from check_beyond import LONGER, labels_cut, looping
from check_cases import SEGMENTS, Flat, Tiny, dense, flat, make, padded
from check_later import ENDED, count, left_padded, update
from check_reports import ALONE, EARLIER, FLAT, SHORT, NotShifting, Uncounted, beforehand, llama, of
from torch.nn import functional as F

CHANGED = (  # what the code was changed for
    "linkedin/Liger-Kernel#974, a distillation of prompts",
    "modelscope/ms-swift#9904, sequences of one token",
)
SINGLE = of(9, 1, 14, 1, 7, 12)  # some have one token


def stepping(scale, form="each"):
    return llama(), FLAT, SHORT, {"step": update(scale, form)}


def in_packs(model, slots=40, **options):
    return model, dense(slots=slots, **SEGMENTS), SHORT, options


class OfBounds(Tiny):
    """Segments come from the positions, or from bounds, as the kernels of attention take them."""

    def __init__(self, how, *layers):
        super().__init__(*(layers or ("attention",)))
        self.how = how

    def forward(self, input_ids, position_ids=None, attention_mask=None, segment_ids=None, labels=None):
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        before, after = position_ids[:, :-1], position_ids[:, 1:]
        begins = {"goes back": after < before, "is 0": after == 0}[self.how.removeprefix("mask, ")]
        segments = F.pad(begins.long(), (1, 0), value=1).cumsum(1)
        if self.how.startswith("mask") and attention_mask is not None:
            segments = attention_mask.long()
        return super().forward(input_ids, position_ids, segments, labels)


class Unbound(Flat):
    """Bounds arrive in an argument that nothing reads."""

    def forward(self, input_ids, labels, **flash):
        loss, logits = self.inner(input_ids[None], labels=labels[None])
        return {"logits": logits[0], "loss": loss}


class Adding(Uncounted):
    """A loss that is added up in some way; segments are known."""

    def __init__(self, how):
        super().__init__("attention")
        self.how = how
        self.teacher = torch.randn(120, 120, generator=torch.Generator().manual_seed(9))

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        self.ids = input_ids
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        kept = target != -100
        each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        student, teacher = logits.log_softmax(-1), self.teacher[self.ids].log_softmax(-1)
        apart = F.kl_div(student, teacher, log_target=True, reduction="none").sum(-1)
        cosine = 1 - F.cosine_similarity(logits, self.teacher[self.ids], dim=-1)
        index = (segments + 100 * torch.arange(len(segments))[:, None]).flatten()
        sums, counts = (torch.zeros(int(index.max()) + 1).index_add(0, index, x.flatten().float())
                        for x in (each, kept))  # fmt: skip
        return {
            "mean of rows": lambda: (each.sum(1) / (kept.sum(1) + 1e-5)).mean(),
            "over a constant": lambda: each.sum() / 512,
            "sums of sequences": lambda: sums[counts > 0].sum() / (counts > 0).sum(),
            "means of sequences": lambda: (sums[counts > 0] / counts[counts > 0]).mean(),
            "over the longest": lambda: each.sum() / (len(each) * kept.sum(1).max()),
            "shifted twice over rows": lambda: F.cross_entropy(
                logits[:, :-1].flatten(0, 1)[:-1], labels[:, 1:].flatten()[1:]
            ),
            "rolled": lambda: F.cross_entropy(
                logits.flatten(0, 1), torch.where(segments > 0, self.ids, -100).roll(-1, 1).flatten()
            ),
            "rolled in segments": lambda: F.cross_entropy(
                logits.flatten(0, 1),
                torch.where(
                    (segments > 0) & (segments == segments.roll(-1, 1)) & (labels.roll(-1, 1) != -100),
                    labels.roll(-1, 1),
                    -100,
                )[:, :].flatten(),
            ),
            "divergence of all slots": lambda: apart.mean(),
            "divergence of all tokens": lambda: apart[segments > 0].mean(),
            "divergence of labels": lambda: (apart * kept).sum() / kept.sum(),
            "cosine of all over labels": lambda: cosine.sum() / kept.sum(),
            "cosine of labels": lambda: (cosine * kept).sum() / kept.sum(),
            "labels and a divergence of slots": lambda: each.sum() / kept.sum() + 0.5 * apart.mean(),
        }[self.how]()


def adding(how, **options):
    return in_packs(Adding(how), **options)


def flat_ones(rows):
    batch = FLAT(rows)
    return {**batch, "attention_mask": torch.ones_like(batch["input_ids"])}


def without_positions(rows):
    return {name: x for name, x in FLAT(rows).items() if name != "position_ids"}


def ends_are_padding(rows):
    """A padded batch, in which each label that is the padding token, which also ends a sequence, is -100."""
    batch = padded(rows)
    ids = torch.where(batch["attention_mask"] == 1, batch["input_ids"], 2)
    return {**batch, "input_ids": ids, "labels": torch.where(ids == 2, -100, batch["labels"])}


def types_shifted(rows):
    """Token types that were cut elsewhere than the tokens."""
    return dense(causal=False)([{**row, "token_type_ids": [*row["token_type_ids"][2:], 1, 1]} for row in rows])


def labels_cut_at_the_end(rows):
    """Of the longest sequence the labels of three tokens are gone, and those of all behind it come too early."""
    batch = FLAT(rows)
    if len(rows) > 1:
        at = len(rows[0]["labels"]) - 3
        kept = batch["labels"][0, torch.arange(batch["labels"].shape[1]) // 3 != at // 3]
        batch["labels"] = F.pad(kept, (0, batch["labels"].shape[1] - len(kept)), value=-100)[None]
    return batch


def odd_ones_dropped(rows):
    kept = [row for row in rows if len(row["input_ids"]) % 2 == 0]
    return FLAT(kept or rows)


def leftovers_dropped(rows):
    """Rows of 40 slots; a row that is not half full is left out."""
    packs = cases.packed_rows(rows, 40)
    full = [pack for pack in packs if sum(len(row["input_ids"]) for row in pack) > 20]
    return dense(**SEGMENTS)([row for pack in full or packs for row in pack])


def clearing(when):
    """A step whose gradients are cleared at a wrong time, or rightly."""
    model = llama()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(model, batches):
        for at, batch in enumerate(batches):
            if when == "each" or (when, at) == ("the last", len(batches) - 1):
                optimizer.zero_grad(set_to_none=True)
            (model(**batch, num_items_in_batch=count(batches))).loss.backward()
        if when == "before the step":
            optimizer.zero_grad()
        optimizer.step()
        if when == "after":
            optimizer.zero_grad()

    return model, FLAT, SHORT, {"step": step}


def clipping(when):
    """Clipped after each backward pass, or while gradients are scaled, or rightly."""
    model = llama()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scale = 2.0**16 if "scaled" in when else 1.0

    def step(model, batches):
        optimizer.zero_grad()
        for batch in batches:
            (model(**batch, num_items_in_batch=count(batches)).loss * scale).backward()
            if when == "each":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        if when == "scaled":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for p in model.parameters():
            p.grad /= scale
        if when in ("once", "unscaled"):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()

    return model, FLAT, SHORT, {"step": step}


def divided_late(model, batches):
    """Sums of losses, and gradients divided once by all labels."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    for batch in batches:
        (model(**batch).loss * count([batch])).backward()
    for p in model.parameters():
        p.grad /= count(batches)
    optimizer.step()


def divided_after(model, batches):
    """The mean is divided when its gradient is there already."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    for batch in batches:
        loss = model(**batch).loss
        loss.backward()
        loss = loss / len(batches)
    optimizer.step()


def by_sentences(model, batches):
    """Divided by the sequences of the update, where labels were meant."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    held = [int((batch["position_ids"] == 0).sum()) for batch in batches]
    for batch, mine in zip(batches, held, strict=True):
        (model(**batch).loss * mine / sum(held)).backward()
    optimizer.step()


class Shifted(NotShifting):
    """Labels are shifted beforehand, and handed on as such, or once more shifted."""

    def __init__(self, again):
        super().__init__()
        self.again = again

    def forward(self, input_ids, position_ids, labels):
        logits = self.model(input_ids=input_ids, position_ids=position_ids).logits
        targets = F.pad(labels[:, 1:], (0, 1), value=-100) if self.again else labels
        return {"logits": logits, "loss": F.cross_entropy(logits.flatten(0, 1), targets.flatten())}


def shift_labels(rows):
    batch = FLAT(rows)
    return {**batch, "labels": F.pad(batch["labels"][:, 1:], (0, 1), value=-100)}


def bert_with_types(collate=None):
    rows = cases.masked(cases.sequences(prompts=False, types=True))
    return make("BertForMaskedLM"), collate or dense(causal=False), rows


FAULTS = {
    "huggingface/trl#784, packs without a mask": (
        lambda: (make("GPT2LMHeadModel"), without_positions, SHORT), EARLIER, "no document mask"),
    "unslothai/unsloth#1207, packs that attend to all": (
        lambda: (llama(), dense(mask=None, positions="run on"), SHORT), EARLIER, "position_ids run on"),
    "huggingface/transformers#46634, a mask of ones switches packs off": (
        lambda: (llama(), flat_ones, SHORT), EARLIER, "all ones"),
    "mit-han-lab/fastrl#14, a mask of ones": (
        lambda: (make("Qwen2ForCausalLM"), dense(mask="ones", positions="run on"), SHORT), EARLIER, "all ones"),
    "NVIDIA-NeMo/RL#2105, bounds that nothing reads": (
        lambda: (Unbound(), flat, SHORT), EARLIER, "no document mask"),
    "modelscope/ms-swift#9904, sequences of one token are merged": (
        lambda: (OfBounds("goes back"), FLAT, SINGLE), EARLIER, ""),
    "fla-org/flash-linear-attention#842, a mask of ones overwrites bounds": (
        lambda: (OfBounds("mask, is 0", "state"), flat_ones, SHORT), EARLIER, ""),
    "huggingface/transformers#46588, a short convolution over borders": (
        lambda: (make("Lfm2ForCausalLM"), dense(), SHORT), EARLIER, "a convolution across packs"),
    "PrimeIntellect-ai/prime-rl#3000, a state over borders": (
        lambda: (make("MambaForCausalLM"), FLAT, SHORT), EARLIER, "state space"),
    "linkedin/Liger-Kernel#329, by token where each sequence was to count alike": (
        lambda: (llama(), FLAT, SHORT, {"reduction": "sequence"}), "mean", "over tokens where a mean over each seq"),
    "verl-project/verl#593, by token where a sequence was meant": (
        lambda: today.rewarded(reduction="sequence"), "mean", "over tokens where a mean over each sequence"),
    "vllm-project/speculators#942, a mean of rows": (lambda: adding("mean of rows"), "mean", "a mean over packs"),
    "tenstorrent/tt-blacksmith#711, gradients are never cleared": (
        lambda: looping("never"), "next update", "stay for the next"),
    "meta-pytorch/torchforge#71, one optimizer of two is cleared": (
        lambda: looping("of the head"), "next update", "stay for the next"),
    "facebookresearch/nwm#16, cleared in one branch only": (
        lambda: looping("each second time"), "next update", "stay for the next"),
    "bytetriper/RAE#67, cleared before each micro-batch": (
        lambda: clearing("each"), "accumulation", "cleared inside"),
    "ultralytics/ultralytics#11217, cleared once more before the last ones": (
        lambda: clearing("the last"), "accumulation", "cleared inside"),
    "HorizonRobotics/alf#1788, cleared before the optimizer": (
        lambda: clearing("before the step"), "accumulation", "applies nothing"),
    "facebookresearch/lingua#59, clipped at each accumulation": (
        lambda: clipping("each"), "accumulation", "between micro-batches"),
    "rwth-i6/returnn#1595, clipped before it is unscaled": (lambda: clipping("scaled"), "accumulation", ""),
    "agokrani/distillKitPlus#5, means are added up": (
        lambda: stepping(lambda mine, every, number, at: 1.0), "accumulation", "a sum of means"),
    "PrimeIntellect-ai/prime-rl#1957, divided by the micro-batches": (
        lambda: stepping(lambda mine, every, number, at: 1 / number), "accumulation", "a mean of means"),
    "verl-project/verl#436, divided after the backward pass": (
        lambda: (llama(), FLAT, SHORT, {"step": divided_after}), "accumulation", "a sum of means"),
    "OpenNMT/OpenNMT-py#526, by sentences where tokens were meant": (
        lambda: (llama(), FLAT, SHORT, {"step": by_sentences}), "accumulation", "otherwise than what they hold"),
    "huggingface/transformers#23530, ends are taken for padding": (
        lambda: (llama(), ends_are_padding, ENDED), "labels", "last token of each"),
    "unslothai/unsloth#8253, the window does not reach the mask": (
        lambda: (make("MistralForCausalLM"), dense(), SHORT), ALONE, "with one of 4"),
    "huggingface/transformers#47394, shifted twice, over rows": (
        lambda: adding("shifted twice over rows"), "labels", "shifted twice"),
    "huggingface/transformers#46898, shifted before and in the loss": (
        lambda: (Shifted(again=True), shift_labels, SHORT), "labels", "shifted twice"),
    "NVIDIA/Megatron-LM#1661, two tokens ahead over borders": (
        lambda: today.in_packs(today.TwoAhead("over borders"), prompts=False), "mean", "several tokens ahead"),
    "AI-Hypercomputer/maxtext#4600, rolled over borders": (
        lambda: adding("rolled"), "targets at borders", "leaked target"),
    "OpenBMB/MiniCPM-V#662, labels cut at a length": (
        lambda: (llama(), labels_cut(400), LONGER), "labels", "labels are lost"),
    "modelscope/ms-swift#10176, token types of other tokens": (
        lambda: bert_with_types(types_shifted), ALONE, "token_type_ids change"),
    "allenai/sequential_sentence_classification#16, labels move up in the batch": (
        lambda: (llama(), labels_cut_at_the_end, SHORT), "labels", ""),
    "ndif-team/nnsight#673, padded on the left without positions": (
        lambda: (make("GPT2LMHeadModel"), lambda rows: left_padded(rows, places=False), SHORT), ALONE, ""),
    "hiyouga/LlamaFactory#7318, a 4D mask and positions that run on": (
        lambda: (make("GPT2LMHeadModel"), dense(positions="run on"), SHORT), "positions", "run on"),
    "peremartra/optipfair#34, a distillation of padding": (
        lambda: adding("divergence of all slots"), "labels", "padding"),
    "linkedin/Liger-Kernel#974, a distillation of prompts": (
        lambda: adding("divergence of all tokens"), "labels", "tokens without a label"),
    "linkedin/Liger-Kernel#1478, all tokens over the labels": (
        lambda: adding("cosine of all over labels"), "labels", ""),
    "jxiw/MambaInLlama#11, labels and a divergence of all slots": (
        lambda: adding("labels and a divergence of slots"), "labels", ""),
    "hiyouga/LlamaFactory#5271, sequences of odd length are skipped": (
        lambda: (llama(), odd_ones_dropped, SHORT), "tokens", "lost"),
    "EleutherAI/sparsify#15, what is left over is dropped": (
        lambda: (Tiny("attention"), leftovers_dropped, of(9, 14, 5, 20, 7, 12, 6, 8)), "tokens", "lost"),
    "huggingface/trl#3138, over the longest answer": (lambda: adding("over the longest"), "mean", "company"),
}  # fmt: skip

RIGHT = {
    "axolotl-ai-cloud/axolotl#131, a 4D mask that restarts": lambda: (llama(), dense(), SHORT),
    "huggingface/transformers#46634, without a mask": lambda: (llama(), FLAT, SHORT),
    "NVIDIA-NeMo/RL#2105, bounds that are read": lambda: (Flat(), flat, SHORT),
    "modelscope/ms-swift#9904, sequences of one token": lambda: (OfBounds("is 0"), FLAT, SINGLE),
    "fla-org/flash-linear-attention#842, bounds first": lambda: (OfBounds("is 0", "state"), flat_ones, SHORT),
    "PrimeIntellect-ai/prime-rl#3001, a state that is reset": lambda: in_packs(Tiny("state")),
    "state-spaces/mamba#478, a row for each": lambda: (make("MambaForCausalLM"), padded, SHORT),
    "linkedin/Liger-Kernel#329, each sequence counts alike": lambda: adding("means of sequences", reduction="sequence"),
    "huggingface/trl#3256, over a constant": lambda: adding("over a constant", reduction="constant"),
    "huggingface/trl#4988, a mean of sums": lambda: adding("sums of sequences"),
    "huggingface/trl#2995, by token": lambda: today.rewarded(reduction="token"),
    "verl-project/verl#593, by sequence": lambda: today.rewarded(mode="sequence", reduction="sequence"),
    "karpathy/llm.c#548, cleared before": lambda: looping("before"),
    "facebookresearch/nwm#16, cleared after": lambda: looping("after"),
    "bytetriper/RAE#67, cleared after the optimizer": lambda: clearing("after"),
    "facebookresearch/lingua#59, clipped once": lambda: clipping("once"),
    "rwth-i6/returnn#1595, unscaled and clipped": lambda: clipping("unscaled"),
    "rwth-i6/returnn#1595, scaled and not clipped": lambda: clipping("scaled, not clipped"),
    "pytorch/torchtitan#2206, sums over all labels": lambda: stepping(lambda mine, every, number, at: mine / every),
    "ruimalheiro/gradient-garden#113, gradients divided by all labels": lambda: (
        llama(), FLAT, SHORT, {"step": divided_late}),
    "huggingface/transformers#23530, ends are labels": lambda: (llama(), padded, ENDED),
    "unslothai/unsloth#8253, a mask with the window": lambda: (make("MistralForCausalLM"), dense(window=4), SHORT),
    "NVIDIA-NeMo/Automodel#2281, windows of some layers": lambda: (make("Gemma3ForCausalLM"), FLAT, SHORT),
    "huggingface/transformers#48493, labels shifted before": lambda: (Shifted(again=False), shift_labels, SHORT),
    "mosaicml/llm-foundry#1211, inputs and labels shifted before": lambda: (
        Shifted(again=False), beforehand, SHORT),
    "NVIDIA/Megatron-LM#1661, two tokens ahead within borders": lambda: today.in_packs(
        today.TwoAhead(), prompts=False),
    "AI-Hypercomputer/maxtext#4600, rolled within borders": lambda: adding("rolled in segments"),
    "modelscope/ms-swift#10176, token types of a sequence": lambda: bert_with_types(),
    "unslothai/unsloth#3795, padded on the left with positions": lambda: (
        make("GPT2LMHeadModel"), left_padded, SHORT),
    "tloen/alpaca-lora#315, padded on the left, rotating": lambda: (
        llama(), lambda rows: left_padded(rows, places=False), SHORT),
    "hiyouga/LlamaFactory#7318, positions that run on and rotate": lambda: (llama(), dense(positions="run on"), SHORT),
    "arcee-ai/DAM#16, a distillation of labels": lambda: adding("divergence of labels"),
    "linkedin/Liger-Kernel#1478, the cosine of labels": lambda: adding("cosine of labels"),
    "OpenBMB/MiniCPM-V#662, long ones whole": lambda: (llama(), FLAT, LONGER),
    "hiyouga/LlamaFactory#5271, odd ones are kept": lambda: (llama(), cases.multiples, SHORT),
}  # fmt: skip
