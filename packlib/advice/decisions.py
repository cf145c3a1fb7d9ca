"""What advice says: decisions and notes in sentences, made of the numbers of an `Advice` by two templates."""

import re
from typing import TYPE_CHECKING, NamedTuple

from packlib.advice.depths import fewest_packs
from packlib.advice.micro_batch import EVIDENCE
from packlib.advice.row_lengths import WORTH, RowLength, choose, count_cut, cut, cuts_less
from packlib.advice.words import filled, parts_of
from packlib.training.adjustment import TOLERATED

if TYPE_CHECKING:
    from packlib.advice.advice import Advice


class Decision(NamedTuple):
    """What to do about one thing, why, and what the next best choice would cost."""

    about: str
    choice: str
    reason: str
    runner_up: str


def decisions(found: "Advice") -> tuple[Decision, ...]:
    """What to do, in the order of the page, as `decisions.jinja` says it."""
    now, all_tokens, before = found.now, found.whole.num_tokens, found.update.before
    otherwise = "truncate" if found.overlong == "split" else "split"
    text = filled(
        "decisions.jinja",
        found=found,
        tokens=all_tokens,
        worth=WORTH,
        tolerated=TOLERATED,
        better=choose(found.row_lengths, now.max_length),
        longer=cuts_less(found.row_lengths, now, all_tokens),
        other_row=_other_row(found),
        habit=min(found.habits, key=lambda one: one.slots),
        evidence=EVIDENCE[before.optimizer],
        updates_today=-(-found.today.rows // before.global_batch),
        otherwise=otherwise,
        lost_otherwise=0 if otherwise == "split" else count_cut(found.whole, found.row_length, otherwise)[1],
        packs_otherwise=fewest_packs(cut(found.whole, found.row_length, otherwise), found.plan.max_sequences_per_pack),
    )
    return tuple(Decision(about, *_paragraphs(part)) for about, part in parts_of(text).items())


def notes(found: "Advice") -> tuple[str, ...]:
    """What else to know, in sentences; behind the fold of the page."""
    return tuple(_paragraphs(filled("notes.jinja", found=found)))


def _paragraphs(text: str) -> list[str]:
    """What stands between blank lines, each in one line."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return [re.sub(r"\s*\n", " ", paragraph).strip() for paragraph in paragraphs]


def _other_row(found: "Advice") -> RowLength | None:
    """The best of the rows that cut no more tokens than those of now, beside these; None if there is none."""
    others = [row for row in found.row_lengths if row is not found.now and row.tokens_cut <= found.now.tokens_cut]
    return min(others, key=lambda row: (not row.counted, row.slots_a_token), default=None)
