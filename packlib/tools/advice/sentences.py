"""The sentences of the report: each decision with its reason and the next best choice, and notes behind the fold.

A function returns a sentence or a part of one; it returns an empty text if there is nothing to say.
"""

from typing import NamedTuple

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.lengths.overlong import CUT_RULES, CutRule
from packlib.tools.advice.depths import quick_plan
from packlib.tools.advice.findings import Findings, Lost
from packlib.tools.advice.memory import MOST_DEVICES, USABLE, Fit
from packlib.tools.advice.micro_batch import EVIDENCE, MATTERS, PackedUpdate
from packlib.tools.advice.row_lengths import (
    FORMS,
    LOSSY,
    WORTH,
    Form,
    RowLength,
    allowed,
    choose,
    cuts_less,
    next_best,
)
from packlib.tools.advice.second_need import SecondNeed
from packlib.tools.advice.words import (
    compared,
    gigabytes,
    large,
    longest,
    plural,
    share_of,
    signed,
    than_or_as,
    work_compared,
)
from packlib.training.recipe import Recipe

_IN_FORM: dict[Form, str] = {"bounds": "attention that reads the bounds of sequences", "dense": "a dense mask"}
_KNOWN_AS = {"lpfhp": "lpfhp (best fit decreasing)", "optimal": "optimal (a search)"}  # names of methods
_RULE: dict[CutRule, str] = {"truncate": "Truncating them", "drop": "Dropping them", "split": "Splitting them"}
_DONE: dict[CutRule, str] = {"truncate": "cut off", "drop": "left out", "split": "moved to further pieces"}


class Decision(NamedTuple):
    """One decision in words.

    Attributes:
        about: the question, such as "Row length".
        choice: the answer.
        reason: why.
        runner_up: the next best choice, and its cost.
    """

    about: str
    choice: str
    reason: str
    runner_up: str


def decide(findings: Findings) -> tuple[Decision, ...]:
    """Return the decisions in their order.

    If over 2 % of the tokens are beyond the rows, the decision about these is first. If packing gains nothing, "do not
    pack" is the only decision, beside that about a second budget.
    """
    second = () if findings.second is None else (_second_budget(findings, findings.second),)
    if not findings.gains:
        return (_nothing_to_gain(findings), *second)
    pack, row_length, longer = _pack(findings), _row_length(findings), _longer_sequences(findings)
    method, update = _method(findings), _packs_per_update(findings)
    much = LOSSY * findings.whole.num_tokens
    if findings.chosen.tokens_cut > much:
        decisions = (longer, pack, row_length, method, update)
    elif findings.now.tokens_cut > much:  # today's rows lose much, and longer rows end that
        decisions = (row_length, pack, longer, method, update)
    else:
        decisions = (pack, row_length, longer, method, update)
    is_scarcer = findings.second is not None and findings.second.lower_bound > findings.second.by_tokens
    return (*second, *decisions) if is_scarcer else (*decisions, *second)


# To pack or not


def _pack(findings: Findings) -> Decision:
    """Decide to pack today's batches."""
    saved_slots = findings.today.slots - findings.slots_of_same
    choice = f"Pack them: {share_of(saved_slots, findings.today.slots)} fewer slots"
    if findings.same_tokens:
        choice += f", {large(findings.slots)} instead of {large(findings.today.slots)}"
    else:
        choice += " for each token that is kept"
    take = "takes" if findings.plan.num_packs == 1 else "take"
    reason = (
        f"For one pass, {_slots_today(findings)}, and {_packs_in_words(findings)} {take} {large(findings.slots)}"
        f"{_for_tokens(findings, findings.histogram)}."
    )
    return Decision("Your batches", choice, reason, _other_habit(findings))


def _slots_today(findings: Findings) -> str:
    """Say how many slots today's batches take."""
    today = findings.today
    slots = f"{today.as_subject} take {large(today.slots)} slots{_for_tokens(findings, findings.padded)}"
    return f"{slots}{_assumed(findings) if today.sized else ''}"


def _packs_in_words(findings: Findings) -> str:
    """Write the number of packs and their length, such as "647 packs of 1,256"."""
    return f"{plural(findings.plan.num_packs, 'pack')} of {findings.row_length:,}"


def _for_tokens(findings: Findings, rows: LengthHistogram) -> str:
    """Say how many tokens slots are for, if today's rows and the packs have different numbers of them."""
    return "" if findings.same_tokens else f" for {plural(rows.num_tokens, 'token')}"


def _assumed(findings: Findings) -> str:
    """Say that the batch size is an assumption, if it is."""
    return " (32 is an assumption; --batch-size says yours)" if findings.assumes_batch_size else ""


