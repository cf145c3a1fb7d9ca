"""A fifth set of set-ups for `check_packing`: losses that choose what they learn from, heads that look ahead, noise."""

from functools import partial

import torch
from check_cases import SEGMENTS, Tiny, dense, packed_rows
from check_fourth import entropies
from check_reports import ALONE, EARLIER, SHORT, Uncounted
from check_today import in_one_row, packs, rollouts
from torch.nn import functional as F


def next_labels(labels):
    """The label of the next slot, -100 at the end of a row."""
    return F.pad(labels[:, 1:], (0, 1), value=-100)


class Selective(Uncounted):
    """A loss of those tokens that the model says worse than a reference does, as Rho-1 chooses them.

    Args:
        lost: whether the first label of each sequence is lost besides.
        apart: how far the reference is from the model; a far one leaves out nearly the same tokens whatever both say.
    """

    def __init__(self, lost=False, apart=0.05):
        super().__init__("attention")
        self.lost = lost
        self.reference = Tiny("attention").requires_grad_(False)
        draw = torch.Generator().manual_seed(6)
        self.reference.head.weight.add_(apart * torch.randn(120, 24, generator=draw))

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        with torch.no_grad():
            self.said = self.reference(input_ids, position_ids, segment_ids)["logits"]
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        target = next_labels(labels)
        if self.lost:
            target = target.masked_fill((labels == -100) & (segments > 0), -100)
        own, reference = entropies(logits, target), entropies(self.said, target)
        chosen = (target != -100) & (own.detach() > reference)
        return own[chosen].sum() / chosen.sum().clamp(min=1)


def of_lengths(least, most):
    """A collator that leaves out sequences of other lengths, by labels of -100."""

    def collate(rows):
        kept = [least <= len(row["input_ids"]) <= most for row in rows]
        return dense(**SEGMENTS)(
            [row if keep else {**row, "labels": [-100] * len(row["labels"])}
             for row, keep in zip(rows, kept, strict=True)])  # fmt: skip

    return collate


def without_the_first(rows):
    """A collator whose template is not found in one sequence, of a middle length, so that its labels are lost."""
    return dense(**SEGMENTS)(
        [{**row, "labels": [-100] * len(row["labels"])} if row["input_ids"][-1] == SHORT[0]["input_ids"][-1] else row
         for row in rows])  # fmt: skip


class Grouped(Uncounted):
    """A policy gradient of answers with advantages within their group, on policy, so that its value is about 0.

    Args:
        mean: over each "token", "sequence" or "group", a sum over a "constant", or, wrongly, a mean of "rows".
        filtered: whether groups whose answers have the same reward are left out of the count.
    """

    def __init__(self, mean="token", filtered=False):
        super().__init__("attention")
        self.mean, self.filtered = mean, filtered

    def forward(self, input_ids, advantage, group, before=None, position_ids=None, segment_ids=None, labels=None):
        self.about = advantage, group.long()
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        advantage, group = self.about
        logp = -entropies(logits, next_labels(labels))
        keep = counted(labels, advantage, self.filtered)
        each = -(logp - logp.detach()).exp() * advantage * keep
        if self.mean == "constant":
            return each.sum() / 64
        index = units(segments, group, self.mean).flatten()
        size = int(index.max()) + 1
        sums, counts = (torch.zeros(size).index_add(0, index, x.flatten()) for x in (each, keep.float()))
        return (sums / counts.clamp(min=1)).sum() / (counts > 0).sum().clamp(min=1)


def counted(labels, advantage, filtered):
    keep = next_labels(labels) != -100
    return keep & (advantage != 0) if filtered else keep


def units(segments, group, mean):
    """The number of the unit of each slot over which a mean is taken."""
    rows = torch.arange(len(segments))[:, None]
    return {"token": 0 * segments, "sequence": segments + 100 * rows, "group": group, "rows": rows + 0 * segments}[
        mean
    ]


