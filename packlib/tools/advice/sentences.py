"""What the report says: each decision in a sentence with its reason and the next best, and notes behind the fold."""

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
_KNOWN_AS = {"lpfhp": "lpfhp (best fit decreasing)", "optimal": "optimal (a search)"}
_RULE: dict[CutRule, str] = {"truncate": "Truncating them", "drop": "Dropping them", "split": "Splitting them"}
_DONE: dict[CutRule, str] = {"truncate": "cut off", "drop": "left out", "split": "moved to further pieces"}


class Decision(NamedTuple):
    """One decision, its reason, and the cost of the next best choice."""

    about: str
    choice: str
    reason: str
    runner_up: str


def decide(findings: Findings) -> tuple[Decision, ...]:
    """Write the decisions in their order; first, if over 2 % of the tokens are beyond the rows, what becomes of them.

    If there is nothing to gain, that is the only one.
    """
    second = () if findings.second is None else (_second_budget(findings, findings.second),)
    if not findings.gains:
        return (_nothing_to_gain(findings), *second)
    longer = _longer_sequences(findings)
    after_loss = [_pack(findings), _row_length(findings), _method(findings), _packs_per_update(findings)]
    lossy = LOSSY * findings.whole.num_tokens
    if findings.chosen.tokens_cut > lossy:
        decisions = (longer, *after_loss)
    elif findings.now.tokens_cut > lossy:  # longer rows are what ends the loss
        pack, row_length, *method_and_update = after_loss
        decisions = (row_length, pack, longer, *method_and_update)
    else:
        decisions = (*after_loss[:2], longer, *after_loss[2:])
    is_scarcer = findings.second is not None and findings.second.lower_bound > findings.second.by_tokens
    return (*second, *decisions) if is_scarcer else (*decisions, *second)


# To pack or not


def _pack(findings: Findings) -> Decision:
    today, saved = findings.today, findings.today.slots - findings.slots_of_same
    verb = "takes" if findings.plan.num_packs == 1 else "take"
    fewer = f"Pack them: {share_of(saved, today.slots)} fewer slots"
    return Decision(
        "Your batches",
        f"{fewer}, {large(findings.slots)} instead of {large(today.slots)}"
        if findings.same_tokens
        else f"{fewer} for each token that is kept",
        f"For one pass, {today.as_subject} take {large(today.slots)} slots{_held(findings, findings.padded)}"
        f"{_assumed(findings) if today.sized else ''}, and {plural(findings.plan.num_packs, 'pack')} of "
        f"{findings.row_length:,} {verb} {large(findings.slots)}{_held(findings, findings.histogram)}.",
        _other_habit(findings),
    )


def _held(findings: Findings, rows: LengthHistogram) -> str:
    """Say for how many tokens slots are, where today's rows and the packs hold another number of them."""
    return "" if findings.same_tokens else f" for {plural(rows.num_tokens, 'token')}"


def _assumed(findings: Findings) -> str:
    return " (32 is an assumption; --batch-size says yours)" if findings.assumed else ""


def _other_habit(findings: Findings) -> str:
    """Compare the packs with sorted batches; with random ones, if batches are sorted today."""
    compared_with = next((batches for batches in findings.habits if batches.habit == "sorted"), findings.habits[0])
    slots = f"{compared_with.as_subject} take {_than(compared_with.slots, findings.slots_of_same)} the packs"
    slots += f", {large(compared_with.slots)}" if findings.same_tokens else " for each token that is kept"
    slots = f"{slots[0].upper()}{slots[1:]}{'' if findings.today.sized else _assumed(findings)}."
    if compared_with.habit != "sorted":
        return slots
    if compared_with.batches == 1:
        return f"{slots} One batch has all sequences."
    if compared_with.batch_size == 1:
        return f"{slots} They need no mask, but each sequence is then a forward pass of its own."
    narrow, wide = _widths(findings.padded, compared_with.batch_size)
    widths = f"a whole batch takes {f'{narrow:,} to ' if narrow < wide else ''}{wide:,} slots"
    return (
        f"{slots} They need no mask, but each batch then has sequences of nearly one length, so updates no longer mix "
        f"lengths, and {widths}."
    )


def _than(value: float, base: float) -> str:
    difference = compared(value, base, "slots")
    return f"{difference} {than_or_as(difference)}"


