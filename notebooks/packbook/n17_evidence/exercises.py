"""The exercises of notebook 17, in its order."""

import itertools

import numpy as np
from scipy.stats import t

from packbook.exercises import Exercise, Exercises
from packbook.n17_evidence.runs import students_factor


def paired_interval(first, second, t):
    """Return the lowest and highest mean difference of `first` less `second`; `t` is Student's factor."""
    d = [a - b for a, b in zip(first, second, strict=True)]
    n, mean = len(d), sum(d) / len(d)
    s = (sum((x - mean) ** 2 for x in d) / (n - 1)) ** 0.5
    return mean - t * s / n**0.5, mean + t * s / n**0.5


def draw_arms(rng):
    """Draw the losses of two arms with two to five seeds, and Student's factor for that number."""
    seeds = rng.randint(2, 5)
    first, second = ([round(rng.uniform(1, 3), 2) for _ in range(seeds)] for _ in range(2))
    return first, second, round(students_factor(seeds), 3)


def not_in_pairs(first, second, t):
    """Return the interval from the deviation of each arm."""
    half = t * ((np.var(first, ddof=1) + np.var(second, ddof=1)) / len(first)) ** 0.5
    mean = np.mean(first) - np.mean(second)
    return float(mean - half), float(mean + half)


def with_n_below(first, second, t):
    """Return the interval from the deviation with n in the denominator."""
    d = np.subtract(first, second)
    half = t * d.std() / len(d) ** 0.5
    return float(d.mean() - half), float(d.mean() + half)


def sign_flip_p(differences):
    """Return the share of all ways to flip signs whose sum is at least as far from 0 as the observed sum."""
    observed = abs(sum(differences))
    flipped = [
        abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(distance >= observed - 1e-12 for distance in flipped) / len(flipped)


def draw_differences(rng):
    """Draw up to six differences, of which none is 0."""
    return ([rng.choice([-3, -2, -1, 1, 2, 3, 4]) / 2 for _ in range(rng.randint(1, 6))],)


def one_tail(differences):
    """Return the share of all ways to flip signs whose sum is at least the observed sum."""
    observed = sum(differences)
    flipped = [
        sum(sign * d for sign, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(total >= observed - 1e-12 for total in flipped) / len(flipped)


def choose_seeds(deviation, wanted, arms, most):
    """Find the fewest seeds for which all `arms` intervals together hold with 95 %, each at most ± `wanted`; or 0."""
    confidence = 1 - 0.05 / arms
    for n in range(2, most + 1):
        if t.ppf((1 + confidence) / 2, n - 1) * deviation / n**0.5 <= wanted:
            return n
    return 0


def draw_plan(rng):
    """Draw a deviation, a half width, the number of arms, and the most seeds."""
    return 0.1, rng.choice([0.02, 0.05, 0.1, 0.2]), rng.randint(1, 8), rng.choice([5, 20, 100])


check = Exercises(
    [
        Exercise(
            "paired_interval",
            paired_interval,
            level=1,
            minutes=10,
            draw=draw_arms,
            cases=[([2.0, 2.0], [1.0, 1.0], 12.7), ([5.4, 5.3, 5.5], [5.2, 5.3, 5.1], 4.303)],
            hint="subtract first, then take the mean and the deviation of the differences, dividing by n - 1.",
            slips={
                "that takes the deviation of each arm; subtract seed by seed first.": not_in_pairs,
                "the deviation of the differences has n - 1 below the line, not n.": with_n_below,
            },
        ),
        Exercise(
            "sign_flip_p",
            sign_flip_p,
            level=2,
            minutes=15,
            draw=draw_differences,
            cases=[([1.0],), ([1.0, -1.0],), ([0.1, 0.2, 0.3, 0.4, 0.1],)],
            hint="itertools.product((1, -1), repeat=n) gives all ways to flip; count both tails, and the observed one.",
            slips={
                "that counts the positive differences; flip their signs in all ways.": (
                    lambda differences: sum(d > 0 for d in differences) / len(differences)
                ),
                "a sum is as far from 0 below it as above it: count both tails.": one_tail,
            },
        ),
        Exercise(
            "choose_seeds",
            choose_seeds,
            level=3,
            minutes=20,
            draw=draw_plan,
            cases=[(0.1, 0.1, 1, 100), (0.1, 0.05, 6, 100), (0.1, 0.01, 3, 20), (0.06, 0.1, 6, 7)],
            hint=(
                "try n from 2 on; each of the intervals gets the confidence 1 - 0.05 / arms; scipy.stats.t.ppf knows "
                "the factor."
            ),
            slips={
                "`most` seeds are allowed, too.": (
                    lambda deviation, wanted, arms, most: choose_seeds(deviation, wanted, arms, most - 1)
                ),
                "no more than `most` seeds are allowed.": (
                    lambda deviation, wanted, arms, most: choose_seeds(deviation, wanted, arms, 5000)
                ),
                "all intervals together must hold with 95 %, so each needs more.": (
                    lambda deviation, wanted, arms, most: choose_seeds(deviation, wanted, 1, most)
                ),
            },
        ),
    ]
)
