"""A fourth set of set-ups for `check_packing` after public reports, made from what these say, before it was tried.

At first sight, at the defaults, 12 of the 15 faulty ones failed, 10 with a cause that leads to the fault; two were
inconclusive and one passed. Of the 12 right ones 9 passed, two were inconclusive and one was accused.
"""

import torch
from check_cases import SEGMENTS, Tiny, dense, masked, multiples
from check_later import ENDED, count, left_padded
from check_public import in_packs
from check_reports import ALONE, EARLIER, FLAT, SHORT, Uncounted
from torch import nn
from torch.nn import functional as F


def shifted(values, segments, fill):
    """The value of the next slot of the same segment; `fill` at its last one."""
    after, same = F.pad(values[:, 1:], (0, 1), value=fill), F.pad(segments[:, 1:], (0, 1)) == segments
    return torch.where(same, after, fill)


def entropies(logits, targets):
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")


class Ahead(Uncounted):
    """A second head predicts two tokens ahead, from an attention over states and embeddings of the next token.

    Args:
        how: "right"; "bounds less one", which its attention gets; "ends of 0", the target at the end of a sequence; or
            "bounds without padding", by which tokens are rolled.
    """

    def __init__(self, how):
        super().__init__("attention")
        self.how, self.mixed = how, nn.Linear(24, 72)
        self.head.register_forward_pre_hook(lambda part, given: setattr(self, "states", given[0]))

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None, bounds=None):
        self.ids, self.bounds = input_ids, bounds
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        states, rolled = self.states, segments
        if self.how == "bounds without padding":
            slots = torch.arange(self.ids.shape[1])
            rolled = torch.bucketize(slots, self.bounds[1:], right=True).expand_as(self.ids)
        attended = torch.cat([segments[:, 1:], segments[:, -1:]], 1) if self.how == "bounds less one" else segments
        mixed = states + self.tokens(shifted(self.ids, rolled, 0))
        query, key, value = self.mixed(mixed).chunk(3, -1)
        same = (attended[:, :, None] == attended[:, None, :]).tril()
        mixed = mixed + F.scaled_dot_product_attention(query, key, value, attn_mask=same)
        end = 0 if self.how == "ends of 0" else -100
        target = shifted(shifted(labels, rolled, -100), rolled, end)
        further = self.head(mixed)
        asked = (target != -100) & (segments > 0)
        more = entropies(further, target.masked_fill(segments == 0, -100)).sum() / asked.sum()
        return super()._loss(logits, labels, segments, items) + 0.3 * more


def padded_to_8(rows):
    """One row in which each sequence is padded to 8 slots, the segments of these, and bounds without padding."""
    batch = multiples(rows)
    lengths = [len(row["input_ids"]) for row in rows]
    numbers = [number for number, length in enumerate(lengths, start=1) for _ in range(length + -length % 8)]
    return {**batch, "segment_ids": torch.tensor([numbers]), "bounds": torch.tensor([0, *lengths]).cumsum(0)}


class Weighted(Uncounted):
    """A weight for each sequence, in one row of all.

    Args:
        how: "by sequence", or "broadcast", with which a mean of the row is multiplied with all of them.
    """

    def __init__(self, how):
        super().__init__("attention")
        self.how = how

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None, weight=None):
        self.weight = torch.ones(1) if weight is None else weight
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        each, asked = entropies(logits, target), target != -100
        if self.how == "broadcast":
            return ((each.sum(1) / asked.sum(1)) * self.weight).mean()
        return (each * self.weight[(segments - 1).clamp(min=0, max=len(self.weight) - 1)]).sum() / asked.sum()


def in_one_row(rows):
    return dense(slots=sum(len(row["input_ids"]) for row in rows), **SEGMENTS)(rows)


def with_weights(rows):
    return {**in_one_row(rows), "weight": torch.tensor([row["weight"] for row in rows])}


WEIGHED = [{**row, "weight": 0.4 + 0.3 * number} for number, row in enumerate(SHORT)]