def _other_habit(findings: Findings) -> str:
    """Compare the packs with sorted batches; with random ones, if batches are sorted today."""
    batches = next((batches for batches in findings.habits if batches.habit == "sorted"), findings.habits[0])
    slots = f"{batches.as_subject} take {_compared_slots(batches.slots, findings.slots_of_same)} the packs"
    slots += f", {large(batches.slots)}" if findings.same_tokens else " for each token that is kept"
    slots = f"{slots[0].upper()}{slots[1:]}{'' if findings.today.sized else _assumed(findings)}."
    if batches.habit != "sorted":
        return slots
    if batches.batches == 1:
        return f"{slots} One batch has all sequences."
    if batches.batch_size == 1:
        return f"{slots} They need no mask, but each sequence is then a forward pass of its own."
    narrowest, widest = _widths(findings.padded, batches.batch_size)
    widths = f"a whole batch takes {f'{narrowest:,} to ' if narrowest < widest else ''}{widest:,} slots"
    return (
        f"{slots} They need no mask, but each batch then has sequences of nearly one length, so updates no longer mix "
        f"lengths, and {widths}."
    )


def _compared_slots(value: float, base: float) -> str:
    """Compare two numbers of slots, up to the second: "1.8 % more slots than", "the same number of slots as"."""
    difference = compared(value, base, "slots")
    return f"{difference} {than_or_as(difference)}"


def _widths(padded: LengthHistogram, size: int) -> tuple[int, int]:
    """Return the slots of the narrowest and of the widest whole batch of sorted sequences.

    Args:
        size: sequences in a batch; there are two or more whole batches.
    """
    sequences_up_to = np.cumsum(padded.counts)  # of each length
    in_whole_batches = padded.num_sequences // size * size
    # Padded to its longest sequence, the first batch is as wide as sequence `size`, counted from the shortest.
    first_width = int(np.searchsorted(sequences_up_to, size))
    last_width = int(np.searchsorted(sequences_up_to, in_whole_batches))
    return size * first_width, size * last_width


def _nothing_to_gain(findings: Findings) -> Decision:
    """Decide not to pack: another way of padding suffices, or nothing is gained."""
    today, slots = findings.today, findings.slots
    losses = _loss_of_now(findings)
    if suspect := _suspect(findings):
        losses += f" {suspect}"
    if findings.padding_suffices:
        random = next(batches for batches in findings.habits if batches.habit == "random")
        return Decision(
            "Your batches",
            "Do not pack: pad each batch to its longest sequence, not to the row length",
            f"For one pass, {today.in_words} take {large(today.slots)} slots{_for_tokens(findings, findings.padded)}, "
            f"{random.as_subject} take {large(random.slots)}{_assumed(findings)}, and {_packs_in_words(findings)} "
            f"would take {large(slots)}{_for_tokens(findings, findings.histogram)}.{losses}",
            f"Pack, if every batch must have one shape: plan.json has {_the_packs(findings.plan.num_packs)}.",
        )
    more_slots = findings.slots_of_same - today.slots
    if not findings.same_tokens:
        difference = _compared_slots(findings.slots_of_same, today.slots)
        packed_slots = f"{large(slots)}{_for_tokens(findings, findings.histogram)}, {difference} today for each token"
    elif more_slots:
        difference = f"{share_of(abs(more_slots), today.slots)} {'more' if more_slots > 0 else 'fewer'}"
        packed_slots = f"{large(slots)}, {difference}"
    else:
        packed_slots = "the same number"
    too_little = f" For less than {share_of(WORTH)} nobody changes a trainer." if more_slots <= 0 else ""
    return Decision(
        "Your batches",
        "Nothing to gain: do not pack",
        f"For one pass, {_slots_today(findings)}, and {_packs_in_words(findings)} would take {packed_slots}."
        f"{too_little}{losses}",
        f"Pack all the same: plan.json has {_the_packs(findings.plan.num_packs)}.",
    )


def _the_packs(number: int) -> str:
    """Write "the pack" or "the 647 packs"."""
    return "the pack" if number == 1 else f"the {number:,} packs"


def _loss_of_now(findings: Findings) -> str:
    """Say how many tokens and labels today's rows lose or cut off, if a sequence is too long."""
    row, rule = findings.now, findings.overlong
    if not row.overlong:
        return ""
    losses = f"{plural(row.tokens_cut, 'token')} ({share_of(row.tokens_cut, findings.whole.num_tokens)})"
    if labels := _labels_lost(findings, row):
        losses += f" with {labels}"
    are = "is" if row.tokens_cut == 1 else "are"
    loses_much = rule != "split" and row.tokens_cut > LOSSY * findings.whole.num_tokens
    cure = " Split longer sequences instead (--overlong split)." if loses_much and findings.second is None else ""
    return f" {_overlong(findings, row)}, and {losses} {are} {_DONE[rule]}.{cure}"


def _labels_lost(findings: Findings, row: RowLength) -> str:
    """Say which share of the labels these rows lose, if labels are known and the rule loses any."""
    if findings.labels is None or findings.overlong == "split":
        return ""
    number = findings.labels.number
    return f"{share_of(number - findings.labels.kept(row.max_length, findings.overlong), number)} of the labels"


# A second budget


