"""Set-ups for `check_packing` of kinds that no other file has, after public reports; made before its code knew them.

At first sight, at the defaults, the check failed 28 of the first 30 faulty ones, 21 of them with the right cause; one
was inconclusive, and one was missed. All 15 right ones passed. `CHANGED` names those that its code was changed for.
"""

import check_images as images
import torch
from check_cases import SEGMENTS, Tiny, dense, make
from check_later import LATER, count
from check_public import in_packs
from check_reports import ALONE, EARLIER, FLAT, SHORT, Experts, Uncounted, llama, of
from torch import nn
from torch.nn import functional as F


def places_of(segments):
    """The place of each slot in its own sequence."""
    begins = F.pad(segments[:, 1:] != segments[:, :-1], (1, 0), value=True)
    index = torch.arange(segments.shape[1]).expand_as(segments)
    return index - torch.where(begins, index, 0).cummax(1).values


class Kind(Uncounted):
    """Attention with one thing more, which respects borders or does not; or a loss that is added up in some way."""

    def __init__(self, how):
        super().__init__("attention")
        self.how = how
        self.more = {
            "lstm": nn.LSTM(24, 24, batch_first=True), "lstm by document": nn.LSTM(24, 24, batch_first=True),
            "convolution": nn.Conv1d(24, 24, 3, padding=1), "convolution by document": nn.Conv1d(24, 24, 3),
            "squeezed": nn.Linear(24, 24),
        }.get(how, nn.Linear(24, 4))  # fmt: skip
        self.sinks = nn.Parameter(torch.ones(1))
        self.experts = nn.ModuleList(nn.Linear(24, 24) for _ in range(2))
        self.router = nn.Linear(24, 2)
        self.extra = torch.zeros(())

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        self.packed, self.ids = segment_ids is not None, input_ids
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _attention(self, part, x, segments, same, wrong):
        query, key, value, _ = part(x).chunk(4, -1)
        places, rows, slots = places_of(segments), len(x), x.shape[1]
        back = torch.arange(slots)
        if self.how == "keys of the slot before":
            key = torch.cat([F.pad(key[:, :-1, :12], (0, 0, 1, 0)), key[:, :, 12:]], 2)
        if self.how == "turned by the longest":
            longest = places.amax() + 1
            query = query * (1 + longest / 64)
        if self.how == "scaled by places":
            query = query * (1 + places[..., None] + 1.0).log()
        if self.how == "prefix of the row":
            same = same | (back < 6)[None, None, :]
        if self.how == "prefix of each":
            prefix = places < 3
            same = same | ((segments[:, :, None] == segments[:, None, :]) & prefix[:, None, :] & prefix[:, :, None])
        bias = torch.zeros(rows, slots, slots).masked_fill(~same, -1e9)
        if self.how == "alibi by column":
            bias = bias + 0.1 * back
        if self.how == "buckets":
            bias = bias - 0.3 * (back[:, None] - back).clamp(0, 8)
        scores = 2 * query @ key.mT / 24**0.5 + bias
        if self.how == "sinks of packs are lost" and not self.packed:
            weights = torch.cat([scores, self.sinks.expand(rows, slots, 1)], -1).softmax(-1)[..., :-1]
        else:
            weights = scores.softmax(-1)
        return weights @ value + self._besides(x, segments, places)

    def _besides(self, x, segments, places):
        real = segments > 0
        if self.how == "lstm":
            return self.more(x)[0]
        if self.how == "lstm by document":
            made = torch.zeros_like(x)
            for row in range(len(x)):
                for one in segments[row].unique():
                    mine = segments[row] == one
                    made[row, mine] = self.more(x[row, mine][None])[0][0]
            return made
        if self.how == "convolution":
            return self.more(x.mT).mT
        if self.how == "convolution by document":
            made = torch.zeros_like(x)
            for row in range(len(x)):
                for one in segments[row].unique():
                    mine = segments[row] == one
                    made[row, mine] = self.more(F.pad(x[row, mine].T, (2, 0))[None])[0].T
            return made
        if self.how == "squeezed":
            mean = (x * real[..., None]).sum(1, keepdim=True) / real.sum(1)[:, None, None].clamp(min=1)
            return x * self.more(mean).sigmoid()
        if self.how == "experts choose tokens":
            share = self.router(3 * x).softmax(-1).flatten(0, 1)
            flat, made = x.flatten(0, 1), torch.zeros_like(x.flatten(0, 1))
            for number, expert in enumerate(self.experts):
                chosen = share[:, number].topk(len(flat) // 2).indices
                made = made.index_add(0, chosen, share[chosen, number, None] * expert(flat[chosen]))
            return made.view_as(x)
        if self.how in ("padding takes capacity", "no capacity"):
            share = self.router(3 * x).softmax(-1).flatten(0, 1)
            flat, best, made = x.flatten(0, 1), share.argmax(-1), torch.zeros_like(x.flatten(0, 1))
            for number, expert in enumerate(self.experts):
                mine = best == number
                if self.how == "padding takes capacity":
                    mine = mine & (mine.cumsum(0) <= len(flat) // 3)
                made = made + expert(flat) * (mine * share[:, number])[:, None]
            self.scores = self.router(3 * x)
            return made.view_as(x)
        if self.how in ("router z-loss of padding", "router z-loss of tokens"):
            z = self.router(3 * x).logsumexp(-1) ** 2
            self.extra = z.mean() if self.how == "router z-loss of padding" else z[real].mean()
        return 0.0

    def _loss(self, logits, labels, segments, items):
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        if self.how == "a real token is ignored":
            target = torch.where(target % 5 == 1, -100, target)
        kept = target != -100
        each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        plain = each.sum() / kept.sum()
        if "router z-loss" in self.how:
            return plain + 0.1 * self.extra
        if self.how == "focal of the mean":
            return (1 - (-plain / 5).exp()) ** 2 * plain
        if self.how == "focal of tokens":
            return ((1 - (-each / 5).exp()) ** 2 * each).sum() / kept.sum()
        if self.how == "weighted classes":
            weight = (1 + target.clamp(min=0) % 3.0) * kept
            return (each * weight).sum() / weight.sum()
        if self.how == "a row is a sequence":
            return (each.sum(1) / kept.sum(1).clamp(min=1))[kept.any(1)].mean()
        if self.how == "whitened advantages":
            value = torch.where(kept, self.ids % 11 - 5.0, 0.0)
            white = (value - value[kept].mean()) / value[kept].std()
            return (each * white * kept).sum() / kept.sum()
        if self.how == "preference of the row":
            return F.softplus(each.sum(1) / 20 - 3).mean()
        if self.how == "pooled over the row":
            real = segments > 0
            states = (logits * real[..., None]).sum(1) / real.sum(1)[:, None].clamp(min=1)
            return states[:, 7].tanh().mean()
        return plain


def kind(how, slots=40, **options):
    return in_packs(Kind(how), slots, **options)


class Translating(Tiny):
    """Attention, and another to the tokens of a source text; where `together`, to those of all sources of the row."""

    def __init__(self, together):
        super().__init__("attention")
        self.together = together

    def forward(self, input_ids, segment_ids, source_ids, source_segments, position_ids=None, labels=None):
        self.source, self.of_source = self.tokens(source_ids), source_segments
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _attention(self, part, x, segments, same, wrong):
        allowed = self.of_source[:, None, :] == segments[:, :, None]
        if self.together:
            allowed = (self.of_source > 0)[:, None, :].expand_as(allowed)
        query = part(x).chunk(4, -1)[0]
        bias = torch.zeros(allowed.shape).masked_fill(~allowed, -1e9)
        met = (2 * query @ self.source.mT + bias).softmax(-1) @ self.source
        return met + super()._attention(part, x, segments, same, wrong)


def with_sources(rows):
    """One row; each sequence has a source, its own tokens backward."""
    slots = sum(len(row["input_ids"]) for row in rows)
    batch = dense(slots=slots, **SEGMENTS)(rows)
    source = [token for row in rows for token in row["input_ids"][::-1]]
    return {**batch, "source_ids": torch.tensor([source]), "source_segments": batch["segment_ids"].clone()}


def translating(together):
    return Translating(together), with_sources, SHORT


def by_labels(model, batches, change=lambda model: None, optimizers=None, inside=lambda model: None):
    """An update by the labels of all micro-batches; `change` is what is done to gradients before the optimizer."""
    made = optimizers or [torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)]
    for optimizer in made:
        optimizer.zero_grad()
    for batch in batches:
        output = model(**batch)
        loss = output["loss"] if isinstance(output, dict) else output.loss
        (loss * count([batch]) / count(batches)).backward()
        inside(model)
    change(model)
    for optimizer in made:
        optimizer.step()


def updating(**options):
    return llama(), FLAT, SHORT, {"step": lambda model, batches: by_labels(model, batches, **options)}


def half(model):
    return list(model.parameters())[::2]


def drop_half(model):
    for p in half(model):
        p.grad = None


def zero_norms(model):
    for name, p in model.named_parameters():
        if "norm" in name:
            p.grad.zero_()


def shrink(model):
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.9)


