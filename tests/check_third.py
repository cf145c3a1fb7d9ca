"""A third set of set-ups for `check_packing` after public reports, made before its code of that day was read.

At first sight, at the defaults, 9 of the 12 faulty ones failed, 8 with a cause that leads to the fault; one could not
be told and two passed. Of the 12 right ones 11 passed, two of them after a mistake of their own, and one was accused.
"""

import torch
from check_cases import SEGMENTS, dense, make, spoiled
from check_kinds import places_of
from check_later import LATER, count
from check_public import in_packs
from check_reports import ALONE, EARLIER, FLAT, SHORT, Uncounted, llama
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments
from transformers.trainer_pt_utils import LabelSmoother


def of_each(values, segments, kept):
    """The mean of the values that are kept, of each segment of each row, at each slot of it."""
    index = (segments + 100 * torch.arange(len(segments))[:, None]).flatten()
    room = values.new_zeros(100 * len(segments))
    sums = room.index_add(0, index, (values * kept).flatten())
    counts = room.index_add(0, index, kept.flatten().to(values.dtype))
    return (sums / counts.clamp(min=1))[index].view_as(values)


class Third(Uncounted):
    """Attention, and one thing about it or its loss that respects borders or does not."""

    def __init__(self, how, **options):
        super().__init__("attention", **options)
        self.how = how
        if "soft prompt" in how:
            self.prompt = nn.Parameter(torch.randn(4, 24, generator=torch.Generator().manual_seed(9)))
        self.turned = {}

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None, old=None, advantages=None):
        self.ids, self.segments, self.old, self.advantages = input_ids, segment_ids, old, advantages
        if "tokens are dropped" in self.how:
            return self._dropped(input_ids, segment_ids, labels)
        if "kept by shape" in self.how:
            key = tuple(input_ids.shape)
            places = places_of(segment_ids)
            if "right" in self.how:
                key = (*key, *places.flatten().tolist())
            position_ids = self.turned.setdefault(key, places)
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _dropped(self, ids, segments, labels):
        """Masked tokens are zeros, and the others are scaled as if 12 % were masked, as ESM does."""
        masked, used = ids == 5, segments > 0
        if "of a row" in self.how:
            share = (masked & used).sum(1, keepdim=True) / used.sum(1, keepdim=True)
        else:
            share = of_each(masked.float(), segments, used)
        x = self.tokens(ids).masked_fill(masked[..., None], 0.0) * (0.88 / (1 - share))[..., None]
        x = x + self.places(places_of(segments))
        same = segments[:, :, None] == segments[:, None, :]
        x = x + self._attention(self.parts[0], F.layer_norm(x, x.shape[-1:]), segments, same, False)
        logits = self.head(x)
        return {"logits": logits, "loss": None if labels is None else self._loss(logits, labels, segments, None)}

    def _attention(self, part, x, segments, same, wrong):
        if "soft prompt" in self.how:
            query, key, value, _ = part(x).chunk(4, -1)
            _, more_keys, more_values, _ = part(self.prompt).chunk(4, -1)
            key = torch.cat([more_keys.expand(len(x), -1, -1), key], 1)
            value = torch.cat([more_values.expand(len(x), -1, -1), value], 1)
            if "no mask" in self.how:
                same = torch.ones_like(same).tril()
            seen = (segments == 1) if "of a row" in self.how else torch.ones_like(segments, dtype=torch.bool)
            same = torch.cat([seen[..., None].expand(-1, -1, 4), same], 2)
            return F.scaled_dot_product_attention(query, key, value, attn_mask=same)
        if "images see themselves" in self.how:
            image = (self.ids > 0) & (self.ids < 20)
            begins = image & ~F.pad(image[:, :-1], (1, 0))
            number = begins.cumsum(1) * image
            both = (number[:, :, None] == number[:, None, :]) & image[:, :, None]
            own = segments[:, :, None] == segments[:, None, :]
            same = same | (both if "over borders" in self.how else both & own)
        return super()._attention(part, x, segments, same, wrong)

    def _loss(self, logits, labels, segments, items):
        if self.how == "masked" or "tokens are dropped" in self.how:
            return super()._loss(logits, labels, segments, items)
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        kept = target != -100
        each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        if "importance" in self.how:
            return self._ratio(each, kept, segments)
        if self.advantages is not None:
            worth = self.advantages[segments.clamp(max=len(self.advantages)) - 1]
            return (each * worth * kept).sum() / kept.sum()
        return each.sum() / kept.sum()

    def _ratio(self, each, kept, segments):
        old = F.pad(self.old[:, 1:], (0, 1))
        apart = (-each - old) * kept
        if "of a row" in self.how:
            apart = ((apart.sum(1) / kept.sum(1).clamp(min=1))[:, None]).expand_as(apart)
        elif "of each sequence" in self.how:
            apart = of_each(apart, segments, kept)
        return -(apart.exp() * kept).sum() / kept.sum()