def _second_budget(findings: Findings, need: SecondNeed) -> Decision:
    """Decide to pack by two budgets, and say which is scarcer.

    The other decisions are by tokens alone: if more packs are needed than they count, this says how many.
    """
    name = need.column
    needs = (
        f"{name[0].upper()}{name[1:]} alone need at least {plural(need.lower_bound, 'pack')} of {need.budget:,}, and "
        f"tokens alone {need.by_tokens:,} of {findings.row_length:,}."
    )
    command = f"packlib pack keeps both (--second-budget {name}:{need.budget})."
    if need.lower_bound > findings.plan.num_packs:
        more_packs = share_of(need.lower_bound / findings.plan.num_packs - 1)
        return Decision(
            "Second budget",
            f"Pack by both: {name} are scarcer than tokens",
            f"{needs} The other decisions count tokens alone: at least {more_packs} more packs are needed than they "
            f"say. The command {command}",
            f"Tokens alone: some packs then hold more than {need.budget:,} {name}.",
        )
    if need.lower_bound > need.by_tokens:
        choice = f"Pack by both: {name} are a little scarcer than tokens"
    elif need.lower_bound == need.by_tokens:
        choice = f"Pack by both: {name} and tokens are equally scarce"
    else:
        choice = f"Pack by both: tokens are scarcer than {name}"
    return Decision(
        "Second budget",
        choice,
        f"{needs} The command {command}",
        f"Tokens alone: nothing then keeps a pack from holding more than {need.budget:,} {name}.",
    )


# Longer sequences


def _longer_sequences(findings: Findings) -> Decision:
    """Decide the rule for sequences that are longer than a row of the advised length."""
    row = findings.chosen
    rule = findings.overlong
    suspect = _suspect(findings)
    if not row.overlong:
        longest_one = f"The longest sequence has {plural(longest(findings.whole), 'token')}."
        return Decision(
            "Longer sequences",
            "None is longer than a row",
            " ".join(filter(None, [longest_one, suspect])),
            "There is nothing to choose.",
        )
    lost, tokens = findings.lost[rule], findings.whole.num_tokens
    are = "is" if row.tokens_cut == 1 else "are"
    reason = f"{_overlong(findings, row)}, and {plural(row.tokens_cut, 'token')} ({share_of(row.tokens_cut, tokens)}) "
    reason += f"{are} {_DONE[rule]}."
    if rule == "split":
        choice = "Split them into further pieces: no token is lost"
        if lost.labels:
            num_labels = findings.labels.number if findings.labels else 0
            reason += f" {plural(lost.labels, 'label')} of {num_labels:,} ({share_of(lost.labels, num_labels)}) "
            reason += f"{'is' if lost.labels == 1 else 'are'} lost, since nothing predicts the first token of a piece."
    else:
        if row.tokens_cut > LOSSY * tokens:
            # with a second budget sequences can only be dropped
            cure = "take longer rows" if findings.second else "split longer sequences instead (--overlong split)"
            choice = f"{_losses(findings, lost)} are lost: {cure}"
        else:
            verb = {"truncate": "Truncate", "drop": "Drop"}[rule]
            as_asked = ", as you asked" if findings.chose_rule else ""
            choice = f"{verb} them{as_asked}: {_losses(findings, lost)} are lost"
        choice = choice[0].upper() + choice[1:]
        reason += _emptied(lost)
    other_rules = [_other_rule(findings, other_rule) for other_rule in CUT_RULES if other_rule != rule]
    if findings.second:
        other_rules = [f"What a piece of a sequence takes of {findings.second.column} is unknown, so none is cut."]
    return Decision(
        "Longer sequences",
        choice,
        " ".join(filter(None, [reason, suspect])),
        " ".join(filter(None, [*other_rules, _longer_rows(findings)])),
    )


def _overlong(findings: Findings, row: RowLength) -> str:
    """Say how many sequences are longer than these rows: "30 sequences of 1,200 (2.5 %) are longer than 512"."""
    num_sequences = findings.whole.num_sequences
    are = "is" if row.overlong == 1 else "are"
    share = share_of(row.overlong, num_sequences)
    return f"{plural(row.overlong, 'sequence')} of {num_sequences:,} ({share}) {are} longer than {row.max_length:,}"


def _losses(findings: Findings, lost: Lost) -> str:
    """Name the tokens and labels that are lost: "26.0 % of the tokens and 40.0 % of the labels"."""
    losses = f"{share_of(lost.tokens, findings.whole.num_tokens)} of the tokens"
    if lost.labels is not None and findings.labels:
        losses += f" and {share_of(lost.labels, findings.labels.number)} of the labels"
    return losses


def _emptied(lost: Lost) -> str:
    """Say how many sequences have no label left, if there are any."""
    if not lost.emptied:
        return ""
    return f" {plural(lost.emptied, 'sequence')} {'has' if lost.emptied == 1 else 'have'} no label left."