def clip_to_less(model):
    """As where the norm counts each gradient twice."""
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]) * 2**0.5
    torch.nn.utils.clip_grads_with_norm_(model.parameters(), 0.05, norm)


def of_two(forgotten=False, head_alone=False):
    """Matrices in one optimizer, and the rest in another, which is forgotten or not made."""
    model = llama()
    named = dict(model.named_parameters())
    matrices = torch.optim.SGD([p for name, p in named.items() if "proj" in name], lr=0.1)
    rest = torch.optim.AdamW([p for name, p in named.items() if "proj" not in name])

    def step(model, batches):
        model.zero_grad()
        by_labels(model, batches, optimizers=[matrices] if forgotten or head_alone else [matrices, rest])

    return model, FLAT, SHORT, {"step": step}


def in_backward():
    """An optimizer for each parameter, which steps as soon as its gradient is there."""
    model = llama()
    each = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step(model, batches):
        def apply(p):
            each[p].step()
            each[p].zero_grad()

        handles = [p.register_post_accumulate_grad_hook(apply) for p in model.parameters()]
        for batch in batches:
            model(**batch, num_items_in_batch=count(batches)).loss.backward()
        for handle in handles:
            handle.remove()

    return model, FLAT, SHORT, {"step": step}


def with_masters():
    """The optimizer has copies of the parameters in another precision, as Megatron and apex do."""
    model = llama()
    copies = {p: p.detach().double().requires_grad_() for p in model.parameters()}
    optimizer = torch.optim.SGD(copies.values(), lr=0.1)

    def step(model, batches):
        model.zero_grad()
        for batch in batches:
            model(**batch, num_items_in_batch=count(batches)).loss.backward()
        for p, copy in copies.items():
            copy.grad = p.grad.double()
        optimizer.step()
        with torch.no_grad():
            for p, copy in copies.items():
                p.copy_(copy)

    return model, FLAT, SHORT, {"step": step}


