"""What advice says: decisions and notes in sentences, made of the numbers of an `Outcome`."""

from typing import NamedTuple

from packlib.advice.depths import fewest_packs
from packlib.advice.micro_batch import EVIDENCE
from packlib.advice.outcome import Fit, Outcome
from packlib.advice.row_lengths import WORTH, RowLength, choose, count_cut, cut, cuts_less
from packlib.advice.today import TODAY
from packlib.advice.upstream import Upstream
from packlib.advice.words import compared, gigabytes, many, share_of, signed
from packlib.training.adjustment import TOLERATED


class Decision(NamedTuple):
    """What to do about one thing, why, and what the next best choice would cost."""

    about: str
    choice: str
    reason: str
    runner_up: str


def decisions(found: Outcome) -> tuple[Decision, ...]:
    """What to do, in the order of the page."""
    about = (_about_rows, _about_method, _about_saving, _about_update, _about_pass, _about_cut)
    return tuple(decide(found) for decide in about)


def notes(found: Outcome) -> tuple[str, ...]:
    """What else to know, in sentences; behind the fold of the page."""
    said = [
        _attention(found),
        _memory(found),
        _positions(found),
        _waiting(found),
        _depths_needed(found),
        _reconstructed(found),
    ]
    return tuple(filter(None, said))


def about_loss(found: Outcome) -> str:
    """How many tokens the loss sees, in words; empty where the data does not say."""
    if found.trained is None:
        return ""
    share, tokens = found.trained / found.whole.num_tokens, found.tokens_an_update
    return (
        f"{share_of(share)} of the tokens ({found.trained:,}) are trained on, as labels or masks say, so that the loss "
        f"of an update sees about {share * tokens:,.0f} of its {tokens:,.0f} tokens."
    )


def _about_rows(found: Outcome) -> Decision:
    now, best = found.now, found.chosen
    others = [row for row in found.row_lengths if row is not best]
    if best is not now:
        return Decision(
            "Row length",
            f"{best.max_length:,} tokens instead of {now.max_length:,}",
            f"Rows of {best.max_length:,} are {share_of(1, best.slots_a_token)} full and those of "
            f"{now.max_length:,} are {share_of(1, now.slots_a_token)}, so the same tokens take "
            f"{share_of(1 - best.slots_a_token / now.slots_a_token)} fewer slots.",
            f"{now.max_length:,} as now, with {compared(now.slots_a_token, best.slots_a_token, 'slots')} for a token.",
        )
    kept = f"{now.max_length:,} tokens, as now"
    if (better := choose(found.row_lengths, now.max_length)) is not now:
        slots = compared(better.slots_a_token, now.slots_a_token, "slots")
        return Decision("Row length", kept, "It was to be kept.", f"{better.max_length:,}, with {slots} for a token.")
    lengths = f"from {found.row_lengths[0].max_length:,} to {found.row_lengths[-1].max_length:,}"
    reason = (
        f"Of {many(len(others), 'other length')} {lengths}, none saves more than {share_of(WORTH)} of the slots "
        "without cutting more tokens."
    )
    return Decision("Row length", kept, reason, _other_row(found, others))


def _other_row(found: Outcome, others: list[RowLength]) -> str:
    """The price of another row length, where that of now is kept."""
    now, all_tokens = found.now, found.whole.num_tokens
    if longer := cuts_less(found.row_lengths, now, all_tokens):
        slots = compared(longer.slots_a_token, now.slots_a_token, "slots")
        cuts = share_of(longer.tokens_cut, all_tokens) if longer.tokens_cut else "none"
        return (
            f"{longer.max_length:,} cuts {cuts} of the tokens instead of "
            f"{share_of(now.tokens_cut, all_tokens)}, with {slots} for a token, "
            f"whose work is {signed(longer.skipping / now.skipping - 1)}."
        )
    allowed = [row for row in others if row.tokens_cut <= now.tokens_cut]
    if not allowed:
        return "Every other length cuts more tokens."
    least = min(allowed, key=lambda row: (not row.counted, row.slots_a_token))
    if not least.counted:
        return f"None: full rows of any length save at most {share_of(1 - least.slots_a_token / now.slots_a_token)}."
    return f"{least.max_length:,}, with {compared(least.slots_a_token, now.slots_a_token, 'slots')} for a token."


