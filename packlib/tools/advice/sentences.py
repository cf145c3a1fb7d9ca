"""What the report says: each decision in a sentence with its reason and the next best, and notes behind the fold."""

from typing import NamedTuple

import numpy as np

from packlib.lengths import LengthHistogram
from packlib.lengths.overlong import CUT_RULES, CutRule
from packlib.tools.advice.depths import quick_plan
from packlib.tools.advice.findings import Findings, Lost
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


def decide(found: Findings) -> tuple[Decision, ...]:
    """Write the decisions in their order; first, if over 2 % of the tokens are beyond the rows, what becomes of them.

    If there is nothing to gain, that is the only one.
    """
    second = () if found.second is None else (_second_budget(found, found.second),)
    if not found.gains:
        return (_nothing_to_gain(found), *second)
    longer = _longer_sequences(found)
    others = [_pack(found), _row_length(found), _method(found), _packs_per_update(found)]
    lossy = LOSSY * found.whole.num_tokens
    if found.chosen.tokens_cut > lossy:
        decisions = (longer, *others)
    elif found.now.tokens_cut > lossy:  # longer rows are what ends the loss
        pack, row_length, *rest = others
        decisions = (row_length, pack, longer, *rest)
    else:
        decisions = (*others[:2], longer, *others[2:])
    is_scarcer = found.second is not None and found.second.lower_bound > found.second.by_tokens
    return (*second, *decisions) if is_scarcer else (*decisions, *second)


# To pack or not


def _pack(found: Findings) -> Decision:
    today, saved = found.today, found.today.slots - found.slots_of_same
    takes = "takes" if found.plan.num_packs == 1 else "take"
    fewer = f"Pack them: {share_of(saved, today.slots)} fewer slots"
    return Decision(
        "Your batches",
        f"{fewer}, {large(found.slots)} instead of {large(today.slots)}"
        if found.same_tokens
        else f"{fewer} for each token that is kept",
        f"For one pass, {today.as_subject} take {large(today.slots)} slots{_held(found, found.padded)}"
        f"{_assumed(found) if today.sized else ''}, and {plural(found.plan.num_packs, 'pack')} of "
        f"{found.row_length:,} {takes} {large(found.slots)}{_held(found, found.histogram)}.",
        _other_habit(found),
    )


def _held(found: Findings, rows: LengthHistogram) -> str:
    """Say for how many tokens slots are, where today's rows and the packs hold another number of them."""
    return "" if found.same_tokens else f" for {plural(rows.num_tokens, 'token')}"


def _assumed(found: Findings) -> str:
    return " (32 is an assumption; --batch-size says yours)" if found.assumed else ""


def _other_habit(found: Findings) -> str:
    """Compare the packs with sorted batches; with random ones, if batches are sorted today."""
    other = next((one for one in found.habits if one.habit == "sorted"), found.habits[0])
    slots = f"{other.as_subject} take {_than(other.slots, found.slots_of_same)} the packs"
    slots += f", {large(other.slots)}" if found.same_tokens else " for each token that is kept"
    slots = f"{slots[0].upper()}{slots[1:]}{'' if found.today.sized else _assumed(found)}."
    if other.habit != "sorted":
        return slots
    if other.batches == 1:
        return f"{slots} One batch has all sequences."
    if other.batch_size == 1:
        return f"{slots} They need no mask, but each sequence is then a forward pass of its own."
    narrow, wide = _widths(found.padded, other.batch_size)
    widths = f"a whole batch takes {f'{narrow:,} to ' if narrow < wide else ''}{wide:,} slots"
    return (
        f"{slots} They need no mask, but each batch then has sequences of nearly one length, so updates no longer mix "
        f"lengths, and {widths}."
    )


def _than(value: float, base: float) -> str:
    said = compared(value, base, "slots")
    return f"{said} {than_or_as(said)}"