def _widths(padded: LengthHistogram, size: int) -> tuple[int, int]:
    """Count the slots of the narrowest and of the widest of two or more whole batches of sorted sequences."""
    sequences_up_to = np.cumsum(padded.counts)
    in_whole_batches = padded.num_sequences // size * size
    narrow, wide = (int(np.searchsorted(sequences_up_to, rank)) for rank in (size, in_whole_batches))
    return size * narrow, size * wide


def _nothing_to_gain(findings: Findings) -> Decision:
    today, slots = findings.today, findings.slots
    more_slots = findings.slots_of_same - today.slots
    if not findings.same_tokens:
        difference = _than(findings.slots_of_same, today.slots)
        against = f"{large(slots)}{_held(findings, findings.histogram)}, {difference} today for each token"
    elif more_slots:
        against = f"{large(slots)}, {share_of(abs(more_slots), today.slots)} {'more' if more_slots > 0 else 'fewer'}"
    else:
        against = "the same number"
    too_little = f" For less than {share_of(WORTH)} nobody changes a trainer." if more_slots <= 0 else ""
    suspect = _suspect(findings)
    if findings.padding_suffices:
        random = next(batches for batches in findings.habits if batches.habit == "random")
        packs = plural(findings.plan.num_packs, "pack")
        return Decision(
            "Your batches",
            "Do not pack: pad each batch to its longest sequence, not to the row length",
            f"For one pass, {today.in_words} take {large(today.slots)} slots{_held(findings, findings.padded)}, "
            f"{random.as_subject} take {large(random.slots)}{_assumed(findings)}, and {packs} of "
            f"{findings.row_length:,} would take {large(slots)}{_held(findings, findings.histogram)}."
            f"{_loss_of_now(findings)}{suspect and ' ' + suspect}",
            f"Pack, if every batch must have one shape: plan.json has {_the_packs(findings.plan.num_packs)}.",
        )
    return Decision(
        "Your batches",
        "Nothing to gain: do not pack",
        f"For one pass, {today.as_subject} take {large(today.slots)} slots{_held(findings, findings.padded)}"
        f"{_assumed(findings) if today.sized else ''}, and {plural(findings.plan.num_packs, 'pack')} of "
        f"{findings.row_length:,} would take {against}."
        f"{too_little}{_loss_of_now(findings)}{suspect and ' ' + suspect}",
        f"Pack all the same: plan.json has {_the_packs(findings.plan.num_packs)}.",
    )


def _the_packs(number: int) -> str:
    return "the pack" if number == 1 else f"the {number:,} packs"


def _loss_of_now(findings: Findings) -> str:
    """Say how many tokens and labels today's rows lose or cut off; empty if no sequence is too long."""
    row, rule = findings.now, findings.overlong
    if not row.overlong:
        return ""
    tokens = f"{plural(row.tokens_cut, 'token')} ({share_of(row.tokens_cut, findings.whole.num_tokens)})"
    verb = "is" if row.tokens_cut == 1 else "are"
    labels = _labels_lost(findings, row)
    lossy = rule != "split" and row.tokens_cut > LOSSY * findings.whole.num_tokens
    cure = " Split longer sequences instead (--overlong split)." if lossy and findings.second is None else ""
    return f" {_how_many(findings, row)}, and {tokens}{labels and f' with {labels}'} {verb} {_DONE[rule]}.{cure}"


def _labels_lost(findings: Findings, row: RowLength) -> str:
    """Say which share of the labels rows of a length lose; empty if no token is lost, or labels are not known."""
    if findings.labels is None or findings.overlong == "split":
        return ""
    number = findings.labels.number
    return f"{share_of(number - findings.labels.kept(row.max_length, findings.overlong), number)} of the labels"


# A second budget