def _about_method(found: Outcome) -> Decision:
    best, other = found.plan, found.plans[1]
    depth = best.max_sequences_per_pack
    full = f"{many(best.num_packs, 'pack')}, {share_of(best.efficiency)} full: "
    proof = "no packing has fewer"
    if best.gap:
        proof += f" than {best.lower_bound:,}, {share_of(best.gap, best.num_packs)} below"
    return Decision(
        "Method",
        best.method if depth is None else f"{best.method} with at most {many(depth, 'sequence')} in a pack",
        f"{full}{proof}{'' if depth is None else ' at this depth'}.{_about_depth(found)}",
        f"{other.method}: {compared(other.num_packs, best.num_packs, 'packs')}, {other.num_packs:,}.",
    )


def _about_depth(found: Outcome) -> str:
    if found.limit or not found.depths:
        return ""
    return (
        " The model has something once for each sequence, and this is the smallest depth tried within half a "
        f"percent of the {many(found.depths[-1].packs, 'pack')} of a deeper one."
    )


def _about_saving(found: Outcome) -> Decision:
    today, packed = found.today, found.slots
    saved = today.slots - packed
    less = f"{_about(abs(saved))} ({share_of(abs(saved), today.slots)}) {'fewer' if saved > 0 else 'more'}"
    other = min(found.habits, key=lambda one: one.slots)
    who, name = today.in_words.capitalize(), TODAY[other.habit][1]
    if saved <= WORTH * today.slots:
        choice = "Nothing to gain: do not pack"
    else:
        choice = f"{found.times_fewer:.2f} times fewer slots than today"
    return Decision(
        "Against today",
        choice,
        f"{who}{',' * (',' in who)} take {_about(today.slots)} slots in {many(today.batches, 'batch')} of "
        f"{today.batch_size:,}, and the packs take {f'{_about(packed)}: {less}' if saved else 'as many'}.",
        f"{name.capitalize()}: {_than_packs(other.slots, packed)}"
        f"{', but a batch holds sequences of one length' if other.habit == 'sorted' else ''}.",
    )


def _about_update(found: Outcome) -> Decision:
    update, after, before, fit = found.update, found.update.after, found.update.before, found.fit
    if fit and not fit.rows:
        return Decision("Micro batch × accumulation", "Not even one pack fits", *_about_none(found, fit))
    wanted = before.sequences_per_update
    reason = (
        f"They hold {after.sequences_per_update:,.1f} sequences, {signed(update.off)} against {wanted:,.0f} today"
        f"{' (an example)' if found.is_example else ''}"
    )
    if update.exact:
        reason += ", so rate and betas stay; "
    else:
        reason += f", and none comes within {share_of(TOLERATED)}: {_about_betas(found)} "
    reason += _about_room(found) + "."
    other = "There is no other."
    if pair := update.runner_up:
        other = f"{pair[0]:,} × {pair[1]:,}: {signed(update.off_with(*pair))} of the sequences"
        as_many = pair[1] == after.gradient_accumulation_steps
        of_them = "as many forward passes" if as_many else _passes(pair[1])
        other += f", {of_them} an update{'' if as_many else f' instead of {after.gradient_accumulation_steps:,}'}."
    elif not update.exact:  # one pack has more
        fewer = int(before.sequences_per_update / after.replicas * found.histogram.mean_length)
        other = f"Shorter rows: one of {fewer:,} tokens holds about as many sequences as an update today."
    return Decision(
        "Micro batch × accumulation",
        _update_of(found),
        reason[0].upper() + reason[1:],
        other,
    )


def _about_betas(found: Outcome) -> str:
    before, after = found.update.before, found.update.after
    if before.betas == after.betas:
        return f"{EVIDENCE[before.optimizer]} Besides,"
    old, new = (" and ".join(f"{beta:.5g}" for beta in recipe.betas) for recipe in (before, after))
    return f"the betas {old} become {new}. {EVIDENCE[before.optimizer]} Besides,"