def _widths(padded: LengthHistogram, size: int) -> tuple[int, int]:
    """Count the slots of the narrowest and of the widest of two or more whole batches of sorted sequences."""
    up_to = np.cumsum(padded.counts)
    whole = padded.num_sequences // size * size
    narrow, wide = (int(np.searchsorted(up_to, rank)) for rank in (size, whole))
    return size * narrow, size * wide


def _nothing_to_gain(found: Findings) -> Decision:
    today, slots = found.today, found.slots
    off = found.slots_of_same - today.slots
    if not found.same_tokens:
        each = _than(found.slots_of_same, today.slots)
        against = f"{large(slots)}{_held(found, found.histogram)}, {each} today for each token"
    elif off:
        against = f"{large(slots)}, {share_of(abs(off), today.slots)} {'more' if off > 0 else 'fewer'}"
    else:
        against = "the same number"
    too_little = f" For less than {share_of(WORTH)} nobody changes a trainer." if off <= 0 else ""
    suspect = _suspect(found)
    if found.padding_suffices:
        random = next(one for one in found.habits if one.habit == "random")
        packs = plural(found.plan.num_packs, "pack")
        return Decision(
            "Your batches",
            "Do not pack: pad each batch to its longest sequence, not to the row length",
            f"For one pass, {today.in_words} take {large(today.slots)} slots{_held(found, found.padded)}, "
            f"{random.as_subject} take {large(random.slots)}{_assumed(found)}, and {packs} of {found.row_length:,} "
            f"would take {large(slots)}{_held(found, found.histogram)}."
            f"{_loss_of_now(found)}{suspect and ' ' + suspect}",
            f"Pack, if every batch must have one shape: plan.json has {_the_packs(found.plan.num_packs)}.",
        )
    return Decision(
        "Your batches",
        "Nothing to gain: do not pack",
        f"For one pass, {today.as_subject} take {large(today.slots)} slots{_held(found, found.padded)}"
        f"{_assumed(found) if today.sized else ''}, and {plural(found.plan.num_packs, 'pack')} of "
        f"{found.row_length:,} would take {against}."
        f"{too_little}{_loss_of_now(found)}{suspect and ' ' + suspect}",
        f"Pack all the same: plan.json has {_the_packs(found.plan.num_packs)}.",
    )


def _the_packs(number: int) -> str:
    return "the pack" if number == 1 else f"the {number:,} packs"


def _loss_of_now(found: Findings) -> str:
    """Say how many tokens and labels today's rows lose or cut off; empty if no sequence is too long."""
    row, rule = found.now, found.overlong
    if not row.overlong:
        return ""
    tokens = f"{plural(row.tokens_cut, 'token')} ({share_of(row.tokens_cut, found.whole.num_tokens)})"
    verb = "is" if row.tokens_cut == 1 else "are"
    labels = _labels_lost(found, row)
    lossy = rule != "split" and row.tokens_cut > LOSSY * found.whole.num_tokens
    cure = " Split longer sequences instead (--overlong split)." if lossy and found.second is None else ""
    return f" {_how_many(found, row)}, and {tokens}{labels and f' with {labels}'} {verb} {_DONE[rule]}.{cure}"


def _labels_lost(found: Findings, row: RowLength) -> str:
    """Say which share of the labels rows of a length lose; empty if no token is lost, or labels are not known."""
    if found.labels is None or found.overlong == "split":
        return ""
    number = found.labels.number
    return f"{share_of(number - found.labels.kept(row.max_length, found.overlong), number)} of the labels"


# A second budget