def third(how, slots=40, **options):
    return in_packs(Third(how), slots, **options)


def old_of(row):
    """What a policy said of each token of a sequence; the first is not asked for."""
    return [0.0, *(-2.0 - (token % 11) / 5 for token in row["input_ids"][1:])]


def in_one_row(rows):
    """A row of segments that begin with 1."""
    ids = [token for row in rows for token in row["input_ids"]]
    labels = [label for row in rows for label in [-100, *row["labels"][1:]]]
    owner = [number for number, row in enumerate(rows, start=1) for _ in row["input_ids"]]
    return {"input_ids": torch.tensor([ids]), "labels": torch.tensor([labels]), "segment_ids": torch.tensor([owner])}


def with_old(first):
    """Log-probabilities beside the tokens; each sequence has one fewer than tokens, or a 0 first."""

    def collate(rows):
        batch = in_one_row(rows)
        old = [value for row in rows for value in (old_of(row) if first else old_of(row)[1:])]
        slots = batch["input_ids"].shape[1]
        old = old if first else [0.0] + old + [0.0] * (slots - 1 - len(old))
        return {**batch, "old": torch.tensor([old])}

    return collate


def policy(how, first=True):
    return Third(how), with_old(first), SHORT


def with_advantages(sort):
    """Sequences are sorted by their length, and their advantages with them or not."""

    def collate(rows):
        order = sorted(rows, key=lambda row: len(row["input_ids"]))
        worth = [row["advantage"] for row in (order if sort else rows)]
        return {**in_one_row(order), "advantages": torch.tensor(worth)}

    rows = [{**row, "advantage": 0.5 + 0.4 * at} for at, row in enumerate(SHORT)]
    return Third("advantages"), collate, rows


def images_in_texts():
    """Each begins and ends in an image, tokens below 20."""
    draw = torch.Generator().manual_seed(8)
    rows = []
    for length in (9, 12, 8, 14, 7, 10):
        ids = torch.randint(20, 120, (length,), generator=draw)
        ids[:3] = torch.randint(6, 20, (3,), generator=draw)
        ids[-2:] = torch.randint(6, 20, (2,), generator=draw)
        rows.append({"input_ids": ids.tolist()})
    return rows


def with_masks(rows):
    """Rows for masked language modeling: some sequences have more masks than others."""
    out = []
    for number, row in enumerate(rows):
        ids, labels = list(row["input_ids"]), [-100] * len(row["input_ids"])
        for at in range(1, len(ids), 2 + number % 4):
            labels[at], ids[at] = ids[at], 5
        out.append({"input_ids": ids, "labels": labels})
    return out


class Router(Uncounted):
    """A router whose z-loss is a mean over tokens, beside the loss of the labels, which an update counts."""

    def __init__(self, scaled):
        super().__init__("attention")
        self.scaled, self.router, self.items = scaled, nn.Linear(24, 4), None

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None, num_items_in_batch=None):
        self.ids = input_ids
        self.items = num_items_in_batch
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        target = F.pad(labels[:, 1:], (0, 1), value=-100)
        kept = target != -100
        each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        odds = self.router(self.tokens(self.ids)).logsumexp(-1) ** 2
        items = kept.sum() if self.items is None else self.items
        more = (odds * kept).sum() / (items if self.scaled else kept.sum())
        return each.sum() / items + 0.5 * more