def _other_rule(findings: Findings, rule: CutRule) -> str:
    """Say what another rule for longer sequences would lose, or how many packs it would take."""
    lost = findings.lost[rule]
    if rule == "split":
        pieces = findings.whole.with_max_length(findings.row_length, rule)
        packs = quick_plan(pieces, findings.plan.max_sequences_per_pack).num_packs
        labels_too = f", and loses {plural(lost.labels, 'label')}" if lost.labels else ""
        difference = compared(packs, findings.plan.num_packs, "packs")
        return f"{_RULE[rule]} loses no token{labels_too}: {difference}, {packs:,}."
    return f"{_RULE[rule]} loses {_losses(findings, lost)}.{_emptied(lost)}"


def _longer_rows(findings: Findings) -> str:
    """Say how much less longer rows would cut, if some cut far less than the advised ones."""
    row = cuts_less(findings.row_lengths, findings.chosen, findings.whole.num_tokens)
    if row is None:
        return ""
    share = share_of(row.tokens_cut, findings.whole.num_tokens) if row.tokens_cut else "none"
    share_now = share_of(findings.chosen.tokens_cut, findings.whole.num_tokens)
    if findings.overlong == "split":
        return f"Rows of {row.max_length:,} leave {share} of the tokens to further pieces instead of {share_now}."
    return f"Rows of {row.max_length:,} lose {share} of the tokens instead of {share_now}."


def _suspect(findings: Findings) -> str:
    """Say if the data was cut before its lengths were counted, if a source or a pile at one length tells."""
    upstream, whole = findings.upstream, findings.whole
    if upstream is None:
        if not findings.piled_up[1]:
            return ""
        length, number = findings.piled_up
        return (
            f"But {plural(number, 'sequence')} ({share_of(number, whole.num_sequences)}) have exactly {length:,} "
            "tokens, far more than any length near it: they may have been cut before they were counted. How many "
            "tokens that lost, only their lengths from before it can tell (--source)."
        )
    source = upstream.source
    sizes = (
        f"It has {plural(source.num_sequences, 'sequence')} and {plural(source.num_tokens, 'token')}, and the data has "
        f"{whole.num_sequences:,} and {whole.num_tokens:,}"
    )
    if upstream.overlong <= upstream.left:
        return (
            f"The source has no more sequences longer than {upstream.longest:,} than the data, so none was cut "
            f"before. {sizes}."
        )
    if upstream.lost > 0:
        sizes += f", {upstream.lost:,} ({share_of(upstream.lost, source.num_tokens)}) fewer"
    return (
        f"In the source, {plural(upstream.overlong, 'sequence')} ({share_of(upstream.overlong, source.num_sequences)}) "
        f"{'is' if upstream.overlong == 1 else 'are'} longer than {upstream.longest:,}, and in the data "
        f"{upstream.left:,}. {sizes}. All tokens of the source take "
        f"{compared(upstream.packs, findings.plan.num_packs, 'packs')}, {upstream.packs:,}, and its longest sequence "
        f"takes a row of {longest(source):,}."
    )


# The rows


def _row_length(findings: Findings) -> Decision:
    """Decide the row length."""
    now, row, form = findings.now, findings.chosen, findings.form
    best = choose(findings.row_lengths, findings.max_length, form)
    rows = allowed(findings.row_lengths, findings.max_length)
    choice = f"Keep rows of {now.max_length:,} tokens"
    reason = (
        f"With {_IN_FORM[form]}, this is the shortest row within {share_of(WORTH)} of the least work per token, of "
        f"{len(rows)} lengths tried that {_cut_no_more(findings)}."
    )
    if len(rows) == 1:
        lengths = plural(len(findings.row_lengths), "length")
        reason = f"It is the only one of {lengths} tried that {_cut_no_more(findings, 1)}."
    if row is not now:
        choice = f"Take rows of {row.max_length:,} tokens instead of {now.max_length:,}"
        fullness, fullness_now = share_of(1 / row.slots_a_token), share_of(1 / now.slots_a_token)
        as_now = ", as those are" if fullness == fullness_now else f" instead of {fullness_now}"
        work = work_compared(row.work(form), now.work(form))
        reason += (
            f" A token takes {work} {than_or_as(work)} in rows of {now.max_length:,}, and rows are {fullness} full"
            f"{as_now}."
        )
        if now.tokens_cut > row.tokens_cut:
            reason += _cut_now(findings)
    elif findings.keeps_length and best is not now:
        reason = "You asked to keep them (--keep-max-length)."
        if findings.second:
            second = f"{findings.second.budget:,} {findings.second.column}"
            reason = f"The second budget, {second}, is one of rows of this length."
    runner_up = next_best(findings.row_lengths, findings.max_length, form, row)
    return Decision("Row length", choice, reason, _other_row(findings, runner_up))


def _cut_now(findings: Findings) -> str:
    """Say how much less the longer rows cut than today's."""
    now, row, tokens = findings.now, findings.chosen, findings.whole.num_tokens
    loss_now = share_of(now.tokens_cut, tokens)
    loss = share_of(row.tokens_cut, tokens) if row.tokens_cut else "none"
    if findings.overlong == "split":
        return f" They leave {loss} of the tokens to further pieces instead of {loss_now}."
    if labels := _labels_lost(findings, now):
        loss_now += f" and {labels}"
    return f" They lose {loss} of the tokens; rows of {now.max_length:,} lose {loss_now}."


