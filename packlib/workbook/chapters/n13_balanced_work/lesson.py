"""Notebook 13: equal tokens, unequal work."""

from ipywidgets import Checkbox
from matplotlib.figure import Figure

from packlib.work import Work
from packlib.work.cost import squares_of
from packlib.workbook.chapters.n13_balanced_work.figures import draw_ranks, told
from packlib.workbook.chapters.n13_balanced_work.runs import balanced_step, one_step
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import new_figure
from packlib.workbook.questions import Question, Questions


class WhoWaits(Explorer):
    """One step of a few ranks, with one long sequence: who waits, packed as it comes and balanced."""

    title = "One long sequence: who waits for whom?"
    telling = ("longest", "balanced")
    slots = 131_072

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.work = seed, Work.decoder()
        super().__init__()

    def controls(self):
        return {
            "longest": slider("Longest sequence", 20_000, 130_000, value=100_000, step=10_000),
            "ranks": choice("Ranks", [2, 4, 8, 16], 8),
            "balanced": Checkbox(False, description="Balanced"),
        }

    def draw(self, longest: int, ranks: int, balanced: bool) -> tuple[Figure, str]:
        lengths, packs = one_step(longest, ranks, self.slots, self.seed)
        made = balanced_step(lengths, packs, ranks, self.work)
        squares = made.squares if balanced else squares_of(packs, lengths)
        tokens = made.lengths_used if balanced else packs.lengths_used
        each = self.work.total(tokens, squares)
        fig, ax = new_figure()
        draw_ranks(ax, tokens, squares, self.work)
        ax.axvline(made.lower_bound / each.mean(), color="#222222", linestyle=":")
        wait = 100 * (1 - each.mean() / each.max())
        ax.set_title(f"The average rank waits {wait:.0f} % of the time")
        way = "balanced" if balanced else "packs as they come"
        alt = f"{ranks} ranks with a pack of {self.slots:,} slots each, {way}, a sequence of {longest:,} tokens: "
        bound = f"no deal is below {made.lower_bound / each.mean():.2f} times the mean"
        return fig, f"{alt}{told(tokens, squares, self.work)}; {bound} (dotted)."


QUESTIONS = Questions(
    two_packs=Question(
        "How many times the work of the short sequences is that of the long one?",
        unit="times",
        truth=lambda long, short: long / short,
        why="Both have as many tokens, so the matrix products cost the same. Only attention differs: each token of the "
        "long sequence is compared with all tokens before it, and each token of a short one with few.",
    ),
    waiting_now=Question(
        "What share of the time does the average rank wait, in percent?",
        unit="%",
        truth=lambda now: 100 * now,
        why="A step lasts as long as its slowest rank. With more ranks it is more likely that one of them holds a pack "
        "with a very long sequence.",
    ),
    sorted_packs=Question(
        "What does that spoil: the cap, the mix of lengths or nothing?",
        truth="the mix of lengths",
        why="No pack is changed, so the cap holds. But a step now holds packs of one kind: some steps see only long "
        "documents and others none, so a step's gradient is no longer that of a random sample.",
        choices={
            "the cap": "The packs are those we had; they only come in another order.",
            "the mix of lengths": "",
            "nothing": "Look at which packs meet in a step.",
        },
    ),
    waiting_then=Question(
        "What share of the time does the average rank wait now, in percent?",
        unit="%",
        truth=lambda schedule: 100 * schedule.waiting,
        why=lambda schedule: (
            f"The bound says that at least {100 * max(0, 1 - schedule.mean / schedule.lower_bound):.1f} % cannot be "
            "avoided in these steps. Where this is above 0, long sequences keep their ranks slow, whatever the others "
            "do. A better deal can gain at most the rest."
        ),
    ),
    sharing=Question(
        "Sixteen ranks share a pack. Messages aside, which way takes the least time: sequence, pack or whole?",
        truth=lambda seconds: min(seconds, key=seconds.get),
        why=lambda seconds: (
            "In shares of an even deal without padding: "
            + ", ".join(f"{sharding} {time:.3f}" for sharding, time in seconds.items())
            + ". Cut sequences are even but padded, a cut pack is uneven, and one whole sequence can be most of a "
            "pack's work."
        ),
        choices={
            "sequence": "All ranks are even, but short sequences get much padding.",
            "pack": "It is hardly padded, but chunks at the end of long sequences have more to see.",
            "whole": "One sequence can be most of the pack, and its rank keeps fifteen others waiting.",
        },
    ),
)
reveal = QUESTIONS.reveal