def by_labels(model, batches):
    model.zero_grad()
    labels = count(batches)
    for batch in batches:
        model(**batch, num_items_in_batch=labels)["loss"].backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


class Biased(Uncounted):
    """Experts whose biases move against their load, in each forward pass, or once for each update."""

    def __init__(self, how):
        super().__init__("attention")
        self.how, self.router, self.experts = how, nn.Linear(24, 4), nn.Linear(24, 4 * 24)
        self.register_buffer("bias", torch.zeros(4))
        self.register_buffer("load", torch.zeros(4))

    def _attention(self, part, x, segments, same, wrong):
        made = super()._attention(part, x, segments, same, wrong)
        odds = self.router(x).sigmoid()
        chosen = (odds + self.bias).topk(2, -1).indices
        if self.training:
            with torch.no_grad():
                load = F.one_hot(chosen, 4).sum((0, 1, 2)).float()
                self.load += load
                if self.how == "each pass":
                    self.bias += 0.3 * (load.mean() - load).sign()
        weight = torch.zeros_like(odds).scatter(-1, chosen, odds.gather(-1, chosen))
        return made + (self.experts(x).unflatten(-1, (4, 24)).tanh() * weight[..., None]).sum(-2)


def balancing(model, batches):
    model.zero_grad()
    labels = count(batches)
    for batch in batches:
        (model(**batch)["loss"] * count([batch]) / labels).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    with torch.no_grad():
        if model.how == "once":
            model.bias += 0.3 * (model.load.mean() - model.load).sign()
        model.load.zero_()


class Forgetting(LabelSmoother):
    """A smoother that takes the mean of a micro-batch, whatever the update counts."""

    def __call__(self, model_output, labels, shift_labels=False, **_):
        return super().__call__(model_output, labels, shift_labels=shift_labels)


def smoothing(forgets, said=True):
    """An update of `Trainer` with smoothed labels.

    Args:
        said: whether the check is given that loss; the model's own smooths nothing.
    """
    made = {}

    def step(model, batches):
        if "trainer" not in made:
            arguments = TrainingArguments("unused", gradient_accumulation_steps=2, label_smoothing_factor=0.1,
                                          use_cpu=True, report_to=[], disable_tqdm=True)  # fmt: skip
            made["trainer"] = trainer = Trainer(model, arguments, data_collator=FLAT, train_dataset=SHORT)
            trainer.create_optimizer()
            if forgets:
                trainer.label_smoother = Forgetting(epsilon=0.1)
        trainer = made["trainer"]
        trainer.current_gradient_accumulation_steps = len(batches)
        items = trainer._get_num_items_in_batch(batches, trainer.args.device)
        for batch in batches:
            trainer.training_step(model, dict(batch), num_items_in_batch=items)
        trainer.optimizer.step()
        model.zero_grad()

    loss = {"loss": lambda output, batch: LabelSmoother(epsilon=0.1)(output, batch["labels"], shift_labels=True)}
    return llama(), FLAT, SHORT, {"step": step, **(loss if said else {})}


def by_accelerate(times):
    """An update of accelerate, which divides each loss by the micro-batches in `backward`."""

    def step(model, batches):
        from accelerate import Accelerator

        accelerator = Accelerator(gradient_accumulation_steps=len(batches), cpu=True)
        inner, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        labels = count(batches)
        for batch in batches:
            with accelerator.accumulate(inner):
                loss = inner(**batch, num_items_in_batch=labels).loss
                accelerator.backward(loss * times(len(batches)))
                accelerator.clip_grad_norm_(inner.parameters(), 1e6)
                optimizer.step()
                optimizer.zero_grad()

    return llama(), FLAT, SHORT, {"step": step}