def _second_budget(found: Findings, need: SecondNeed) -> Decision:
    """Decide which of two budgets is scarcer, and say how many packs the other decisions, by tokens, leave out."""
    name = need.column
    each = f"{name} alone need at least {plural(need.lower_bound, 'pack')} of {need.budget:,}, and tokens alone "
    each += f"{need.by_tokens:,} of {found.row_length:,}."
    each = f"{each[0].upper()}{each[1:]}"
    keeps = f"packlib pack keeps both (--second-budget {name}:{need.budget})."
    if need.lower_bound > found.plan.num_packs:
        more = share_of(need.lower_bound / found.plan.num_packs - 1)
        return Decision(
            "Second budget",
            f"Pack by both: {name} are scarcer than tokens",
            f"{each} The other decisions count tokens alone: at least {more} more packs are needed than they say. "
            f"The command {keeps}",
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
        f"{each} The command {keeps}",
        f"Tokens alone: nothing then keeps a pack from holding more than {need.budget:,} {name}.",
    )


# Longer sequences


def _longer_sequences(found: Findings) -> Decision:
    row = found.chosen
    rule = found.overlong
    suspect = _suspect(found)
    if not row.overlong:
        return Decision(
            "Longer sequences",
            "None is longer than a row",
            f"The longest sequence has {plural(longest(found.whole), 'token')}.{suspect and ' ' + suspect}",
            "There is nothing to choose.",
        )
    lost, tokens = found.lost[rule], found.whole.num_tokens
    reason = f"{_how_many(found, row)}, and {plural(row.tokens_cut, 'token')} ({share_of(row.tokens_cut, tokens)}) "
    reason += f"{'is' if row.tokens_cut == 1 else 'are'} {_DONE[rule]}."
    if rule == "split":
        choice = "Split them into further pieces: no token is lost"
        if lost.labels:
            number = found.labels.number if found.labels else 0
            reason += f" {plural(lost.labels, 'label')} of {number:,} ({share_of(lost.labels, number)}) "
            reason += f"{'is' if lost.labels == 1 else 'are'} lost, since nothing predicts the first token of a piece."
    else:
        choice = {"truncate": "Truncate", "drop": "Drop"}[rule]
        choice += f" them{', as you asked' if found.asked else ''}: {_loses(found, lost)} lost"
        if row.tokens_cut > LOSSY * tokens:
            cure = "take longer rows" if found.second else "split longer sequences instead (--overlong split)"
            choice = f"{_loses(found, lost)} lost: {cure}"
        choice = choice[0].upper() + choice[1:]
        reason += _emptied(lost)
    others = [_other_rule(found, other) for other in CUT_RULES if other != rule]
    if found.second:
        others = [f"What a piece of a sequence takes of {found.second.column} is unknown, so none is cut."]
    return Decision(
        "Longer sequences",
        choice,
        reason + (suspect and " " + suspect),
        " ".join([*others, *filter(None, [_longer_rows(found)])]),
    )


def _how_many(found: Findings, row: RowLength) -> str:
    over, all_of_them = row.overlong, found.whole.num_sequences
    verb = "is" if over == 1 else "are"
    share = share_of(over, all_of_them)
    return f"{plural(over, 'sequence')} of {all_of_them:,} ({share}) {verb} longer than {row.max_length:,}"


def _loses(found: Findings, lost: Lost) -> str:
    """Name the tokens and labels that are lost, with a verb: "26.0 % of the tokens and 40.0 % of the labels are"."""
    said = f"{share_of(lost.tokens, found.whole.num_tokens)} of the tokens"
    if lost.labels is not None and found.labels:
        said += f" and {share_of(lost.labels, found.labels.number)} of the labels"
    return f"{said} are"


def _emptied(lost: Lost) -> str:
    if not lost.emptied:
        return ""
    return f" {plural(lost.emptied, 'sequence')} {'has' if lost.emptied == 1 else 'have'} no label left."


def _other_rule(found: Findings, rule: CutRule) -> str:
    lost = found.lost[rule]
    if rule == "split":
        pieces = found.whole.with_max_length(found.row_length, rule)
        packs = quick_plan(pieces, found.plan.max_sequences_per_pack).num_packs
        also = f", and loses {plural(lost.labels, 'label')}" if lost.labels else ""
        return f"{_RULE[rule]} loses no token{also}: {compared(packs, found.plan.num_packs, 'packs')}, {packs:,}."
    said = _loses(found, lost).removesuffix(" are")
    return f"{_RULE[rule]} loses {said}.{_emptied(lost)}"