def _cut_no_more(findings: Findings, lengths: int = 2) -> str:
    """Say, with a verb for one or for several lengths, that the allowed ones cut no more tokens than today's rows."""
    is_split = findings.overlong == "split"
    if not findings.now.tokens_cut:
        return "holds every sequence whole" if lengths == 1 else "hold every sequence whole"
    if lengths == 1:
        return f"{'splits' if is_split else 'loses'} so few tokens"
    return f"{'split' if is_split else 'lose'} no more tokens than rows of {findings.max_length:,}"


def _other_row(findings: Findings, other: RowLength | None) -> str:
    """Compare the next best row length with the advised one; None stands for no other."""
    row, form = findings.chosen, findings.form
    if other is None:
        verb = "splits" if findings.overlong == "split" else "loses"
        return f"None: every other length that was tried {verb} more tokens."
    work = work_compared(other.work(form), row.work(form))
    if other.tokens == row.tokens:
        slots = compared(other.slots, row.slots, "slots")
    else:
        slots = compared(other.slots_a_token, row.slots_a_token, "slots")
    return f"{other.max_length:,} tokens: {work} per token, and {slots}."


def _method(findings: Findings) -> Decision:
    """Decide the method, and say how far its packs are from the minimum."""
    plan, depth = findings.plan, findings.plan.max_sequences_per_pack
    choice = f"Pack with {_KNOWN_AS.get(plan.method, plan.method)}: {plural(plan.num_packs, 'pack')}"
    at_depth = ""
    if depth is not None:
        choice += f" with at most {plural(depth, 'sequence')} in a pack"
        at_depth = " at this depth"
    basis = " (a list of packs shows this, which rests on HiGHS in floating point)" if plan.listed else ""
    reason = f"The packs are {share_of(plan.efficiency)} full. "
    if plan.gap:
        reason += f"At least {plan.lower_bound:,} are needed{at_depth}{basis}, so at most "
        reason += f"{share_of(plan.gap, plan.num_packs)} could still be saved."
    else:
        reason += f"This is the proven minimum{at_depth}{basis}."
    if findings.depths and not findings.limit:
        reason += (
            " The model has something once for each sequence, and this is the smallest depth tried within half a "
            f"percent of the {plural(findings.depths[-1].packs, 'pack')} of a deeper one."
        )
    runner_up = findings.plans[1]
    packs = compared(runner_up.num_packs, plan.num_packs, "packs")
    return Decision(
        "Method",
        choice,
        reason,
        f"{_KNOWN_AS.get(runner_up.method, runner_up.method)}: {packs}, {runner_up.num_packs:,}.",
    )


# The update


def _packs_per_update(findings: Findings) -> Decision:
    """Decide how many packs an update takes."""
    if findings.fit and not findings.fit.rows:
        return _no_pack_fits(findings)
    return _divided(findings) if findings.update is None else _fitted(findings, findings.update)


def _divided(findings: Findings) -> Decision:
    """Decide by which number to divide the sequences of an update, if today's update is not known."""
    factor, packs = findings.plan.packing_factor, findings.plan.num_packs
    choice = f"Divide the sequences of today's update by {factor:,.2f}"
    if factor < 1.005:
        choice = "Take as many packs as an update has sequences today"
    reason = f"A pack holds {factor:,.2f} sequences on average{_pieces(findings)}. Learning rate and betas stay. "
    reason += f"There are {packs:,} packs." if packs > 1 else "There is 1 pack."
    return Decision(
        "Packs per update",
        choice + _on_devices(findings),
        reason + _memory(findings),
        "--batch-size and --accumulation, or --recipe, say what an update is today: then its packs are counted here.",
    )


def _pieces(findings: Findings) -> str:
    """Say that pieces count as sequences, if sequences are split."""
    are_split = findings.overlong == "split" and findings.chosen.overlong
    return " (a piece of a longer one counts as a sequence)" if are_split else ""


def _on_devices(findings: Findings) -> str:
    """Say on how many devices, if on several; and why, if on more than today."""
    if findings.replicas == 1:
        return ""
    devices = f" on {findings.replicas:,} devices"
    if findings.replicas == findings.devices:
        return devices
    too_few = "one does not" if findings.devices == 1 else f"{findings.devices:,} do not"
    return f"{devices}, since {too_few} hold the model"


def _fitted(findings: Findings, update: PackedUpdate) -> Decision:
    """Decide micro batch and accumulation, if today's update is known."""
    after, before = update.after, update.before
    choice = f"Take {after.micro_batch:,} × {after.gradient_accumulation_steps:,} packs{_on_devices(findings)}"
    if findings.plan.num_packs < after.replicas:
        choice = f"{_the_packs(findings.plan.num_packs).capitalize()} for {after.replicas:,} devices: too few"
        reason = "Each device needs one pack at least for an update. Take fewer devices."
    elif update.all_packs:
        all_packs = "all packs that the devices share equally" if findings.left_out else "all packs"
        reason = (
            f"Today's update has {_average(before.sequences_per_update)} sequences, and one pass over the data has "
            f"{findings.histogram.num_sequences:,}{_pieces(findings)}: an update takes {all_packs}. Learning rate and "
            "betas stay."
        )
    else:
        reason = (
            f"An update has {after.sequences_per_update:,.1f} sequences instead of "
            f"{_average(before.sequences_per_update)} ({signed(update.off)}){_pieces(findings)}"
            f"{_recipe_stays(findings, update)}"
        )
    return Decision(
        "Packs per update",
        choice,
        f"{reason} {_passes(findings)}{_memory(findings)}",
        _other_update(findings, update),
    )