def before_shift(model, batches):
    """Counted are all labels, those of first tokens too, which nothing predicts."""
    model.zero_grad()
    counts = [int((batch["input_ids"] != -1).sum()) for batch in batches]
    for batch in batches:
        model(**batch, num_items_in_batch=sum(counts)).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def weighted(by_weight):
    """Classes that weigh 1 to 3, in a step that divides by their weights or by their number."""

    def held(batch):
        target = batch["labels"][:, 1:]
        return float(((1 + target.clamp(min=0) % 3.0) * (target != -100)).sum()) if by_weight else count([batch])

    def step(model, batches):
        model.zero_grad()
        for batch in batches:
            (model(**batch)["loss"] * held(batch) / sum(map(held, batches))).backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()

    return kind("weighted classes", step=step)


class LoRA(nn.Module):
    """A linear layer with two narrow matrices besides, as peft adds them."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(2, base.in_features) * 0.3)
        self.up = nn.Parameter(torch.randn(base.out_features, 2) * 0.3)

    def forward(self, x):
        return self.base(x) + 2 * x @ self.down.T @ self.up.T


def adapted():
    """A model of which only LoRA's matrices learn."""
    model = llama().requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = LoRA(layer.self_attn.q_proj)
        layer.mlp.up_proj = LoRA(layer.mlp.up_proj)
    for part in model.modules():
        for p in [part.down, part.up] if isinstance(part, LoRA) else []:
            p.requires_grad_(True)
    return model


def drop_downs(model):
    for part in model.modules():
        if isinstance(part, LoRA):
            part.down.grad = None


def longrope(original):
    return make(
        "Phi3ForCausalLM", max_position_embeddings=512, original_max_position_embeddings=original,
        bos_token_id=1, eos_token_id=2, rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0,
        "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "original_max_position_embeddings": original},
    )  # fmt: skip