def _longer_rows(found: Findings) -> str:
    row = cuts_less(found.row_lengths, found.chosen, found.whole.num_tokens)
    if row is None:
        return ""
    share = share_of(row.tokens_cut, found.whole.num_tokens) if row.tokens_cut else "none"
    now = share_of(found.chosen.tokens_cut, found.whole.num_tokens)
    if found.overlong == "split":
        return f"Rows of {row.max_length:,} leave {share} of the tokens to further pieces instead of {now}."
    return f"Rows of {row.max_length:,} lose {share} of the tokens instead of {now}."


def _suspect(found: Findings) -> str:
    """Say what shows that the data was, or was not, cut before its lengths were counted; empty without a hint."""
    upstream, whole = found.upstream, found.whole
    if upstream is None:
        if not found.piled_up[1]:
            return ""
        length, number = found.piled_up
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
        f"{compared(upstream.packs, found.plan.num_packs, 'packs')}, {upstream.packs:,}, and its longest sequence "
        f"takes a row of {longest(source):,}."
    )


# The rows


def _row_length(found: Findings) -> Decision:
    now, row, form = found.now, found.chosen, found.form
    best = choose(found.row_lengths, found.max_length, form)
    rows = allowed(found.row_lengths, found.max_length)
    choice = f"Keep rows of {now.max_length:,} tokens"
    reason = (
        f"With {_IN_FORM[form]}, this is the shortest row within {share_of(WORTH)} of the least work per token, of "
        f"{len(rows)} lengths tried that {_cut_no_more(found)}."
    )
    if len(rows) == 1:
        reason = (
            f"It is the only one of {plural(len(found.row_lengths), 'length')} tried that {_cut_no_more(found, 1)}."
        )
    if row is not now:
        choice = f"Take rows of {row.max_length:,} tokens instead of {now.max_length:,}"
        full, before = (share_of(1 / rows.slots_a_token) for rows in (row, now))
        reason += (
            f" A token takes {_work_off(row, now, form)} rows of {now.max_length:,}, and rows are {full} full"
            f"{f' instead of {before}' if full != before else ', as those are'}."
        )
        if now.tokens_cut > row.tokens_cut:
            reason += _cut_now(found)
    elif found.kept and best is not now:
        reason = "You asked to keep them (--keep-max-length)."
        if found.second:
            second = f"{found.second.budget:,} {found.second.column}"
            reason = f"The second budget, {second}, is one of rows of this length."
    other = next_best(found.row_lengths, found.max_length, form, row)
    return Decision("Row length", choice, reason, _other_row(found, other))


def _cut_now(found: Findings) -> str:
    """Say how much less the longer rows cut than today's."""
    now, row, tokens = found.now, found.chosen, found.whole.num_tokens
    before, after = (share_of(each.tokens_cut, tokens) if each.tokens_cut else "none" for each in (now, row))
    if found.overlong == "split":
        return f" They leave {after} of the tokens to further pieces instead of {before}."
    labels = _labels_lost(found, now)
    return f" They lose {after} of the tokens; rows of {now.max_length:,} lose {before}{labels and f' and {labels}'}."


def _cut_no_more(found: Findings, lengths: int = 2) -> str:
    """Say what the lengths have in common that could be taken, as what one or several of them do."""
    s = "s" if lengths == 1 else ""
    if not found.now.tokens_cut:
        return f"hold{s} every sequence whole"
    if lengths == 1:
        return f"{'splits' if found.overlong == 'split' else 'loses'} so few tokens"
    return f"{'split' if found.overlong == 'split' else 'lose'} no more tokens than rows of {found.max_length:,}"