# Exercises


def pack_work(lengths, per_token, per_square):
    """The work of a pack: `per_token` for each token, `per_square` for each squared token of length."""
    return sum(per_token * length + per_square * length**2 for length in lengths)


def share_waited(steps):
    """The share of the time that the average rank waits; `steps` has the work of each rank in each step."""
    slowest = sum(max(ranks) for ranks in steps)
    mean = sum(sum(ranks) / len(ranks) for ranks in steps)
    return 1 - mean / slowest


def step_bound(lengths, ranks, cap, per_token, per_square):
    """Work that the slowest of `ranks` has at least when each gets one pack of at most `cap` tokens."""
    mean = pack_work(lengths, per_token, per_square) / ranks
    forced = sum(lengths) - (ranks - 1) * cap
    longest = max(lengths)
    return max(mean, per_token * max(longest, forced) + per_square * longest**2)


EXERCISES = Exercises(
    [
        Exercise(
            "pack_work",
            pack_work,
            cases=(([3], 1, 1), ([2, 2], 10, 1), ([4], 10, 1), ([5, 1, 1], 3, 2)),
            wrong={
                "squares the whole pack": lambda x, a, b: a * sum(x) + b * sum(x) ** 2,
                "forgets the tokens": lambda x, a, b: b * sum(y * y for y in x),
                "one square": lambda x, a, b: a * sum(x) + b * max(x) ** 2,
            },
            hint="a token is compared with those of its own sequence only.",
            level=1,
            minutes=5,
        ),
        Exercise(
            "share_waited",
            share_waited,
            cases=(([[1, 1]],), ([[2, 1]],), ([[3, 1], [1, 3]],), ([[4, 2, 3], [1, 1, 1]],)),
            wrong={
                "the mean of the steps' shares": lambda steps: (
                    sum(1 - sum(r) / len(r) / max(r) for r in steps) / len(steps)
                ),
                "adds up ranks first": lambda steps: 1 - sum(map(sum, steps)) / len(steps[0]) / max(
                    sum(r[i] for r in steps) for i in range(len(steps[0]))
                ),
                "compares with the fastest": lambda steps: 1 - sum(map(min, steps)) / sum(map(max, steps)),
            },
            hint="every step lasts as long as its slowest rank; add up those first.",
            level=2,
            minutes=10,
        ),
        Exercise(
            "step_bound",
            step_bound,
            cases=(
                ([4, 4], 2, 8, 1, 1), ([8, 1, 1], 2, 8, 1, 1), ([8, 1, 1], 2, 8, 100, 1), ([8, 4, 4, 3], 2, 10, 2, 1),
                ([6, 5, 3, 2], 2, 8, 10, 1), ([30, 2, 2, 2, 2, 2], 3, 32, 5, 1),
            ),
            wrong={
                "the mean alone": lambda x, r, cap, a, b: pack_work(x, a, b) / r,
                "the longest alone": lambda x, r, cap, a, b: pack_work([max(x)], a, b),
                "forgets the forced tokens": lambda x, r, cap, a, b: max(
                    pack_work(x, a, b) / r, pack_work([max(x)], a, b)
                ),
                "a full pack for the longest": lambda x, r, cap, a, b: max(
                    pack_work(x, a, b) / r, a * cap + b * max(x) ** 2
                ),
            },
            hint="the packs of the others hold at most (ranks - 1) × cap tokens; the rank of the longest sequence has "
            "the rest at least, and never fewer tokens than that sequence.",
            level=3,
            minutes=20,
        ),
    ]
)  # fmt: skip
check = EXERCISES
