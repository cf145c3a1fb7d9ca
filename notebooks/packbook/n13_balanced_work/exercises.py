"""The exercises of notebook 13, in its order."""

from packbook.exercises import Exercise, Exercises


def pack_work(lengths, per_token, per_square):
    """Return the work of a pack: `per_token` for each token, `per_square` for each squared token of length."""
    return sum(per_token * length + per_square * length**2 for length in lengths)


def draw_pack(rng):
    """Draw the lengths of a pack, and the work for each token and for each squared token."""
    return [rng.randint(1, 9) for _ in range(rng.randint(1, 5))], rng.randint(1, 10), rng.randint(1, 3)


def share_waited(steps):
    """Return the share of time that the average rank waits; `steps` has the work of each rank in each step."""
    slowest = sum(max(ranks) for ranks in steps)
    mean = sum(sum(ranks) / len(ranks) for ranks in steps)
    return 1 - mean / slowest


def draw_steps(rng):
    """Draw the work of each rank in one to four steps."""
    ranks = rng.randint(2, 4)
    return ([[rng.randint(1, 9) for _ in range(ranks)] for _ in range(rng.randint(1, 4))],)


def time_in_windows(works, ranks, window):
    """Return the time of all steps if packs are sorted within windows of `window` steps."""
    size = window * ranks
    windows = [sorted(works[start : start + size]) for start in range(0, len(works), size)]
    return sum(sum(packs[ranks - 1 :: ranks]) for packs in windows)  # the heaviest pack of each step


def draw_works(rng):
    """Draw the work of packs for one to five whole steps, the number of ranks, and a window in steps."""
    ranks = rng.randint(2, 4)
    return [rng.randint(1, 9) for _ in range(ranks * rng.randint(1, 5))], ranks, rng.randint(1, 3)


def time_without_the_smaller_last_window(works, ranks, window):
    """Return the time of the steps in whole windows."""
    whole = len(works) // (window * ranks) * window * ranks
    return time_in_windows(works[:whole], ranks, window)


check = Exercises(
    [
        Exercise(
            "pack_work",
            pack_work,
            level=1,
            minutes=5,
            draw=draw_pack,
            hint="a token is compared with those of its own sequence only.",
            slips={
                "that squares the length of the pack; a token is compared with those of its own sequence only.": (
                    lambda lengths, per_token, per_square: per_token * sum(lengths) + per_square * sum(lengths) ** 2
                ),
                "that counts the pairs of tokens and leaves out the work of the tokens themselves.": (
                    lambda lengths, per_token, per_square: per_square * sum(length**2 for length in lengths)
                ),
            },
        ),
        Exercise(
            "share_waited",
            share_waited,
            level=2,
            minutes=10,
            draw=draw_steps,
            hint="every step lasts as long as its slowest rank; add up those first.",
            slips={
                "that is the mean of the steps' own shares, in which a short step counts as much as a long one.": (
                    lambda steps: sum(1 - sum(ranks) / len(ranks) / max(ranks) for ranks in steps) / max(1, len(steps))
                ),
                "that is the share of the time that the average rank works; the rest is what it waits.": (
                    lambda steps: 1 - share_waited(steps)
                ),
                "that compares the fastest rank of a step with the slowest; the average rank waits less.": (
                    lambda steps: 1 - sum(map(min, steps)) / sum(map(max, steps))
                ),
            },
        ),
        Exercise(
            "time_in_windows",
            time_in_windows,
            level=3,
            minutes=20,
            draw=draw_works,
            hint=(
                "a window holds window × ranks packs. Sort them, take ranks of them for each step, and add up the "
                "heaviest of each step."
            ),
            slips={
                "that deals the packs as they come, without sorting the window.": (
                    lambda works, ranks, window: time_in_windows(works, ranks, 1)
                ),
                "that sorts all packs; only those of one window may change places.": (
                    lambda works, ranks, window: time_in_windows(works, ranks, len(works))
                ),
                "the last window may have fewer steps than the others, and they take time too.": (
                    time_without_the_smaller_last_window
                ),
            },
        ),
    ]
)