def _work_off(row: RowLength, other: RowLength, form: Form) -> str:
    said = work_compared(row.work(form), other.work(form))
    return f"{said} {than_or_as(said)} in"


def _other_row(found: Findings, other: RowLength | None) -> str:
    if other is None:
        verb = "splits" if found.overlong == "split" else "loses"
        return f"None: every other length that was tried {verb} more tokens."
    work = work_compared(other.work(found.form), found.chosen.work(found.form))
    return f"{other.max_length:,} tokens: {work} per token, and {_slots_off(other, found.chosen)}."


def _slots_off(row: RowLength, base: RowLength) -> str:
    if row.tokens == base.tokens:
        return compared(row.slots, base.slots, "slots")
    return compared(row.slots_a_token, base.slots_a_token, "slots")


def _method(found: Findings) -> Decision:
    plan, depth = found.plan, found.plan.max_sequences_per_pack
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
    if found.depths and not found.limit:
        reason += (
            " The model has something once for each sequence, and this is the smallest depth tried within half a "
            f"percent of the {plural(found.depths[-1].packs, 'pack')} of a deeper one."
        )
    other = found.plans[1]
    packs = compared(other.num_packs, plan.num_packs, "packs")
    return Decision(
        "Method", choice, reason, f"{_KNOWN_AS.get(other.method, other.method)}: {packs}, {other.num_packs:,}."
    )


# The update


def _packs_per_update(found: Findings) -> Decision:
    if found.fit and not found.fit.rows:
        return _no_pack_fits(found)
    return _divided(found) if found.update is None else _fitted(found, found.update)


def _divided(found: Findings) -> Decision:
    """Advise how many packs an update takes where today's update is not known."""
    factor, packs = found.plan.packing_factor, found.plan.num_packs
    choice = f"Divide the sequences of today's update by {factor:,.2f}"
    if factor < 1.005:
        choice = "Take as many packs as an update has sequences today"
    reason = f"A pack holds {factor:,.2f} sequences on average{_pieces(found)}. Learning rate and betas stay. "
    reason += f"There are {packs:,} packs." if packs > 1 else "There is 1 pack."
    return Decision(
        "Packs per update",
        choice + _on_devices(found),
        reason + _memory(found),
        "--batch-size and --accumulation, or --recipe, say what an update is today: then its packs are counted here.",
    )


def _pieces(found: Findings) -> str:
    cut_up = found.overlong == "split" and found.chosen.overlong
    return " (a piece of a longer one counts as a sequence)" if cut_up else ""


def _on_devices(found: Findings) -> str:
    if found.replicas == 1:
        return ""
    devices = f" on {found.replicas:,} devices"
    return devices if found.replicas == found.devices else f"{devices}, since {_too_few(found.devices)}"


def _too_few(devices: int) -> str:
    return "one does not hold the model" if devices == 1 else f"{devices:,} do not hold the model"


def _fitted(found: Findings, update: PackedUpdate) -> Decision:
    after, before = update.after, update.before
    choice = f"Take {after.micro_batch:,} × {after.gradient_accumulation_steps:,} packs{_on_devices(found)}"
    sequences = (
        f"An update has {after.sequences_per_update:,.1f} sequences instead of {_average(before.sequences_per_update)} "
        f"({signed(update.off)}){_pieces(found)}"
    )
    if found.plan.num_packs < after.replicas:
        choice = f"{_the_packs(found.plan.num_packs).capitalize()} for {after.replicas:,} devices: too few"
        reason = "Each device needs one pack at least for an update. Take fewer devices."
    elif update.all_packs:
        reason = (
            f"Today's update has {_average(before.sequences_per_update)} sequences, and one pass over the data has "
            f"{found.histogram.num_sequences:,}{_pieces(found)}: an update takes "
            f"{'all packs' if not found.left_out else 'all packs that the devices share equally'}. Learning rate and "
            "betas stay."
        )
    else:
        reason = f"{sequences}{_recipe_stays(found, update)}"
    return Decision(
        "Packs per update",
        choice,
        f"{reason} {_passes(found)}{_memory(found)}",
        _other_update(found, update),
    )


