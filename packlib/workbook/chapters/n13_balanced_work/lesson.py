"""Notebook 13: equal tokens, unequal work."""

from functools import cache

from matplotlib.figure import Figure

from packlib.packing import Packs
from packlib.work import Work, waiting
from packlib.workbook.chapters.n13_balanced_work.figures import draw_windows, windows_in_words
from packlib.workbook.chapters.n13_balanced_work.runs import by_window, long_tail, packed
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice
from packlib.workbook.figures import new_figure
from packlib.workbook.questions import Question, Questions


@cache
def _long_packs(max_length: int, seed: int) -> Packs:
    return packed(long_tail(20_000, max_length, seed), max_length)


class Windows(Explorer):
    """What windows leave of waiting, and what they do to the mix, for rows, ranks and packs of a rank."""

    title = "How much waiting does a window leave?"
    telling = ("max_length", "packs_per_rank")

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.work = seed, Work.decoder()
        super().__init__()

    def controls(self):
        return {
            "max_length": choice("Row, tokens", [(f"{top:,}", top) for top in (8192, 32_768, 65_536)], 32_768),
            "ranks": choice("Ranks", [2, 4, 8, 16], 8),
            "packs_per_rank": choice("Packs a rank", [1, 2, 4, 8], 1),
        }

    def draw(self, max_length: int, ranks: int, packs_per_rank: int) -> tuple[Figure, str]:
        packs = _long_packs(max_length, self.seed)
        at_random = waiting(self.work.of(packs), ranks, packs_per_rank).mean
        found = by_window(packs, ranks, packs_per_rank, self.work, self.seed)
        fig, axes = new_figure(1, 2)
        draw_windows(axes, found, at_random)
        return (
            fig,
            f"{ranks} ranks, {packs_per_rank} packs each, rows of {max_length:,}. {windows_in_words(found, at_random)}",
        )


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
        why="The packs of a step are neighbors among those of eight steps, so the heaviest is little heavier than the "
        "others. With several packs for each rank heavy and light ones also make up for each other.",
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


def time_in_windows(works, ranks, window):
    """How long all steps take if packs are sorted within windows of so many steps."""
    size = window * ranks
    windows = [sorted(works[start : start + size]) for start in range(0, len(works), size)]
    return sum(sum(window[ranks - 1 :: ranks]) for window in windows)


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
            "time_in_windows",
            time_in_windows,
            cases=(
                ([4, 1, 3, 2], 2, 2), ([4, 1, 3, 2], 2, 1), ([9, 1, 8, 2, 7, 3], 2, 2), ([7, 7, 1], 3, 4),
                ([5, 1, 4, 2, 6, 3, 9, 9], 2, 3),
            ),
            wrong={
                "a random deal": lambda works, ranks, window: sum(
                    max(works[at : at + ranks]) for at in range(0, len(works), ranks)
                ),
                "sorts all packs": lambda works, ranks, window: sum(sorted(works)[ranks - 1 :: ranks]),
                "the lightest of each step": lambda works, ranks, window: sum(
                    sum(sorted(works[at : at + window * ranks])[::ranks])
                    for at in range(0, len(works), window * ranks)
                ),
                "windows of packs": lambda works, ranks, window: sum(
                    sum(sorted(works[at : at + window])[ranks - 1 :: ranks]) for at in range(0, len(works), window)
                ),
                "leaves out the last window": lambda works, ranks, window: sum(
                    sum(sorted(works[at : at + window * ranks])[ranks - 1 :: ranks])
                    for at in range(0, len(works) // (window * ranks) * window * ranks, window * ranks)
                ),
            },
            hint="a window holds window × ranks packs. Sort them, take ranks of them for each step, and add up the "
            "heaviest of each step.",
            level=3,
            minutes=20,
        ),
    ]
)  # fmt: skip
check = EXERCISES