def by_units(model, batches):
    """An update in which each micro-batch weighs by its tokens, sequences or groups; or 1, if it is a sum."""
    sizes = []
    for batch in batches:
        keep = counted(batch["labels"], batch["advantage"], model.filtered)
        if model.mean == "token":
            sizes.append(int(keep.sum()))
        elif model.mean != "constant":
            sizes.append(len(units(batch["segment_ids"], batch["group"].long(), model.mean)[keep].unique()))
    model.zero_grad()
    for number, batch in enumerate(batches):
        share = sizes[number] / sum(sizes) if sizes else 1.0
        (model(**batch)["loss"] * share).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def answers(without=(), count=12, size=3):
    """Answers in groups, of which those in `without` have equal rewards, and so no advantage."""
    draw = torch.Generator().manual_seed(7)
    rows = rollouts(count)
    for first in range(0, count, size):
        rewards = torch.randint(0, 2, (size,), generator=draw).double()
        rewards[0] = 1 - rewards[1]
        for number in range(size):
            advantage = (rewards - rewards.mean())[number] / rewards.std()
            named = {"group": first // size, "advantage": 0.0 if first // size in without else float(advantage)}
            rows[first + number] |= named
    return rows


def grouped(mean="token", filtered=False, without=()):
    return Grouped(mean, filtered), packs, answers(without), {"group": "group", "step": by_units}


class Heads(Uncounted):
    """Two heads that predict two and three tokens ahead.

    Args:
        divided: by "labels" as the scores, by its "own" targets, or, wrongly, by its own of each of the "rows".
        fault: "lacking", where the first sequence of each row alone has targets for them.
    """

    def __init__(self, divided="labels", fault=None):
        super().__init__("attention")
        self.divided, self.wrong = divided, fault
        self.more = torch.nn.ModuleList(torch.nn.Linear(24, 120) for _ in range(2))
        self.head.register_forward_pre_hook(lambda head, given: setattr(self, "states", given[0]))

    def _loss(self, logits, labels, segments, items):
        total = super()._loss(logits, labels, segments, items)
        for shift, head in enumerate(self.more, start=2):
            target = F.pad(labels[:, shift:], (0, shift), value=-100)
            target = target.masked_fill(F.pad(segments[:, shift:], (0, shift)) != segments, -100)
            if self.wrong == "lacking":
                target = target.masked_fill(segments > 1, -100)
            each, asked = entropies(head(self.states), target), target != -100
            divisor = (next_labels(labels) != -100).sum() if self.divided == "labels" else asked.sum()
            if self.divided == "rows":
                total = total + 0.3 * (each.sum(1) / asked.sum(1).clamp(min=1)).mean()
            else:
                total = total + 0.3 * each.sum() / divisor.clamp(min=1)
        return total


class Rotary(Uncounted):
    """Rotary positions whose base grows with the longest row so far, or never."""

    def __init__(self, grows):
        super().__init__("attention")
        self.grows, self.longest = grows, 0

    def _attention(self, part, x, segments, same, wrong):
        query, key, value, _ = part(x).chunk(4, -1)
        slots = torch.arange(x.shape[1]).expand(len(x), -1)
        begins = F.pad(segments[:, 1:] != segments[:, :-1], (1, 0), value=True)
        self.longest = max(self.longest, x.shape[1])
        base = 100.0 * max(1.0, self.longest / 12 - 1 if self.grows else 1.0)
        places = slots - torch.where(begins, slots, 0).cummax(1).values
        angles = places[..., None] * base ** (-torch.arange(0, 24, 2) / 24)
        query, key = (turned(values, angles) for values in (query, key))
        return F.scaled_dot_product_attention(2 * query, 2 * key, value, attn_mask=same)


def turned(values, angles):
    first, second = values.chunk(2, -1)
    return torch.cat([first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()], -1)


class KeepsMask(Uncounted):
    """A mask that is kept and used again: that of the "first" batch, or the first of each "length" or "shape"."""

    def __init__(self, by):
        super().__init__("attention")
        self.by, self.masks = by, {}

    def _attention(self, part, x, segments, same, wrong):
        key = {"first": None, "length": x.shape[1], "shape": tuple(x.shape[:2])}[self.by]
        kept = self.masks.setdefault(key, same)
        if kept.shape == same.shape:
            same = kept
        elif self.by == "first":
            shared = min(kept.shape[-1], same.shape[-1])
            same = same.clone()
            same[:, :shared, :shared] = kept[:1, :shared, :shared]
        return super()._attention(part, x, segments, same, wrong)


class Learning(Uncounted):
    """A distillation beside the loss; the teacher "leaks", numbers "slots", or gets what the model gets."""

    def __init__(self, how):
        super().__init__("attention")
        self.how = how
        self.teacher = Tiny("attention").requires_grad_(False)
        draw = torch.Generator().manual_seed(7)
        self.teacher.head.weight.add_(torch.randn(120, 24, generator=draw))

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None):
        slots = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        with torch.no_grad():
            said = self.teacher(
                input_ids,
                slots if self.how == "slots" else position_ids,
                None if self.how == "leaks" else segment_ids,
            )
        self.said = said["logits"].softmax(-1)
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        asked = next_labels(labels) != -100
        each = -(self.said * logits.log_softmax(-1)).sum(-1) * asked
        return each.sum() / asked.sum() + super()._loss(logits, labels, segments, items)