class Taught(Uncounted):
    """A student of a teacher that is its moving average, and of a center that moves with the teacher's scores."""

    def __init__(self):
        super().__init__("attention")
        self.teacher = Tiny("attention").requires_grad_(False)
        draw = torch.Generator().manual_seed(4)
        for p in self.teacher.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=draw))
        self.register_buffer("center", torch.zeros(120))
        self.said_since = list[torch.Tensor]()  # the teacher's scores in each call since it moved

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        with torch.no_grad():
            self.said = self.teacher(input_ids, position_ids, segment_ids)["logits"]
        self.said_since.append(self.said.flatten(0, 1))
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        target = (2 * (self.said - self.center)).softmax(-1)
        each = -(target * logits.log_softmax(-1)).sum(-1)
        asked = labels != -100
        return (each * asked).sum() / asked.sum()

    @torch.no_grad()
    def move(self):
        own = dict(self.named_parameters())
        for name, p in self.teacher.named_parameters():
            p.lerp_(own[name], 0.3)
        self.center.lerp_(torch.cat(self.said_since).mean(0), 0.3)
        self.said_since.clear()


def labels_of(batch):
    return int((batch["labels"] != -100).sum())


def teaching(each):
    """An update after which, or after each micro-batch of which, the teacher moves."""

    def step(model, batches):
        model.zero_grad()
        for batch in batches:
            (model(**batch)["loss"] * labels_of(batch) / sum(map(labels_of, batches))).backward()
            if each:
                model.move()
        torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1).step()
        if not each:
            model.move()

    return step


class Narrow(Uncounted):
    """A window of 4 tokens, and a path for rows of one sequence that knows it or not."""

    def __init__(self, everywhere):
        super().__init__("attention")
        self.everywhere = everywhere

    def _attention(self, part, x, segments, same, wrong):
        if self.everywhere or len(segments.unique()) > 1:
            back = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
            same = same & (back < 4)
        return super()._attention(part, x, segments, same, wrong)


class ByEnds(Uncounted):
    """Sequences are told apart by the end tokens that are looked for, 2."""

    def forward(self, input_ids, labels=None):
        ends = F.pad((input_ids == 2)[:, :-1], (1, 0))
        return super().forward(input_ids, None, ends.cumsum(1) + 1, labels)


def without_positions(rows):
    batch = FLAT(rows)
    return {name: batch[name] for name in ("input_ids", "labels")}


CUT = [{name: column[:12] for name, column in row.items()} for row in ENDED]  # the longer ones have no end token


class Policy(Uncounted):
    """A policy gradient of which a row's last label, or the first one of each sequence, is masked or not."""

    def __init__(self, gated):
        super().__init__("attention")
        self.gated = gated

    def forward(self, input_ids, position_ids=None, segment_ids=None, completion_mask=None, advantages=None):
        self.mask, self.advantages, self.ids = completion_mask, advantages, input_ids
        return super().forward(input_ids, position_ids, segment_ids, input_ids)

    def _loss(self, logits, labels, segments, items):
        if self.mask is None:
            return None
        each = entropies(logits[:, :-1], self.ids[:, 1:])
        mask = self.mask[:, 1:]
        if self.gated:
            mask = mask * (segments[:, 1:] == segments[:, :-1])
        return (each * self.advantages[:, 1:] * mask).sum() / mask.sum()


def rollouts(rows):
    """All in one row; completions without a prompt, each with an advantage of its own."""
    batch = in_one_row(rows)
    worth = torch.tensor([[row["worth"] for row in rows for _ in row["input_ids"]]])
    del batch["labels"]
    return {**batch, "completion_mask": torch.ones_like(batch["input_ids"]), "advantages": worth}


ROLLED = [{"input_ids": row["input_ids"], "worth": 1.5 - 0.6 * number} for number, row in enumerate(SHORT)]


def by_samples(model, batches):
    """A mean over tokens of each micro-batch, weighed by its number of sequences."""
    model.zero_grad()
    sizes = [int((batch["position_ids"] == 0).sum()) for batch in batches]
    for batch, size in zip(batches, sizes, strict=True):
        (model(**batch)["loss"] * size / sum(sizes)).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


class Backward(Uncounted):
    """An encoder whose path for bounds is causal, or looks both ways as that for one sequence does."""

    def __init__(self, causal_packs):
        super().__init__("attention", causal=False)
        self.causal_packs = causal_packs

    def _attention(self, part, x, segments, same, wrong):
        if self.causal_packs and len(segments.unique()) > 1:
            same = same.tril()
        return super()._attention(part, x, segments, same, wrong)


class Timed(Uncounted):
    """States are scaled by the time of each sequence, or all by that of the first of the row."""

    def __init__(self, how):
        super().__init__("attention")
        self.how = how

    def forward(self, input_ids, times, position_ids=None, segment_ids=None, labels=None):
        number = torch.zeros_like(segment_ids) if self.how == "first" else (segment_ids - 1).clamp(min=0)
        self.scale = 1 + times[number.clamp(max=len(times) - 1)][..., None]
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _attention(self, part, x, segments, same, wrong):
        return super()._attention(part, x * self.scale, segments, same, wrong)