def _about_room(found: Outcome) -> str:
    fit, most, memory, rows = found.fit, found.update.most, found.memory, found.update.after.micro_batch
    if fit is None or memory is None:
        today = f"the {found.today.slots_a_batch:,.0f} slots of an average batch today"
        if found.today.slots_a_batch < found.row_length:
            return f"one pack alone is more than {today}"
        return f"{many(most, 'pack')} at most {'takes' if most == 1 else 'take'} no more than {today}"
    need = f"{gigabytes(memory.total)} of {gigabytes(fit.room)}"
    how = ["each layer computed twice"] * fit.recompute
    if fit.shards > 1:
        how.append(f"weights, gradients and moments shared by the {fit.shards:,} devices (FSDP)")
    needed = f"about {need}" + f" with {' and '.join(how)}" * bool(how)
    fits = f"at most {many(fit.rows, 'pack')} {'fits' if fit.rows == 1 else 'fit'}"
    return f"{many(rows, 'pack')} {'takes' if rows == 1 else 'take'} {needed}, and {fits}"


def _than_packs(slots: float, packed: float) -> str:
    said = compared(slots, packed, "slots")
    return f"{said} {'as' if said.startswith('as many') else 'than'} packs"


def _about_none(found: Outcome, fit: Fit) -> tuple[str, str]:
    """Why not even one pack fits, and what would."""
    needed, row = 0.0 if found.memory is None else found.memory.total, found.row_length
    reason = (
        f"One pack of {row:,} tokens needs about {gigabytes(needed)} of {gigabytes(fit.room)} even with each layer "
        f"computed twice, so several devices have to share a row. Then {_update_of(found)} hold "
        f"{found.update.after.sequences_per_update:,.1f} sequences, {signed(found.update.off)} against today."
    )
    return reason, (
        f"Shorter rows: of at most {fit.longest:,} tokens one fits, if enough devices share weights, gradients and "
        "moments (FSDP)."
    )


def _update_of(found: Outcome) -> str:
    after = found.update.after
    devices = f" × {many(after.replicas, 'device')}" if after.replicas > 1 else ""
    return f"{after.micro_batch:,} × {after.gradient_accumulation_steps:,} packs{devices}"