class Advantaged(Uncounted):
    """A policy gradient of advantages by token."""

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None, advantages=None):
        self.advantages = torch.ones(input_ids.shape) if advantages is None else advantages
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        target = next_labels(labels)
        return (entropies(logits, target) * F.pad(self.advantages[:, 1:], (0, 1))).sum() / (target != -100).sum()


def with_columns(rows, *names, roll=0):
    """Packs with columns of the data by slot, in all of which values lie so many slots behind."""
    batch = dense(**SEGMENTS)(rows)
    for name in names:
        values = torch.zeros(batch["input_ids"].shape)
        for number, pack in enumerate(packed_rows(rows, 40)):
            for order, row in enumerate(pack, start=1):
                values[number, batch["segment_ids"][number] == order] = torch.as_tensor(row[name]).float()
        batch[name] = values.roll(roll, 1)
    return batch


ADVANTAGED = [
    {**row, "advantages": [0.2 * number + 0.1 * place + 0.3 for place in range(len(row["input_ids"]))]}
    for number, row in enumerate(SHORT)
]


class Preferred(Uncounted):
    """A preference between the two of each pair; matched by the number of the pair, or by their order in the batch."""

    def __init__(self, by_number):
        super().__init__("attention")
        self.by_number = by_number

    def forward(self, input_ids, position_ids=None, segment_ids=None, labels=None, pair=None, chosen=None):
        self.about = pair, chosen
        return super().forward(input_ids, position_ids, segment_ids, labels)

    def _loss(self, logits, labels, segments, items):
        number = (segments + 100 * torch.arange(len(segments))[:, None]).flatten()
        each = -entropies(logits, next_labels(labels)).flatten()
        which = [int(n) for n in number.unique() if n % 100]
        pair, chosen = (values.flatten()[[int((number == n).nonzero()[0]) for n in which]] for values in self.about)
        sums = torch.stack([each[number == n].sum() for n in which])
        better, worse = sums[chosen > 0], sums[chosen == 0]
        if self.by_number:
            better, worse = better[pair[chosen > 0].argsort()], worse[pair[chosen == 0].argsort()]
        return -F.logsigmoid(0.1 * (better - worse)).mean()


PAIRS = [
    {**row, "pair": pair, "chosen": chosen}
    for row, (pair, chosen) in zip(SHORT, [(1, 1), (2, 1), (3, 1), (3, 0), (1, 0), (2, 0)], strict=True)
]


def preferred(by_number):
    return Preferred(by_number), lambda rows: with_columns(rows, "pair", "chosen"), PAIRS, {"group": "pair"}