def _second_budget(findings: Findings, need: SecondNeed) -> Decision:
    """Decide which of two budgets is scarcer, and say how many packs the other decisions, by tokens, leave out."""
    name = need.column
    needs = f"{name} alone need at least {plural(need.lower_bound, 'pack')} of {need.budget:,}, and tokens alone "
    needs += f"{need.by_tokens:,} of {findings.row_length:,}."
    needs = f"{needs[0].upper()}{needs[1:]}"
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
    row = findings.chosen
    rule = findings.overlong
    suspect = _suspect(findings)
    if not row.overlong:
        return Decision(
            "Longer sequences",
            "None is longer than a row",
            f"The longest sequence has {plural(longest(findings.whole), 'token')}.{suspect and ' ' + suspect}",
            "There is nothing to choose.",
        )
    lost, tokens = findings.lost[rule], findings.whole.num_tokens
    reason = f"{_how_many(findings, row)}, and {plural(row.tokens_cut, 'token')} ({share_of(row.tokens_cut, tokens)}) "
    reason += f"{'is' if row.tokens_cut == 1 else 'are'} {_DONE[rule]}."
    if rule == "split":
        choice = "Split them into further pieces: no token is lost"
        if lost.labels:
            number = findings.labels.number if findings.labels else 0
            reason += f" {plural(lost.labels, 'label')} of {number:,} ({share_of(lost.labels, number)}) "
            reason += f"{'is' if lost.labels == 1 else 'are'} lost, since nothing predicts the first token of a piece."
    else:
        choice = {"truncate": "Truncate", "drop": "Drop"}[rule]
        choice += f" them{', as you asked' if findings.asked else ''}: {_loses(findings, lost)} lost"
        if row.tokens_cut > LOSSY * tokens:
            cure = "take longer rows" if findings.second else "split longer sequences instead (--overlong split)"
            choice = f"{_loses(findings, lost)} lost: {cure}"
        choice = choice[0].upper() + choice[1:]
        reason += _emptied(lost)
    other_rules = [_other_rule(findings, other_rule) for other_rule in CUT_RULES if other_rule != rule]
    if findings.second:
        other_rules = [f"What a piece of a sequence takes of {findings.second.column} is unknown, so none is cut."]
    return Decision(
        "Longer sequences",
        choice,
        reason + (suspect and " " + suspect),
        " ".join([*other_rules, *filter(None, [_longer_rows(findings)])]),
    )


def _how_many(findings: Findings, row: RowLength) -> str:
    overlong, sequences = row.overlong, findings.whole.num_sequences
    verb = "is" if overlong == 1 else "are"
    share = share_of(overlong, sequences)
    return f"{plural(overlong, 'sequence')} of {sequences:,} ({share}) {verb} longer than {row.max_length:,}"


def _loses(findings: Findings, lost: Lost) -> str:
    """Name the tokens and labels that are lost, with a verb: "26.0 % of the tokens and 40.0 % of the labels are"."""
    losses = f"{share_of(lost.tokens, findings.whole.num_tokens)} of the tokens"
    if lost.labels is not None and findings.labels:
        losses += f" and {share_of(lost.labels, findings.labels.number)} of the labels"
    return f"{losses} are"


def _emptied(lost: Lost) -> str:
    if not lost.emptied:
        return ""
    return f" {plural(lost.emptied, 'sequence')} {'has' if lost.emptied == 1 else 'have'} no label left."


def _other_rule(findings: Findings, rule: CutRule) -> str:
    lost = findings.lost[rule]
    if rule == "split":
        pieces = findings.whole.with_max_length(findings.row_length, rule)
        packs = quick_plan(pieces, findings.plan.max_sequences_per_pack).num_packs
        labels_too = f", and loses {plural(lost.labels, 'label')}" if lost.labels else ""
        difference = compared(packs, findings.plan.num_packs, "packs")
        return f"{_RULE[rule]} loses no token{labels_too}: {difference}, {packs:,}."
    losses = _loses(findings, lost).removesuffix(" are")
    return f"{_RULE[rule]} loses {losses}.{_emptied(lost)}"


def _longer_rows(findings: Findings) -> str:
    row = cuts_less(findings.row_lengths, findings.chosen, findings.whole.num_tokens)
    if row is None:
        return ""
    share = share_of(row.tokens_cut, findings.whole.num_tokens) if row.tokens_cut else "none"
    share_now = share_of(findings.chosen.tokens_cut, findings.whole.num_tokens)
    if findings.overlong == "split":
        return f"Rows of {row.max_length:,} leave {share} of the tokens to further pieces instead of {share_now}."
    return f"Rows of {row.max_length:,} lose {share} of the tokens instead of {share_now}."