class Dropping(Uncounted):
    """What attention gives is dropped while the model trains, by numbers that it draws itself, by token or by row."""

    def __init__(self, how):
        super().__init__("attention")
        self.how = how

    def _attention(self, part, x, segments, same, wrong):
        made = super()._attention(part, x, segments, same, wrong)
        if not self.training:
            return made
        if self.how == "by row":
            return made * (torch.rand(len(x), 1, 1) < 0.8) / 0.8
        if self.how == "by slot":
            return made + torch.randn_like(made) * torch.arange(x.shape[1])[None, :, None] * 0.05
        return made * torch.bernoulli(torch.full_like(made, 0.9)) / 0.9


def as_it_trains(right=True):
    """An update that sets the model to train, as trainers do."""

    def step(model, batches):
        model.train()
        model.zero_grad()
        for batch in batches:
            share = count([batch]) / count(batches) if right else 1 / len(batches)
            (model(**batch)["loss"] * share).backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()

    return step


def divided_in_training(model, batches):
    """An update that is shared out only while the model trains, as TRL's GRPO divides it."""
    model.train()
    model.zero_grad()
    for batch in batches:
        (model(**batch).loss * (count([batch]) / count(batches) if model.training else 1)).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def dropping(how, right=True):
    return Dropping(how), dense(**SEGMENTS), SHORT, {"step": as_it_trains(right)}


class Noisy(nn.Module):
    """NEFTune: noise on embeddings while it trains, less of it in longer rows, or in longer sequences."""

    def __init__(self, by_row):
        super().__init__()
        self.model, self.by_row = llama(), by_row

    def forward(self, input_ids, position_ids, labels=None):
        states = self.model.model.embed_tokens(input_ids)
        if self.training:
            begins = position_ids == 0
            number = begins.cumsum(1) - 1
            lengths = torch.bincount(number[0])[number]
            lengths = torch.full_like(lengths, input_ids.shape[1]) if self.by_row else lengths
            states = states + (2 * torch.rand_like(states) - 1) * (5 / (lengths * states.shape[-1]) ** 0.5)[..., None]
        return self.model(inputs_embeds=states, position_ids=position_ids, labels=labels)


FAULTS = {
    "huggingface/transformers#46731, smoothed labels do not know the count": (
        lambda: smoothing(forgets=True), "accumulation", "a sum of means"),
    "modelscope/ms-swift#5823, a router's loss is not shared out": (
        lambda: (Router(scaled=False), dense(**SEGMENTS), SHORT, {"step": by_labels}),
        "accumulation", "is not shared out"),
    "NVIDIA-BioNeMo/bionemo-recipes#1480, tokens are dropped by the masks of a row": (
        lambda: (Third("tokens are dropped, of a row", causal=False), dense(causal=False, **SEGMENTS),
                 with_masks(SHORT)), EARLIER, "tokens of the row are counted or compared"),
    "huggingface/peft#54, a soft prompt of a row": (
        lambda: third("soft prompt of a row"),
        ALONE, "segment_ids change what a sequence is"),
    "PrimeIntellect-ai/prime-rl#606, one value fewer than tokens": (
        lambda: policy("importance", first=False), "mean", "company"),
    "modelscope/ms-swift#6548, importance of a row": (lambda: policy("importance of a row"), "mean", "company"),
    "huggingface/transformers#38053, images see the next one": (
        lambda: (Third("images see themselves, over borders"), dense(**SEGMENTS), images_in_texts()),
        LATER, "some sequences of a row are kept apart"),
    "ModelTC/LightX2V#1132, positions kept by shape": (
        lambda: third("kept by shape"),
        ALONE, "though no change of others' tokens that was tried changes it"),
    "mead-ml/mead-baseline#677, advantages are not sorted with the rows": (
        lambda: with_advantages(sort=False), "mean", "company"),
    "pytorch/torchtitan#1304, biases of experts move in each pass": (
        lambda: (Biased("each pass"), dense(**SEGMENTS), SHORT, {"step": balancing}),
        "training", "each call changes what the next one gives"),
    "huggingface/accelerate#3193, divided by the count and by accelerate": (
        lambda: by_accelerate(lambda micro: 1), "accumulation", "0.5 times"),
    "huggingface/transformers#34659, noise by the length of a row": (
        lambda: (Noisy(by_row=True), FLAT, SHORT), "training", "as that of NEFTune"),
    "a learned prefix, and no mask": (lambda: third("soft prompt, no mask"), EARLIER, "no document mask"),
    "noise by the slot": (lambda: dropping("by slot"), "training", "another size in a pack"),
    "a mean of means, with dropout": (
        lambda: (llama(attention_dropout=0.1), FLAT, SHORT, {"step": as_it_trains(False)}),
        "accumulation", "a mean of means"),
    "a mean of means, with noise of its own": (lambda: dropping("by token", False), "accumulation", "a mean of means"),
    "positions that are one number": (
        lambda: (make("GPT2LMHeadModel"), spoiled(dense(**SEGMENTS), position_ids=lambda x: x.clamp(5, 5)), SHORT),
        "positions", "one number for all tokens"),
}  # fmt: skip