def of_images(spoil, model=images.qwen, **how):
    rows = images.illustrated(whole=model is images.llava)
    return model(), lambda some: spoil(images.packed(some, **how)), rows


def flat_after_first(batch):
    """Only the first image has positions of its grid; others count on, as text does."""
    places, at = batch["position_ids"].clone(), (batch["input_ids"][0] == images.BEGIN).nonzero()[:, 0]
    for begin in at[1:].tolist():
        end = begin + int((batch["input_ids"][0, begin:] == images.END).nonzero()[0]) + 1
        places[:, 0, begin:end] = places[0, 0, begin] + torch.arange(end - begin)
    return {**batch, "position_ids": places}


def swapped_axes(batch):
    return {**batch, "position_ids": batch["position_ids"][[0, 2, 1]]}


def running(batch):
    """Positions of three axes that run on from one sequence to the next; rotation does not mind."""
    places, first = batch["position_ids"].clone(), (batch["position_ids"][0, 0] == 0).nonzero()[:, 0].tolist()
    for number, begin in enumerate(first[1:], start=1):
        places[:, :, begin:] += 7 * number
    return {**batch, "position_ids": places}


def first_image_again(batch):
    return {**batch, "pixel_values": batch["pixel_values"][:1].expand_as(batch["pixel_values"]).clone()}


def images_of_the_next(batch):
    return {**batch, "pixel_values": batch["pixel_values"].roll(1, 0)}


CHANGED = (  # what the code was changed for: at first sight it was missed, not told, or named otherwise
    "Asad-Ismail/Grounding-Dino-FineTuning#18, half of the gradients are lost",
    "microsoft/LoRA#120, half of the adapters learn nothing",
    "gradients of norms are zeroed",
    "keras-team/keras#19990, weights decay with each micro-batch",
    "NVIDIA/Megatron-LM#2121, a router's z-loss of padding",
    "OpenRLHF/OpenRLHF#447, pooled over the row",
    "bigscience-workshop/Megatron-DeepSpeed#52, a prefix of the row",
    "Blaizzy/mlx-vlm#1282, images after the first as text",
    "one image of Llava for all",
    "experts balanced by row, in one row",
)