def _suspect(findings: Findings) -> str:
    """Say what shows that the data was, or was not, cut before its lengths were counted; empty without a hint."""
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
        fullness, fullness_now = (share_of(1 / rows.slots_a_token) for rows in (row, now))
        reason += (
            f" A token takes {_work_off(row, now, form)} rows of {now.max_length:,}, and rows are {fullness} full"
            f"{f' instead of {fullness_now}' if fullness != fullness_now else ', as those are'}."
        )
        if now.tokens_cut > row.tokens_cut:
            reason += _cut_now(findings)
    elif findings.kept and best is not now:
        reason = "You asked to keep them (--keep-max-length)."
        if findings.second:
            second = f"{findings.second.budget:,} {findings.second.column}"
            reason = f"The second budget, {second}, is one of rows of this length."
    runner_up = next_best(findings.row_lengths, findings.max_length, form, row)
    return Decision("Row length", choice, reason, _other_row(findings, runner_up))


def _cut_now(findings: Findings) -> str:
    """Say how much less the longer rows cut than today's."""
    now, row, tokens = findings.now, findings.chosen, findings.whole.num_tokens
    loss_now, loss = (share_of(length.tokens_cut, tokens) if length.tokens_cut else "none" for length in (now, row))
    if findings.overlong == "split":
        return f" They leave {loss} of the tokens to further pieces instead of {loss_now}."
    labels = _labels_lost(findings, now)
    return f" They lose {loss} of the tokens; rows of {now.max_length:,} lose {loss_now}{labels and f' and {labels}'}."


def _cut_no_more(findings: Findings, lengths: int = 2) -> str:
    """Say what the lengths have in common that could be taken, as what one or several of them do."""
    s = "s" if lengths == 1 else ""
    if not findings.now.tokens_cut:
        return f"hold{s} every sequence whole"
    if lengths == 1:
        return f"{'splits' if findings.overlong == 'split' else 'loses'} so few tokens"
    return f"{'split' if findings.overlong == 'split' else 'lose'} no more tokens than rows of {findings.max_length:,}"


def _work_off(row: RowLength, other: RowLength, form: Form) -> str:
    difference = work_compared(row.work(form), other.work(form))
    return f"{difference} {than_or_as(difference)} in"


def _other_row(findings: Findings, other: RowLength | None) -> str:
    if other is None:
        verb = "splits" if findings.overlong == "split" else "loses"
        return f"None: every other length that was tried {verb} more tokens."
    work = work_compared(other.work(findings.form), findings.chosen.work(findings.form))
    return f"{other.max_length:,} tokens: {work} per token, and {_slots_off(other, findings.chosen)}."


def _slots_off(row: RowLength, base: RowLength) -> str:
    if row.tokens == base.tokens:
        return compared(row.slots, base.slots, "slots")
    return compared(row.slots_a_token, base.slots_a_token, "slots")


def _method(findings: Findings) -> Decision:
    plan, depth = findings.plan, findings.plan.max_sequences_per_pack
    choice = f"Pack with {_KNOWN_AS.get(plan.method, plan.method)}: {plural(plan.num_packs, 'pack')}"
    at_depth = ""
    if depth is not None:
        choice += f" with at most {plural(depth, 'sequence')} in a pack"
        at_depth = " at this depth"
    rests = " (a list of packs shows this, which rests on HiGHS in floating point)" if plan.listed else ""
    reason = f"The packs are {share_of(plan.efficiency)} full. "
    if plan.gap:
        reason += f"At least {plan.lower_bound:,} are needed{at_depth}{rests}, so at most "
        reason += f"{share_of(plan.gap, plan.num_packs)} could still be saved."
    else:
        reason += f"This is the proven minimum{at_depth}{rests}."
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
    if findings.fit and not findings.fit.rows:
        return _no_pack_fits(findings)
    return _divided(findings) if findings.update is None else _fitted(findings, findings.update)


def _divided(findings: Findings) -> Decision:
    """Advise how many packs an update takes where today's update is not known."""
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
    cut_up = findings.overlong == "split" and findings.chosen.overlong
    return " (a piece of a longer one counts as a sequence)" if cut_up else ""


def _on_devices(findings: Findings) -> str:
    if findings.replicas == 1:
        return ""
    devices = f" on {findings.replicas:,} devices"
    return devices if findings.replicas == findings.devices else f"{devices}, since {_too_few(findings.devices)}"


def _too_few(devices: int) -> str:
    return "one does not hold the model" if devices == 1 else f"{devices:,} do not hold the model"