def with_times(rows):
    return {**in_one_row(rows), "times": torch.tensor([row["time"] for row in rows])}


TIMED = [{**row, "time": 0.1 + 0.25 * number} for number, row in enumerate(SHORT)]


class Referred(Uncounted):
    """A divergence from a reference, which gets the positions or numbers the slots of a row."""

    def __init__(self, positions):
        super().__init__("attention")
        self.positions = positions
        self.reference = Tiny("attention").requires_grad_(False)
        draw = torch.Generator().manual_seed(6)
        self.reference.head.weight.add_(0.5 * torch.randn(120, 24, generator=draw))

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        places = position_ids
        if not self.positions:
            places = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        with torch.no_grad():
            self.said = self.reference(input_ids, places, segment_ids)["logits"].log_softmax(-1)
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        asked = F.pad(labels[:, 1:], (0, 1), value=-100) != -100
        said = logits.log_softmax(-1)
        apart = (said.exp() * (said - self.said)).sum(-1)
        return super()._loss(logits, labels, segments, items) + 0.3 * (apart * asked).sum() / asked.sum()


def each_fourth(rest):
    """A loop that updates after each fourth micro-batch, and at its end with what is left over, or without."""
    made = {}

    def step(model, batches):
        optimizer = made.setdefault("optimizer", torch.optim.SGD(model.parameters(), lr=0.1))
        for at, batch in enumerate(batches, start=1):
            (model(**batch)["loss"] * count([batch]) / count(batches)).backward()
            if at % 4 == 0 or (rest and at == len(batches)):
                optimizer.step()
                optimizer.zero_grad()

    return step


class LastOf(Uncounted):
    """A reward of the last token of a row that is padded on the left, which it looks for from the right or the left."""

    def __init__(self, found_by):
        super().__init__("attention")
        self.found_by = found_by

    def forward(self, input_ids, attention_mask=None, position_ids=None, labels=None):
        attention_mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        self.mask = attention_mask
        return super().forward(input_ids, position_ids, attention_mask, labels)

    def _loss(self, logits, labels, segments, items):
        slots = torch.arange(segments.shape[1]) * self.mask
        last = self.mask.sum(1) - 1 if self.found_by == "count" else slots.argmax(1)
        return logits[torch.arange(len(last)), last, 7].tanh().mean()


class Trimmed(Uncounted):
    """A distillation of as many tokens of each sequence as the shortest answer of the batch has, or of all."""

    def __init__(self, trims):
        super().__init__("attention")
        self.trims = trims
        self.teacher = Tiny("attention").requires_grad_(False)
        draw = torch.Generator().manual_seed(7)
        self.teacher.head.weight.add_(torch.randn(120, 24, generator=draw))

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        with torch.no_grad():
            self.said = self.teacher(input_ids, position_ids, segment_ids)["logits"].softmax(-1)
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        asked = F.pad(labels[:, 1:], (0, 1), value=-100) != -100
        each = -(self.said * logits.log_softmax(-1)).sum(-1) * asked
        if self.trims:
            answered = asked.cumsum(1)
            each = each * (answered <= answered.amax(1).min())
        return each.sum() / asked.sum()


def one_a_row(rows):
    batch = dense(slots=max(len(row["input_ids"]) for row in rows), **SEGMENTS)
    batches = [batch([row]) for row in rows]
    return {name: torch.cat([one[name] for one in batches]) for name in batches[0]}


ENCODED = masked(SHORT)