def _average(sequences: float) -> str:
    return f"{sequences:,.{0 if sequences == round(sequences) else 1}f}"


def _recipe_stays(found: Findings, update: PackedUpdate) -> str:
    """Say if learning rate and betas stay or, where a recipe is known, what they become."""
    recipe, packed = found.recipe, found.packed_recipe
    if abs(update.off) <= MATTERS or recipe is None or packed is None:
        return (
            ", so learning rate and betas stay." if abs(update.off) <= MATTERS else "; learning rate and betas stay."
        )
    changed = f"; the betas {_betas(recipe)} become {_betas(packed)}." if packed.betas != recipe.betas else "."
    return f"{changed} {EVIDENCE[recipe.optimizer]}"


def _betas(recipe: Recipe) -> str:
    return "{:.5g} and {:.5g}".format(*recipe.betas)


def _passes(found: Findings) -> str:
    """Say how many updates the training has, and how many packs no update has."""
    updates = found.updates or 0
    left = f", without the last {_the_last(found.left_out)}" if found.left_out else ""
    if found.recipe and found.packed_recipe:
        before, after = found.recipe.total_steps, found.packed_recipe.total_steps
        return (
            f"One pass over the data takes {plural(updates, 'update')}{left}, and the recipe's "
            f"{plural(found.recipe.total_sequences, 'sequence')} take {after:,} instead of {before:,}."
            f"{_before_the_split(found, found.recipe)}"
        )
    if found.epochs == 1:
        return f"One epoch takes {plural(updates, 'update')}{left}."
    return f"{found.epochs:,} epochs take {updates * found.epochs:,} updates, {updates:,} each{left}."


def _before_the_split(found: Findings, recipe: Recipe) -> str:
    """Say how many sequences a recipe means if it does not count pieces; empty if there are none."""
    if not _pieces(found):
        return ""
    pieces, whole = found.histogram.num_sequences, found.whole.num_sequences
    meant = round(recipe.total_sequences * pieces / whole)
    return (
        f" The data has {whole:,} sequences and, split, {pieces:,}: if the recipe counts them before the split, its "
        f"total is {meant:,} here."
    )


def _the_last(packs: int) -> str:
    return "pack" if packs == 1 else f"{packs:,} packs"


def _memory(found: Findings) -> str:
    """Say how many packs fit into the memory or, if it is unknown, into today's slots per batch."""
    fit, memory, update = found.fit, found.memory, found.update
    if fit is None or memory is None:
        if update is None:
            return ""
        batch = f"the {found.today.slots_a_batch:,.0f} slots of an average batch today"
        if found.today.slots_a_batch < found.row_length:
            return f" One pack alone is more than {batch}."
        fits = "1 pack fits" if update.most == 1 else f"up to {update.most:,} packs fit"
        return f" {fits[0].upper()}{fits[1:]} into {batch}."
    rows = update.after.micro_batch if update else 1
    verb = "takes" if rows == 1 else "take"
    said = f" {plural(rows, 'pack')} {verb} about {gigabytes(memory.total)} of {gigabytes(fit.room)}"
    if fit.recompute:
        said += " with each layer computed twice"
    if fit.shards > 1:
        said += " and" if fit.recompute else " with"
        said += f" weights, gradients and moments shared by {fit.shards:,} devices (FSDP)"
    said += f", and at most {plural(fit.rows, 'pack')} {'fits' if fit.rows == 1 else 'fit'}."
    return said + _one_device(found)