def _average(sequences: float) -> str:
    """Write a whole number without decimals, another with one."""
    return f"{sequences:,.{0 if sequences == round(sequences) else 1}f}"


def _recipe_stays(findings: Findings, update: PackedUpdate) -> str:
    """Say if learning rate and betas stay or, if a recipe is known, what the betas become."""
    recipe, packed = findings.recipe, findings.packed_recipe
    if abs(update.off) <= MATTERS:
        return ", so learning rate and betas stay."
    if recipe is None or packed is None:
        return "; learning rate and betas stay."
    changes = f"; the betas {_betas(recipe)} become {_betas(packed)}." if packed.betas != recipe.betas else "."
    return f"{changes} {EVIDENCE[recipe.optimizer]}"


def _betas(recipe: Recipe) -> str:
    """Write both betas of a recipe."""
    return "{:.5g} and {:.5g}".format(*recipe.betas)


def _passes(findings: Findings) -> str:
    """Say how many updates the training has, and how many packs are in none of them."""
    updates = findings.updates or 0
    left_out = f", without the last {_the_last(findings.left_out)}" if findings.left_out else ""
    if findings.recipe and findings.packed_recipe:
        updates_now, updates_packed = findings.recipe.total_steps, findings.packed_recipe.total_steps
        return (
            f"One pass over the data takes {plural(updates, 'update')}{left_out}, and the recipe's "
            f"{plural(findings.recipe.total_sequences, 'sequence')} take {updates_packed:,} instead of {updates_now:,}."
            f"{_before_the_split(findings, findings.recipe)}"
        )
    if findings.epochs == 1:
        return f"One epoch takes {plural(updates, 'update')}{left_out}."
    return f"{findings.epochs:,} epochs take {updates * findings.epochs:,} updates, {updates:,} each{left_out}."


def _before_the_split(findings: Findings, recipe: Recipe) -> str:
    """Say what a recipe's total is if it counts sequences before the split, where some are split."""
    if not _pieces(findings):
        return ""
    pieces, whole = findings.histogram.num_sequences, findings.whole.num_sequences
    total_with_pieces = round(recipe.total_sequences * pieces / whole)
    return (
        f" The data has {whole:,} sequences and, split, {pieces:,}: if the recipe counts them before the split, its "
        f"total is {total_with_pieces:,} here."
    )


def _the_last(packs: int) -> str:
    """Write "pack" or "3 packs"."""
    return "pack" if packs == 1 else f"{packs:,} packs"


def _memory(findings: Findings) -> str:
    """Say how many packs fit into the memory or, if that is unknown, into the slots of today's batch."""
    fit, memory, update = findings.fit, findings.memory, findings.update
    if fit is None or memory is None:
        if update is None:
            return ""
        batch = f"the {findings.today.slots_a_batch:,.0f} slots of an average batch today"
        if findings.today.slots_a_batch < findings.row_length:
            return f" One pack alone is more than {batch}."
        packs_fit = "1 pack fits" if update.most == 1 else f"Up to {update.most:,} packs fit"
        return f" {packs_fit} into {batch}."
    packs = update.after.micro_batch if update else 1
    take = "takes" if packs == 1 else "take"
    usable, of_room = _usable(fit)
    sentence = f" {plural(packs, 'pack')} {take} about {gigabytes(memory.total)} of the usable {usable} {of_room}"
    if fit.recompute:
        sentence += " with each layer computed twice"
    if fit.shards > 1:
        sentence += " and" if fit.recompute else " with"
        sentence += f" weights, gradients and moments shared by {fit.shards:,} devices (FSDP)"
    sentence += f", and at most {plural(fit.rows, 'pack')} {'fits' if fit.rows == 1 else 'fit'}."
    return sentence + _one_device(findings)


def _usable(fit: Fit) -> tuple[str, str]:
    """Write the memory of a device that can be used, and which share of its memory that is."""
    return gigabytes(USABLE * fit.room), f"({100 * USABLE:.0f} % of {gigabytes(fit.room)})"