RIGHT = {
    "huggingface/transformers#46731, smoothed labels of Trainer": lambda: smoothing(forgets=False),
    "modelscope/ms-swift#5823, a router's loss is shared out": lambda: (
        Router(scaled=True), dense(**SEGMENTS), SHORT, {"step": by_labels}),
    "NVIDIA-BioNeMo/bionemo-recipes#1480, tokens are dropped by the masks of each": lambda: (
        Third("tokens are dropped", causal=False), dense(causal=False, **SEGMENTS), with_masks(SHORT)),
    "huggingface/peft#54, a soft prompt that all see": lambda: third("soft prompt"),
    "PrimeIntellect-ai/prime-rl#606, a value for each token": lambda: policy("importance"),
    "modelscope/ms-swift#6548, importance of each sequence": lambda: policy("importance of each sequence"),
    "huggingface/transformers#38053, images see themselves": lambda: (
        Third("images see themselves"), dense(**SEGMENTS), images_in_texts()),
    "ModelTC/LightX2V#1132, positions kept by themselves": lambda: third("kept by shape, right"),
    "mead-ml/mead-baseline#677, advantages are sorted with the rows": lambda: with_advantages(sort=True),
    "pytorch/torchtitan#1304, biases of experts move once": lambda: (
        Biased("once"), dense(**SEGMENTS), SHORT, {"step": balancing}),
    "huggingface/accelerate#3193, undone what accelerate divides": lambda: by_accelerate(lambda micro: micro),
    "huggingface/transformers#34659, noise by the length of each": lambda: (Noisy(by_row=False), FLAT, SHORT),
    "an update with dropout": lambda: (llama(attention_dropout=0.1), FLAT, SHORT, {"step": as_it_trains()}),
    "an update with dropout, divided in training": lambda: (
        make("GPT2LMHeadModel"), FLAT, SHORT, {"step": divided_in_training}),
    "an update with noise of its own": lambda: dropping("by token"),
    "rows that skip a layer at random": lambda: dropping("by row"),
}  # fmt: skip

CHANGED = (
    "modelscope/ms-swift#5823, a router's loss is not shared out",
    "NVIDIA-BioNeMo/bionemo-recipes#1480, tokens are dropped by the masks of a row",
    "pytorch/torchtitan#1304, biases of experts move in each pass",
    "huggingface/transformers#34659, noise by the length of a row",
    "huggingface/transformers#46731, smoothed labels of Trainer",
    "positions that are one number",
    "a learned prefix, and no mask",
    "noise by the slot",
    "a mean of means, with dropout",
    "a mean of means, with noise of its own",
    "an update with dropout",
    "an update with dropout, divided in training",
    "an update with noise of its own",
    "rows that skip a layer at random",
)

# What the check cannot tell
OPEN = {
    "huggingface/transformers#46731, smoothed labels that the check is not given": (
        lambda: smoothing(forgets=False, said=False), "accumulation", "pass it as loss"),
}  # fmt: skip