def _about_pass(found: Outcome) -> Decision:
    rows, packs = found.update.after.global_batch, found.plan.num_packs
    last = packs - (found.updates - 1) * rows
    before = -(-found.today.rows // found.update.before.global_batch)
    reason = f"{many(packs, 'pack')} in updates of {rows:,}; today it is {many(before, 'update')}."
    other = "Every update is full."
    if last < rows and found.updates == 1:
        other = "There is nothing to choose."
    elif last < rows:
        left = "the last pack is" if last == 1 else f"the last {last:,} packs are"
        other = f"{many(found.updates - 1, 'update')}, if {left} left out."
    return Decision("One pass over the data", many(found.updates, "update"), reason, other)


def _about_cut(found: Outcome) -> Decision:
    top, all_tokens, now = found.row_length, found.whole.num_tokens, found.chosen
    piled_up, piled = found.piled_up
    suspect = ""
    if found.upstream:
        suspect = " " + _about_upstream(found, found.upstream)
    elif piled:
        suspect = (
            f" But {many(piled, 'sequence')} ({share_of(piled, found.whole.num_sequences)}) have exactly {piled_up:,} "
            "tokens, far more than any length near it: they may have been cut before they were counted. How many "
            "tokens that lost, only their lengths from before it can tell (--source)."
        )
    if not now.overlong:
        reason = f"The longest sequence has {int(found.whole.counts.nonzero()[0][-1]):,} tokens.{suspect}"
        return Decision("What is cut", "Nothing", reason, "There is nothing to choose.")
    are = "is" if now.overlong == 1 else "are"
    done = {"truncate": "cut off", "drop": "left out", "split": "moved to further pieces"}[found.overlong]
    other = "split" if found.overlong != "split" else "truncate"
    return Decision(
        "What is cut",
        f"{share_of(now.tokens_cut, all_tokens).capitalize()} of the tokens "
        f"{'lost' if found.overlong != 'split' else 'moved'}",
        f"{many(now.overlong, 'sequence')} ({share_of(now.overlong, found.whole.num_sequences)}) {are} longer than "
        f"{top:,}, and {now.tokens_cut:,} tokens are {done}.{suspect}",
        _cut_otherwise(found, other),
    )


def _about_upstream(found: Outcome, upstream: Upstream) -> str:
    source, whole, over, longest = upstream.source, found.whole, upstream.overlong, f"longer than {upstream.longest:,}"
    sizes = (
        f"It has {many(source.num_sequences, 'sequence')} and {many(source.num_tokens, 'token')}, and the data has "
        f"{whole.num_sequences:,} and {whole.num_tokens:,}"
    )
    if over <= upstream.left:
        return f"The source has no more sequences {longest} than the data, so none was cut before. {sizes}."
    if upstream.lost > 0:
        sizes += f", {upstream.lost:,} ({share_of(upstream.lost, source.num_tokens)}) fewer"
    return (
        f"In the source, {many(over, 'sequence')} ({share_of(over, source.num_sequences)}) "
        f"{'is' if over == 1 else 'are'} {longest}, and in the data {upstream.left:,}. {sizes}. "
        f"All tokens of the source take {compared(upstream.packs, found.plan.num_packs, 'packs')}, {upstream.packs:,}, "
        f"and its longest sequence a row of {int(source.counts.nonzero()[0][-1]):,}."
    )


def _cut_otherwise(found: Outcome, other: str) -> str:
    depth = found.plan.max_sequences_per_pack
    packs = fewest_packs(cut(found.whole, found.row_length, other), depth)
    lost = 0 if other == "split" else count_cut(found.whole, found.row_length, other)[1]
    loses = "nothing is lost" if not lost else f"{share_of(lost, found.whole.num_tokens)} of the tokens are lost"
    change = compared(packs, found.plan.num_packs, "packs")
    return f"{other.capitalize()} them instead: {loses}, with {change}, {packs:,}."


def _attention(found: Outcome) -> str:
    saved, of = found.skipping_saves, found.shape.name if found.shape else "Llama 3 8B"
    take = "attention that skips what lies between sequences (flash_attention_2, on a GPU)"
    if not found.skips:
        take = "scaled_dot_product_attention with a dense mask"
    return f"Take {take}: skipping saves {share_of(saved)} of the work of the layers (counted in FLOP, for {of})."


def _memory(found: Outcome) -> str:
    memory, rows = found.memory, found.update.after.micro_batch
    if memory is None or found.shape is None:
        return ""
    return (
        f"{found.shape.name} has {found.shape.parameters / 1e9:.3g} billion weights. With {many(rows, 'pack')} of "
        f"{found.row_length:,} tokens it takes {gigabytes(memory.states)} for weights, gradients and AdamW's "
        f"moments, and {gigabytes(memory.activations)} for activations. This is an estimate for bf16=True and a "
        "kernel that stores no attention scores."
    )


def _waiting(found: Outcome) -> str:
    waits, after = found.waiting, found.update.after
    if waits is None:
        return ""
    each = after.micro_batch * after.gradient_accumulation_steps
    return (
        f"If the packs are dealt at random to {after.replicas:,} replicas, which meet once in an update, the average "
        f"replica waits {share_of(waits.mean)} of the time for the slowest (95 % interval: {share_of(waits.low)} to "
        f"{share_of(waits.high)}). This is an estimate for {found.work.in_words}, without padding, communication and "
        f"loading. Packs.balance(ranks={after.replicas}, packs_per_rank={each}) deals them evenly, and says what is "
        "left, as notebook 13_balanced_work shows."
    )


def _positions(found: Outcome) -> str:
    longest, positions = int(found.histogram.counts.nonzero()[0][-1]), found.shape.positions if found.shape else None
    if not positions or longest <= positions:
        return ""
    return f"The longest sequence has {longest:,} tokens, and the model only {positions:,} positions: cut the rest."


def _depths_needed(found: Outcome) -> str:
    deepest = found.plan.deepest
    if found.depths or deepest <= 1:
        return ""
    return (
        f"A pack holds up to {many(deepest, 'sequence')}. No limit is needed unless the model has something once "
        "for each sequence, such as a pooler."
    )


def _reconstructed(found: Outcome) -> str:
    if found.whole.kind == "measured":
        return ""
    return f"The lengths are a {found.whole.kind}: count your own before you rely on the last digit."


def _about(number: float) -> str:
    """A large number in words: "18.5 million"."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:,.3g} {name}"
    return f"{number:,.0f}"


def _passes(count: int) -> str:
    return "1 forward pass" if count == 1 else f"{count:,} forward passes"