def _fitted(findings: Findings, update: PackedUpdate) -> Decision:
    after, before = update.after, update.before
    choice = f"Take {after.micro_batch:,} × {after.gradient_accumulation_steps:,} packs{_on_devices(findings)}"
    sequences = (
        f"An update has {after.sequences_per_update:,.1f} sequences instead of {_average(before.sequences_per_update)} "
        f"({signed(update.off)}){_pieces(findings)}"
    )
    if findings.plan.num_packs < after.replicas:
        choice = f"{_the_packs(findings.plan.num_packs).capitalize()} for {after.replicas:,} devices: too few"
        reason = "Each device needs one pack at least for an update. Take fewer devices."
    elif update.all_packs:
        reason = (
            f"Today's update has {_average(before.sequences_per_update)} sequences, and one pass over the data has "
            f"{findings.histogram.num_sequences:,}{_pieces(findings)}: an update takes "
            f"{'all packs' if not findings.left_out else 'all packs that the devices share equally'}. Learning rate "
            "and betas stay."
        )
    else:
        reason = f"{sequences}{_recipe_stays(findings, update)}"
    return Decision(
        "Packs per update",
        choice,
        f"{reason} {_passes(findings)}{_memory(findings)}",
        _other_update(findings, update),
    )


def _average(sequences: float) -> str:
    return f"{sequences:,.{0 if sequences == round(sequences) else 1}f}"


def _recipe_stays(findings: Findings, update: PackedUpdate) -> str:
    """Say if learning rate and betas stay or, where a recipe is known, what they become."""
    recipe, packed = findings.recipe, findings.packed_recipe
    if abs(update.off) <= MATTERS or recipe is None or packed is None:
        return (
            ", so learning rate and betas stay." if abs(update.off) <= MATTERS else "; learning rate and betas stay."
        )
    changed = f"; the betas {_betas(recipe)} become {_betas(packed)}." if packed.betas != recipe.betas else "."
    return f"{changed} {EVIDENCE[recipe.optimizer]}"


def _betas(recipe: Recipe) -> str:
    return "{:.5g} and {:.5g}".format(*recipe.betas)


def _passes(findings: Findings) -> str:
    """Say how many updates the training has, and how many packs no update has."""
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
    """Say how many sequences a recipe means if it does not count pieces; empty if there are none."""
    if not _pieces(findings):
        return ""
    pieces, whole = findings.histogram.num_sequences, findings.whole.num_sequences
    whole_sequences = round(recipe.total_sequences * pieces / whole)
    return (
        f" The data has {whole:,} sequences and, split, {pieces:,}: if the recipe counts them before the split, its "
        f"total is {whole_sequences:,} here."
    )


def _the_last(packs: int) -> str:
    return "pack" if packs == 1 else f"{packs:,} packs"


def _memory(findings: Findings) -> str:
    """Say how many packs fit into the memory or, if it is unknown, into today's slots per batch."""
    fit, memory, update = findings.fit, findings.memory, findings.update
    if fit is None or memory is None:
        if update is None:
            return ""
        batch = f"the {findings.today.slots_a_batch:,.0f} slots of an average batch today"
        if findings.today.slots_a_batch < findings.row_length:
            return f" One pack alone is more than {batch}."
        fits = "1 pack fits" if update.most == 1 else f"up to {update.most:,} packs fit"
        return f" {fits[0].upper()}{fits[1:]} into {batch}."
    rows = update.after.micro_batch if update else 1
    verb = "takes" if rows == 1 else "take"
    usable, of_room = _usable(fit)
    sentence = f" {plural(rows, 'pack')} {verb} about {gigabytes(memory.total)} of the usable {usable} {of_room}"
    if fit.recompute:
        sentence += " with each layer computed twice"
    if fit.shards > 1:
        sentence += " and" if fit.recompute else " with"
        sentence += f" weights, gradients and moments shared by {fit.shards:,} devices (FSDP)"
    sentence += f", and at most {plural(fit.rows, 'pack')} {'fits' if fit.rows == 1 else 'fit'}."
    return sentence + _one_device(findings)


def _usable(fit: Fit) -> tuple[str, str]:
    """Return the memory that is counted on, and which share of a device's memory it is."""
    return gigabytes(USABLE * fit.room), f"({100 * USABLE:.0f} % of {gigabytes(fit.room)})"