def _one_device(findings: Findings) -> str:
    """Say what training on today's devices would take, if they do not hold the model."""
    shape, fit = findings.shape, findings.fit
    if shape is None or fit is None or fit.shards <= findings.devices:
        return ""
    memory = shape.memory(1, findings.row_length, shards=findings.devices, recompute=True)
    devices = "One device is" if findings.devices == 1 else f"{findings.devices:,} devices are"
    on_each = "" if findings.devices == 1 else " on each"
    return (
        f" {devices} not enough: weights, gradients and moments take {gigabytes(memory.states)}{on_each}, and one pack "
        f"takes {gigabytes(memory.activations)} more even with each layer computed twice. Without more devices, train "
        f"adapters (LoRA), whose frozen weights take {gigabytes(2 * shape.parameters)} in 16 bits, or keep gradients "
        "and moments in main memory (offloading)."
    )


def _no_pack_fits(findings: Findings) -> Decision:
    """Say that no row of the advised length fits into the memory, and which would."""
    fit, shape = findings.fit, findings.shape
    assert fit is not None and shape is not None
    packs = ""
    if findings.update:
        batch = findings.update.after
        packs = (
            f" Then {batch.micro_batch:,} × {batch.gradient_accumulation_steps:,} packs have "
            f"{batch.sequences_per_update:,.1f} sequences, {signed(findings.update.off)} against today."
        )
    one_pack = shape.memory(1, findings.row_length, shards=MOST_DEVICES, recompute=True)
    usable, of_room = _usable(fit)
    return Decision(
        "Packs per update",
        "Not even one pack fits",
        f"Even if {MOST_DEVICES:,} devices share weights, gradients and moments, and each layer is computed twice, one "
        f"pack of {findings.row_length:,} tokens takes about {gigabytes(one_pack.total)}, and {usable} are usable "
        f"{of_room}: several devices have to share a row.{packs}",
        f"Shorter rows: one of at most {fit.longest:,} tokens fits, if enough devices share weights, gradients and "
        "moments (FSDP).",
    )


def _other_update(findings: Findings, update: PackedUpdate) -> str:
    """Describe the next best micro batch and accumulation; without one, shorter rows."""
    if findings.plan.num_packs < update.after.replicas:
        return f"Train on {plural(findings.plan.num_packs, 'device')}, with one pack each."
    if update.runner_up:
        micro_batch, accumulation = update.runner_up
        passes = "the same number of forward passes per update"
        if accumulation != update.after.gradient_accumulation_steps:
            steps = update.after.gradient_accumulation_steps
            passes = f"{plural(accumulation, 'forward pass')} per update instead of {steps:,}"
        sequences = compared(1 + update.off_with(micro_batch, accumulation), 1.0, "sequences")
        return f"{micro_batch:,} × {accumulation:,}: {sequences}, and {passes}."
    if update.exact or update.all_packs:
        return "There is no other."
    # Even one pack per device has too many sequences for an update: packs of this many tokens have the right number.
    tokens = int(update.before.sequences_per_update / update.after.replicas * findings.histogram.mean_length)
    most = longest(findings.histogram)
    if tokens < most:
        if findings.chosen.overlong:
            cost = "split sequences into more pieces" if findings.overlong == "split" else "lose more tokens"
            return f"There is none: shorter rows for that would {cost}."
        return f"There is none: shorter rows for that would cut sequences, which have up to {most:,} tokens."
    return f"Shorter rows: one of {tokens:,} tokens holds about the same number of sequences as an update today."


# Beside the decisions


def loss(findings: Findings) -> str:
    """Say how many of the packed tokens are trained on, if the data says which are."""
    if findings.trained is None or findings.labels is None:
        return ""
    if not findings.gains:  # today's rows stay
        trained = findings.labels.kept(findings.max_length, findings.overlong)
        share = share_of(trained, findings.padded.num_tokens)
        return f"{share} of the tokens in today's rows ({trained:,}) are trained on, as labels or masks say."
    part = findings.trained / findings.histogram.num_tokens
    sentence = f"{share_of(part)} of the packed tokens ({findings.trained:,}) are trained on, as labels or masks say"
    if (tokens := findings.tokens_an_update) is None:
        return f"{sentence}."
    return f"{sentence}, so the loss of an update sees about {part * tokens:,.0f} of its {tokens:,.0f} tokens."


def notes(findings: Findings) -> tuple[str, ...]:
    """Return further findings, a paragraph each; those about packs only if packing gains something."""
    if not findings.gains:
        return tuple(filter(None, [_positions_note(findings), _kind_note(findings)]))
    paragraphs = [
        _attention_note(findings),
        _memory_note(findings),
        _positions_note(findings),
        _waiting_note(findings),
    ]
    if not findings.depths and findings.plan.deepest > 1:
        paragraphs.append(
            f"A pack holds up to {plural(findings.plan.deepest, 'sequence')}. You need a limit only if the model has "
            "something once for each sequence, such as BERT's pooler."
        )
    return tuple(filter(None, [*paragraphs, _kind_note(findings)]))


def _kind_note(findings: Findings) -> str:
    """Say that the lengths were not measured, if they were not."""
    if findings.whole.kind == "measured":
        return ""
    kind = "a reconstruction" if findings.whole.kind == "reconstruction" else findings.whole.kind
    return f"The lengths are {kind}: count your own before you rely on the last digit."