def _one_device(found: Findings) -> str:
    """Say what training takes if today's devices do not hold the model; empty if they do."""
    shape, fit = found.shape, found.fit
    if shape is None or fit is None or fit.shards <= found.devices:
        return ""
    alone = shape.memory(1, found.row_length, shards=found.devices, recompute=True)
    where = "One device is" if found.devices == 1 else f"{found.devices:,} devices are"
    each = "" if found.devices == 1 else " on each"
    return (
        f" {where} not enough: weights, gradients and moments take {gigabytes(alone.states)}{each}, and one pack takes "
        f"{gigabytes(alone.activations)} more. Without more devices, train adapters (LoRA), whose frozen weights take "
        f"{gigabytes(2 * shape.parameters)} in 16 bits, or keep gradients and moments in main memory (offloading)."
    )


def _no_pack_fits(found: Findings) -> Decision:
    fit, memory = found.fit, found.memory
    assert fit is not None and memory is not None
    packs = ""
    if found.update:
        batch = found.update.after
        packs = (
            f" Then {batch.micro_batch:,} × {batch.gradient_accumulation_steps:,} packs have "
            f"{batch.sequences_per_update:,.1f} sequences, {signed(found.update.off)} against today."
        )
    one = found.shape.memory(1, found.row_length, shards=fit.shards, recompute=True) if found.shape else memory
    return Decision(
        "Packs per update",
        "Not even one pack fits",
        f"One pack of {found.row_length:,} tokens takes about {gigabytes(one.total)} of {gigabytes(fit.room)} even "
        f"with each layer computed twice, so several devices have to share a row.{packs}",
        f"Shorter rows: one of at most {fit.longest:,} tokens fits, if enough devices share weights, gradients and "
        "moments (FSDP).",
    )


def _other_update(found: Findings, update: PackedUpdate) -> str:
    if found.plan.num_packs < update.after.replicas:
        return f"Train on {plural(found.plan.num_packs, 'device')}, with one pack each."
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
    tokens = int(update.before.sequences_per_update / update.after.replicas * found.histogram.mean_length)
    if tokens < (most := longest(found.histogram)):
        return f"There is none: shorter rows for that would cut sequences, which have up to {most:,} tokens."
    return f"Shorter rows: one of {tokens:,} tokens holds about the same number of sequences as an update today."


# Beside the decisions


def loss(found: Findings) -> str:
    """Say how many of the packed tokens are trained on; empty where the data does not say."""
    if found.trained is None or found.labels is None:
        return ""
    if not found.gains:  # today's rows stay
        trained = found.labels.kept(found.max_length, found.overlong)
        of_all = share_of(trained, found.padded.num_tokens)
        return f"{of_all} of the tokens in today's rows ({trained:,}) are trained on, as labels or masks say."
    share = found.trained / found.histogram.num_tokens
    said = f"{share_of(share)} of the packed tokens ({found.trained:,}) are trained on, as labels or masks say"
    if (tokens := found.tokens_an_update) is None:
        return f"{said}."
    return f"{said}, so the loss of an update sees about {share * tokens:,.0f} of its {tokens:,.0f} tokens."


def notes(found: Findings) -> tuple[str, ...]:
    """Write further findings, a paragraph each; those about packs only if these gain something."""
    if not found.gains:
        return tuple(filter(None, [_positions_note(found), _kind_note(found)]))
    said = [_attention_note(found), _memory_note(found), _positions_note(found), _waiting_note(found)]
    if not found.depths and found.plan.deepest > 1:
        said.append(
            f"A pack holds up to {plural(found.plan.deepest, 'sequence')}. You need a limit only if the model has "
            "something once for each sequence, such as BERT's pooler."
        )
    return tuple(filter(None, [*said, _kind_note(found)]))


def _kind_note(found: Findings) -> str:
    if found.whole.kind == "measured":
        return ""
    kind = "a reconstruction" if found.whole.kind == "reconstruction" else found.whole.kind
    return f"The lengths are {kind}: count your own before you rely on the last digit."