RIGHT = {
    "a base of rotary positions that stays": lambda: (Rotary(grows=False), in_one_row, SHORT),
    "a teacher that gets what the model gets": lambda: (Learning("right"), dense(**SEGMENTS), SHORT),
    "advantages by token": lambda: (
        Advantaged("attention"), lambda rows: with_columns(rows, "advantages"), ADVANTAGED),
    "preferences matched by their number": lambda: preferred(by_number=True),
    "heads that look ahead, divided by the labels": lambda: (Heads(), dense(**SEGMENTS), SHORT),
    "heads that look ahead, each divided by its own": lambda: (Heads("own"), dense(**SEGMENTS), SHORT),
    "tokens chosen by a reference": lambda: (Selective(), dense(**SEGMENTS), SHORT),
    **{f"groups without advantage, a mean over each {mean}{', filtered' * filtered}":
       partial(grouped, mean, filtered, (1, 2))
       for mean in ("token", "sequence", "group", "constant") for filtered in (False, True)},
}  # fmt: skip

# What is wrong, the question that fails, and words of its cause
FAULTS = {
    "a base of rotary positions that grows": (
        lambda: (Rotary(grows=True), in_one_row, SHORT), "determinism", "grows with the longest row so far"),
    "a mask kept from the first batch": (
        lambda: (KeepsMask("first"), dense(**SEGMENTS), SHORT), EARLIER, "as the borders of an earlier batch have it"),
    "a mask kept by length": (
        lambda: (KeepsMask("length"), dense(**SEGMENTS), SHORT), "mean", "used again, as where they are kept by"),
    "a mask kept by shape": (
        lambda: (KeepsMask("shape"), dense(**SEGMENTS), SHORT), ALONE, "used again, as where they are kept by"),
    "a teacher whose rows leak": (
        lambda: (Learning("leaks"), dense(**SEGMENTS), SHORT), "mean", "the part teacher of the model"),
    "a teacher that numbers slots": (
        lambda: (Learning("slots"), dense(**SEGMENTS), SHORT), "mean", "the part teacher of the model"),
    "advantages one slot before their tokens": (
        lambda: (Advantaged("attention"), lambda rows: with_columns(rows, "advantages", roll=-1), ADVANTAGED),
        "labels", "the values of advantages lie at other tokens than in the data (-1 slots)"),
    "preferences matched by their order": (lambda: preferred(by_number=False), "mean", "matched with another"),
    "heads that look ahead lack targets": (
        lambda: (Heads(fault="lacking"), dense(**SEGMENTS), SHORT), "further heads", "lacks targets in a pack"),
    "heads that look ahead, each divided by its own, lack targets": (
        lambda: (Heads("own", fault="lacking"), dense(**SEGMENTS), SHORT), "further heads", "lacks targets in a pack"),
    "heads that look ahead, divided by those of a row": (
        lambda: (Heads("rows"), dense(**SEGMENTS), SHORT), "mean", "its company, the others of its pack or batch (a "),
    "tokens chosen by a reference, and lost labels": (
        lambda: (Selective(lost=True), dense(**SEGMENTS), SHORT), "labels", "labels are lost"),
    "labels of one sequence lost": (
        lambda: (Tiny("attention"), without_the_first, SHORT), "labels", "labels are lost"),
    "groups without advantage, a mean of rows": (
        lambda: grouped("rows", without=(1, 2)), "mean", "company"),
    "groups without advantage, filtered, a mean of rows": (
        lambda: grouped("rows", filtered=True, without=(0,)), "mean", "company"),
}  # fmt: skip

# What is inconclusive, the question, and words of the evidence that says so
OPEN = {
    "tokens chosen by a far reference": (
        lambda: (Selective(apart=0.5), dense(**SEGMENTS), SHORT), "labels", "Check once with a loss that takes all"),
    "long sequences left out": (
        lambda: (Tiny("attention"), of_lengths(0, 15), SHORT), "labels", "a rule leaves out sequences by their length"),
    "short sequences left out": (
        lambda: (Tiny("attention"), of_lengths(8, 99), SHORT), "labels", "a rule leaves out sequences by their length"),
    "a group without advantage is one of two": (
        lambda: grouped(without=(0,)), "accumulation", "One of two micro-batches has no gradient alone"),
    "no group with an advantage": (
        lambda: grouped(without=(0, 1, 2, 3)), "mean", "The loss is 0 and has no gradient"),
}  # fmt: skip

CHANGED = (*RIGHT, *FAULTS, *OPEN)  # for which the code was changed