def _attention_note(findings: Findings) -> str:
    """Say which form of attention to use, and how much work it saves."""
    basis = f"(counted in FLOP, for {findings.shape.name if findings.shape else 'Llama 3 8B'})"
    work = work_compared(1 - findings.skipping_saves, 1)
    bounds, dense = (findings.best_row(form).max_length for form in FORMS)
    if findings.form == "bounds":
        rows = "the same rows" if bounds == dense else f"rows of {dense:,}, the best ones for it"
        return (
            "Use attention that skips pairs of different sequences (flash_attention_2, on a GPU): "
            f"a token takes {work} in the layers {than_or_as(work)} with a dense mask in {rows} {basis}."
        )
    rows = "in the same rows" if bounds == dense else f"in rows of {bounds:,}, the best ones for it"
    return (
        "Use scaled_dot_product_attention with a dense mask. A kernel that skips pairs of different sequences is not "
        f"worth its trouble: {rows}, a token takes {work} in the layers with it {basis}."
    )


def _memory_note(findings: Findings) -> str:
    """Say what the micro batch takes of the memory, if the model is known."""
    shape, memory = findings.shape, findings.memory
    if shape is None or memory is None:
        return ""
    packs = findings.update.after.micro_batch if findings.update else 1
    return (
        f"{shape.name} has {shape.parameters / 1e9:.3g} billion weights. With {plural(packs, 'pack')} of "
        f"{findings.row_length:,} tokens it takes {gigabytes(memory.states)} for weights, gradients and AdamW's "
        f"moments, and {gigabytes(memory.activations)} for activations. This is an estimate for bf16=True and a kernel "
        "that stores no attention scores."
    )


def _positions_note(findings: Findings) -> str:
    """Warn of sequences that are longer than the model's positions, if there are any."""
    positions, tokens = findings.shape.positions if findings.shape else None, longest(findings.histogram)
    if not positions or tokens <= positions:
        return ""
    return (
        f"The longest sequence has {tokens:,} tokens, and the model only {positions:,} positions: take rows of at most "
        f"{positions:,} (--max-length)."
    )


def _waiting_note(findings: Findings) -> str:
    """Say how long replicas wait for the slowest, if that was estimated."""
    waits, update = findings.waiting, findings.update
    if waits is None or update is None:
        return ""
    replicas = update.after.replicas
    packs_per_rank = update.after.micro_batch * update.after.gradient_accumulation_steps
    return (
        f"If the packs are assigned at random to {replicas:,} replicas, which meet once per update, the average "
        f"replica waits {share_of(waits.mean)} of the time for the slowest (95 % interval: {share_of(waits.low)} to "
        f"{share_of(waits.high)}). This is an estimate for {findings.work.in_words}, without padding, communication "
        f"and loading. packlib.balance(packs, ranks={replicas}, packs_per_rank={packs_per_rank}) assigns them "
        "evenly, and says how much waiting remains, as notebook 13_balanced_work shows."
    )


def rows_note(findings: Findings) -> str:
    """Say how the table of row lengths was made."""
    with_best = "with optimal" if findings.thorough else "with the best of the fast methods"
    sentences = f"Packed with lpfhp; today's and the best row length {with_best}"
    if not findings.thorough and (findings.limit or not findings.depths):
        sentences += ", and the advised one as plan does by default, which may search"
    sentences += ". For the other row lengths, a search may find fewer packs. "
    if any(row.rounded for row in findings.row_lengths):
        tables = "the tables of row lengths and of depths" if findings.depths else "the table of row lengths"
        sentences += f"Very many lengths differ, so for {tables} they were rounded up by less than 0.1 %. "
    return sentences + (
        f"Work is counted in FLOP of the layers of {findings.shape.name if findings.shape else 'Llama 3 8B'}, relative "
        f"to rows of {findings.max_length:,} with attention that reads the bounds of sequences."
    )


def code_note(findings: Findings) -> str:
    """Say how to use the code on the page."""
    names = ["dataset", "folder (of the model)", "tokenizer (for TRL)"]
    names += ["learning_rate"] * (findings.recipe is None) + ["sequences_per_update"] * (findings.update is None)
    sentences = (
        f"Each trainer's code follows the first two parts, and takes as given: {', '.join(names)}. It runs on a GPU or "
        "a CPU, and is in advice.json too."
    )
    if findings.second:
        sentences += " plan.json counts tokens alone; the code packs both budgets without it."
    if findings.fit and not findings.fit.rows:
        sentences += " It fits into no device's memory before several share a row."
    return sentences


def about_data(whole: LengthHistogram) -> str:
    """Describe the data in one line."""
    sentence = f"{plural(whole.num_sequences, 'sequence')} of {whole.mean_length:,.1f} tokens on average, "
    sentence += f"{plural(whole.num_tokens, 'token')} in all"
    return f"{sentence}; {whole.source}." if whole.source else f"{sentence}."


WHAT_IS_COUNTED = (
    "Packs, slots and tokens are counted. Memory is an estimate, and so are the slots of batches and packs that are "
    "made in random order. Fewer slots save time only if the device, and not data loading, is the bottleneck."
)