def _one_device(findings: Findings) -> str:
    """Say what training takes if today's devices do not hold the model; empty if they do."""
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
    tokens = int(update.before.sequences_per_update / update.after.replicas * findings.histogram.mean_length)
    if tokens < (most := longest(findings.histogram)):
        if findings.chosen.overlong:
            cost = "split sequences into more pieces" if findings.overlong == "split" else "lose more tokens"
            return f"There is none: shorter rows for that would {cost}."
        return f"There is none: shorter rows for that would cut sequences, which have up to {most:,} tokens."
    return f"Shorter rows: one of {tokens:,} tokens holds about the same number of sequences as an update today."


# Beside the decisions


def loss(findings: Findings) -> str:
    """Say how many of the packed tokens are trained on; empty where the data does not say."""
    if findings.trained is None or findings.labels is None:
        return ""
    if not findings.gains:  # today's rows stay
        trained = findings.labels.kept(findings.max_length, findings.overlong)
        of_all = share_of(trained, findings.padded.num_tokens)
        return f"{of_all} of the tokens in today's rows ({trained:,}) are trained on, as labels or masks say."
    share = findings.trained / findings.histogram.num_tokens
    sentence = f"{share_of(share)} of the packed tokens ({findings.trained:,}) are trained on, as labels or masks say"
    if (tokens := findings.tokens_an_update) is None:
        return f"{sentence}."
    return f"{sentence}, so the loss of an update sees about {share * tokens:,.0f} of its {tokens:,.0f} tokens."


def notes(findings: Findings) -> tuple[str, ...]:
    """Write further findings, a paragraph each; those about packs only if these gain something."""
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
    if findings.whole.kind == "measured":
        return ""
    kind = "a reconstruction" if findings.whole.kind == "reconstruction" else findings.whole.kind
    return f"The lengths are {kind}: count your own before you rely on the last digit."


def _attention_note(findings: Findings) -> str:
    counted = f"(counted in FLOP, for {findings.shape.name if findings.shape else 'Llama 3 8B'})"
    work = work_compared(1 - findings.skipping_saves, 1)
    bounds, dense = (findings.best_row(form).max_length for form in FORMS)
    if findings.form == "bounds":
        rows = "the same rows" if bounds == dense else f"rows of {dense:,}, the best ones for it"
        return (
            "Use attention that skips pairs of different sequences (flash_attention_2, on a GPU): "
            f"a token takes {work} in the layers {than_or_as(work)} with a dense mask in {rows} {counted}."
        )
    rows = "in the same rows" if bounds == dense else f"in rows of {bounds:,}, the best ones for it"
    return (
        "Use scaled_dot_product_attention with a dense mask. A kernel that skips pairs of different sequences is not "
        f"worth its trouble: {rows}, a token takes {work} in the layers with it {counted}."
    )


def _memory_note(findings: Findings) -> str:
    shape, memory = findings.shape, findings.memory
    if shape is None or memory is None:
        return ""
    rows = findings.update.after.micro_batch if findings.update else 1
    return (
        f"{shape.name} has {shape.parameters / 1e9:.3g} billion weights. With {plural(rows, 'pack')} of "
        f"{findings.row_length:,} tokens it takes {gigabytes(memory.states)} for weights, gradients and AdamW's "
        f"moments, and {gigabytes(memory.activations)} for activations. This is an estimate for bf16=True and a kernel "
        "that stores no attention scores."
    )


def _positions_note(findings: Findings) -> str:
    positions, tokens = findings.shape.positions if findings.shape else None, longest(findings.histogram)
    if not positions or tokens <= positions:
        return ""
    return (
        f"The longest sequence has {tokens:,} tokens, and the model only {positions:,} positions: take rows of at most "
        f"{positions:,} (--max-length)."
    )


def _waiting_note(findings: Findings) -> str:
    waits, update = findings.waiting, findings.update
    if waits is None or update is None:
        return ""
    replicas, each = update.after.replicas, update.after.micro_batch * update.after.gradient_accumulation_steps
    return (
        f"If the packs are assigned at random to {replicas:,} replicas, which meet once per update, the average "
        f"replica waits {share_of(waits.mean)} of the time for the slowest (95 % interval: {share_of(waits.low)} to "
        f"{share_of(waits.high)}). This is an estimate for {findings.work.in_words}, without padding, communication "
        f"and loading. packlib.balance(packs, ranks={replicas}, packs_per_rank={each}) assigns them evenly, and says "
        "how much waiting remains, as notebook 13_balanced_work shows."
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