def _attention_note(found: Findings) -> str:
    counted = f"(counted in FLOP, for {found.shape.name if found.shape else 'Llama 3 8B'})"
    work = work_compared(1 - found.skipping_saves, 1)
    bounds, dense = (found.best_row(form).max_length for form in FORMS)
    if found.form == "bounds":
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


def _memory_note(found: Findings) -> str:
    shape, memory = found.shape, found.memory
    if shape is None or memory is None:
        return ""
    rows = found.update.after.micro_batch if found.update else 1
    return (
        f"{shape.name} has {shape.parameters / 1e9:.3g} billion weights. With {plural(rows, 'pack')} of "
        f"{found.row_length:,} tokens it takes {gigabytes(memory.states)} for weights, gradients and AdamW's moments, "
        f"and {gigabytes(memory.activations)} for activations. This is an estimate for bf16=True and a kernel that "
        "stores no attention scores."
    )


def _positions_note(found: Findings) -> str:
    positions, tokens = found.shape.positions if found.shape else None, longest(found.histogram)
    if not positions or tokens <= positions:
        return ""
    return (
        f"The longest sequence has {tokens:,} tokens, and the model only {positions:,} positions: take rows of at most "
        f"{positions:,} (--max-length)."
    )


def _waiting_note(found: Findings) -> str:
    waits, update = found.waiting, found.update
    if waits is None or update is None:
        return ""
    replicas, each = update.after.replicas, update.after.micro_batch * update.after.gradient_accumulation_steps
    return (
        f"If the packs are assigned at random to {replicas:,} replicas, which meet once per update, the average "
        f"replica waits {share_of(waits.mean)} of the time for the slowest (95 % interval: {share_of(waits.low)} to "
        f"{share_of(waits.high)}). This is an estimate for {found.work.in_words}, without padding, communication and "
        f"loading. packlib.balance(packs, ranks={replicas}, packs_per_rank={each}) assigns them evenly, and says how "
        "much waiting remains, as notebook 13_balanced_work shows."
    )


def rows_note(found: Findings) -> str:
    """Say how the table of row lengths was made."""
    with_best = "with optimal" if found.thorough else "with the best of the fast methods"
    said = f"Packed with lpfhp; today's and the best row length {with_best}"
    if not found.thorough and (found.limit or not found.depths):
        said += ", and the advised one as plan does by default, which may search"
    said += ". For the others a search may find fewer packs. "
    if any(row.rounded for row in found.row_lengths):
        tables = "these tries and those of depths" if found.depths else "these tries"
        said += f"Very many lengths differ: for {tables} they were rounded up by less than 0.1 %. "
    return said + (
        f"Work is counted in FLOP of the layers of {found.shape.name if found.shape else 'Llama 3 8B'}, relative to "
        f"rows of {found.max_length:,} with attention that reads the bounds of sequences."
    )


def code_note(found: Findings) -> str:
    """Say how to use the code on the page."""
    given = ["dataset", "folder (of the model)", "tokenizer (for TRL)"]
    given += ["learning_rate"] * (found.recipe is None) + ["sequences_per_update"] * (found.update is None)
    said = (
        f"Each trainer's code follows the first two parts, and takes as given: {', '.join(given)}. It runs on a GPU or "
        "a CPU, and is in advice.json too."
    )
    if found.second:
        said += " plan.json counts tokens alone; the code packs both budgets without it."
    if found.fit and not found.fit.rows:
        said += " It fits into no device's memory before several share a row."
    return said


def about_data(whole: LengthHistogram) -> str:
    """Describe the data in one line."""
    said = f"{plural(whole.num_sequences, 'sequence')} of {whole.mean_length:,.1f} tokens on average, "
    said += f"{plural(whole.num_tokens, 'token')} in all"
    return f"{said}; {whole.source}." if whole.source else f"{said}."


WHAT_IS_COUNTED = (
    "Packs, slots and tokens are counted. Memory is an estimate, and so is what random batches take on average. Fewer "
    "slots save time only if the device, and not data loading, is the bottleneck."
)