FAULTS = {
    "modelscope/ms-swift#6496, bounds less one in a head that looks ahead": (
        lambda: in_packs(Ahead("bounds less one")), "mean", "a head that predicts several tokens ahead"),
    "PaddlePaddle/PaddleFleet#1808, token 0 at the ends of a head that looks ahead": (
        lambda: in_packs(Ahead("ends of 0")), "further heads", "for tokens that no sequence has there"),
    "NVIDIA/Megatron-LM#6205, rolled by bounds without padding": (
        lambda: (Ahead("bounds without padding"), padded_to_8, SHORT),
        "mean", "a head that predicts several tokens ahead"),
    "huggingface/trl#5952, weights of sequences broadcast over a row": (
        lambda: (Weighted("broadcast"), with_weights, WEIGHED), "mean", "company"),
    "lightly-ai/lightly-train#968, a teacher that moves in each micro-batch": (
        lambda: (Taught(), dense(**SEGMENTS), SHORT, {"step": teaching(each=True)}),
        "accumulation", "parameters change inside the update"),
    "PrimeIntellect-ai/prime-rl#2828, a window that one sequence does not get": (
        lambda: (Narrow(False), dense(slots=80, **SEGMENTS), SHORT), ALONE, "see fewer tokens in a pack"),
    "allenai/OLMo-core#843, no end where a sequence was cut": (
        lambda: (ByEnds("attention"), without_positions, CUT), EARLIER, "some sequences of a row are kept apart"),
    "huggingface/trl#5854, a policy's first token after a border": (
        lambda: (Policy(gated=False), rollouts, ROLLED), "targets at borders", "a leaked target"),
    "modelscope/twinkle#292, token means by sequences": (
        lambda: (Uncounted("attention"), dense(**SEGMENTS), SHORT, {"step": by_samples}),
        "accumulation", "a mean of means"),
    "huggingface/transformers#39707, an encoder whose packs are causal": (
        lambda: (Backward(True), dense(slots=80, causal=False, **SEGMENTS), ENCODED),
        ALONE, "see fewer tokens in a pack"),
    "WalkingMeatAxolotl/AnimaLoraStudio#371, the time of the first for all": (
        lambda: (Timed("first"), with_times, TIMED), ALONE, "the times of another one"),
    "huggingface/trl#6800, a reference without positions": (
        lambda: (Referred(positions=False), dense(**SEGMENTS), SHORT), "mean", "company"),
    "unslothai/unsloth-zoo#968, the last token counted from the left": (
        lambda: (LastOf("count"), left_padded, SHORT), "mean", "a sequence is lost"),
    "huggingface/trl#6006, a distillation trimmed to the shortest answer": (
        lambda: (Trimmed(True), one_a_row, SHORT), "labels", "changes from batch to batch"),
}  # fmt: skip

RIGHT = {
    "PaddlePaddle/PaddleFleet#1808, a head that looks ahead within borders": lambda: in_packs(Ahead("right")),
    "huggingface/trl#5952, weights of sequences by token": lambda: (Weighted("by sequence"), with_weights, WEIGHED),
    "lightly-ai/lightly-train#968, a teacher that moves once": lambda: (
        Taught(), dense(**SEGMENTS), SHORT, {"step": teaching(each=False)}),
    "PrimeIntellect-ai/prime-rl#2828, a window everywhere": lambda: (
        Narrow(True), dense(slots=80, **SEGMENTS), SHORT),
    "allenai/OLMo-core#843, an end of each": lambda: (ByEnds("attention"), without_positions, ENDED),
    "huggingface/trl#5854, a policy within borders": lambda: (Policy(gated=True), rollouts, ROLLED),
    "huggingface/transformers#39707, an encoder that looks both ways": lambda: (
        Backward(False), dense(slots=80, causal=False, **SEGMENTS), ENCODED),
    "WalkingMeatAxolotl/AnimaLoraStudio#371, a time for each": lambda: (Timed("each"), with_times, TIMED),
    "huggingface/trl#6800, a reference with positions": lambda: (
        Referred(positions=True), dense(**SEGMENTS), SHORT),
    "mflux-community/mflux#447, what is left over is applied": lambda: (
        Uncounted("attention"), dense(**SEGMENTS), SHORT, {"step": each_fourth(rest=True)}),
    "unslothai/unsloth-zoo#968, the last token from the right": lambda: (LastOf("places"), left_padded, SHORT),
    "huggingface/trl#6006, a distillation of all labels": lambda: (Trimmed(False), one_a_row, SHORT),
}  # fmt: skip

CHANGED = (
    "PaddlePaddle/PaddleFleet#1808, token 0 at the ends of a head that looks ahead",
    "PaddlePaddle/PaddleFleet#1808, a head that looks ahead within borders",
    "lightly-ai/lightly-train#968, a teacher that moves in each micro-batch",
    "lightly-ai/lightly-train#968, a teacher that moves once",
    "allenai/OLMo-core#843, no end where a sequence was cut",
    "allenai/OLMo-core#843, an end of each",
    "WalkingMeatAxolotl/AnimaLoraStudio#371, the time of the first for all",
    "mflux-community/mflux#447, what is left over is never applied",
)

# What is inconclusive, and words of the evidence that says so
OPEN = {
    "mflux-community/mflux#447, what is left over is never applied": (
        lambda: (Uncounted("attention"), dense(**SEGMENTS), SHORT, {"step": each_fourth(rest=False)}),
        "accumulation", "left over at the end of a pass are never applied"),
}  # fmt: skip