FAULTS = {
    "QwenLM/Qwen#401, turned by the longest of the batch": (
        lambda: kind("turned by the longest"), ALONE, "depends on the row around"),
    "unslothai/unsloth#10681, long factors for short ones": (
        lambda: (longrope(16), FLAT, of(9, 14, 5, 40, 7, 12)), ALONE, "LongRoPE"),
    "NVIDIA/Megatron-LM#5542, padding takes capacity": (lambda: kind("padding takes capacity"), LATER, "statistics"),
    "NVIDIA/Megatron-LM#2121, a router's z-loss of padding": (
        lambda: kind("router z-loss of padding"), "mean", "counts padding"),
    "google/tunix#1662, a row is a sequence": (
        lambda: kind("a row is a sequence", reduction="sequence"), "mean", "a mean over packs"),
    "OpenRLHF/OpenRLHF#447, pooled over the row": (
        lambda: kind("pooled over the row", slots=80), "labels", "a loss that does not read the labels"),
    "Asad-Ismail/Grounding-Dino-FineTuning#18, half of the gradients are lost": (
        lambda: updating(change=drop_half), "accumulation", "gradients are lost: 11 of 21"),
    "microsoft/LoRA#120, half of the adapters learn nothing": (
        lambda: (adapted(), FLAT, SHORT, {"step": lambda m, b: by_labels(m, b, change=drop_downs)}),
        "accumulation", "gradients are lost: 4 of 8"),
    "gradients of norms are zeroed": (
        lambda: updating(change=zero_norms), "accumulation", "gradients are lost: 5 of 21"),
    "keras-team/keras#19990, weights decay with each micro-batch": (
        lambda: updating(inside=shrink), "accumulation", "change inside the update"),
    "meta-pytorch/torchtune#1917, stepping in the backward pass": (
        in_backward, "accumulation", "an update for each micro-batch"),
    "NVIDIA-NeMo/RL#1672, sinks of packs are lost": (
        lambda: kind("sinks of packs are lost"), ALONE, "segment_ids change"),
    "bigscience-workshop/Megatron-DeepSpeed#52, a prefix of the row": (
        lambda: kind("prefix of the row"), EARLIER, "a prefix that all share"),
    "marin-community/marin#5795, keys of the slot before": (
        lambda: kind("keys of the slot before"), EARLIER, "mixes in the token before"),
    "foamliu/InsightFace-v2#39, focal of the mean": (lambda: kind("focal of the mean"), "mean", "company"),
    "pytorch/pytorch#72047, classes that weigh, divided by labels": (
        lambda: weighted(False), "accumulation", "otherwise than what they hold"),
    "an LSTM over the row": (lambda: kind("lstm"), EARLIER, "a state across packs"),
    "a convolution to both sides": (lambda: kind("convolution"), EARLIER, "a convolution across packs"),
    "squeezed and excited over the row": (lambda: kind("squeezed"), EARLIER, "the tokens of a batch are mixed"),
    "experts choose among all tokens": (lambda: kind("experts choose tokens"), LATER, "statistics"),
    "a real token is the index to ignore": (lambda: kind("a real token is ignored"), "labels", "labels are lost"),
    "advantages whitened in a micro-batch": (lambda: kind("whitened advantages"), "mean", "company"),
    "a preference of the whole row": (lambda: kind("preference of the row"), "mean", "company"),
    "labels of first tokens are counted": (
        lambda: (llama(), FLAT, SHORT, {"step": before_shift}), "accumulation", "0.701 times"),
    "a source that all sequences see": (lambda: translating(True), ALONE, "depends on the row around"),
    "Blaizzy/mlx-vlm#1282, images after the first as text": (
        lambda: of_images(flat_after_first), "positions", "not those that the model makes"),
    "height and width exchanged": (lambda: of_images(swapped_axes), "positions", "not those that the model makes"),
    "one image of Llava for all": (
        lambda: of_images(first_image_again, images.llava, grids=False, mask=False),
        ALONE, "not those of their placeholders"),
    "experts balanced by row, in one row": (
        lambda: (Experts("row"), dense(slots=80, **SEGMENTS), SHORT), "mean", "taken over each row"),
    "patches of the next image": (lambda: of_images(images_of_the_next), ALONE, "not those of their placeholders"),
}  # fmt: skip
RIGHT = {
    "mosaicml/llm-foundry#186, linear biases by column": lambda: kind("alibi by column"),
    "buckets of distances by slot": lambda: kind("buckets"),
    "unslothai/unsloth#10681, all short": lambda: (longrope(64), FLAT, SHORT),
    "an LSTM for each document": lambda: kind("lstm by document"),
    "a convolution for each document": lambda: kind("convolution by document"),
    "scaled by the places of a sequence": lambda: kind("scaled by places"),
    "bigscience-workshop/Megatron-DeepSpeed#167, a prefix of each": lambda: kind("prefix of each"),
    "NVIDIA/Megatron-LM#5542, experts without a capacity": lambda: kind("no capacity"),
    "foamliu/InsightFace-v2#39, focal of tokens": lambda: kind("focal of tokens"),
    "pytorch/pytorch#72047, classes that weigh, divided by weights": lambda: weighted(True),
    "microsoft/LoRA#120, adapters learn": lambda: (
        adapted(), FLAT, SHORT, {"step": by_labels}),
    "modelscope/twinkle#290, clipped to less": lambda: updating(change=clip_to_less),
    "NVIDIA/Megatron-LM#2121, a router's z-loss of tokens": lambda: kind("router z-loss of tokens"),
    "experts balanced by document, in one row": lambda: (
        Experts("document"), dense(slots=80, **SEGMENTS), SHORT),
    "two optimizers": of_two,
    "copies in another precision": with_masters,
    "a source for each sequence": lambda: translating(False),
    "images whose positions run on": lambda: of_images(running),
}  # fmt: skip

# What is inconclusive, and words of the evidence that says so
OPEN = {
    "paiml/entrenar#264, the second optimizer never steps": (
        lambda: of_two(forgotten=True), "accumulation", "No optimizer that steps has 7 of 21 parameters"),
    "experts balanced over a batch of one row": (
        lambda: (Experts("batch"), dense(slots=80, **SEGMENTS), SHORT), "mean", "balances experts does by design"),
}  # fmt: skip
