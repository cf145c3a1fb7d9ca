"""The exercises of notebook 11, in its order."""

import math

from packbook.exercises import Exercise, Exercises


def loss_weights(counts):
    """Return each rank's factor for its own mean loss, so that the mean over ranks is the mean over sequences."""
    return [len(counts) * count / sum(counts) for count in counts]


def draw_counts(rng):
    """Draw how many sequences each rank has; the last rank has at least one."""
    return ([rng.randint(0, 9) for _ in range(rng.randint(1, 4))] + [rng.randint(1, 9)],)


def round_at_random(value, spacing, draw):
    """Round `value` to a multiple of `spacing`: up if `draw`, uniform from 0 to 1, says so."""
    steps = value / spacing
    below = math.floor(steps)
    return (below + (draw < steps - below)) * spacing


def draw_rounding(rng):
    """Draw a value, a spacing and a draw that is not close to the border, where floating-point errors would decide."""
    while True:
        value, spacing, draw = rng.randint(-40, 40) / 8, rng.choice([1, 0.5, 2]), rng.randint(1, 99) / 100
        if abs(value / spacing % 1 - draw) > 0.005:
            return value, spacing, draw


def first_lamb_step(weights, gradient, rate, decay):
    """Return a tensor's values after LAMB's first update, with bias correction and epsilon 0."""
    signs = (math.copysign(1.0, g) for g in gradient)  # m̂ is the gradient, and v̂ its square
    u = [sign + decay * x for sign, x in zip(signs, weights, strict=True)]
    ratio = math.hypot(*weights) / math.hypot(*u) if any(weights) and any(u) else 1.0
    return [x - rate * ratio * part for x, part in zip(weights, u, strict=True)]


def draw_lamb(rng):
    """Draw up to three weights, their gradient, a rate and a decay."""
    size = rng.randint(1, 3)
    weights = [rng.randint(-6, 6) / 2 for _ in range(size)]
    gradient = [rng.choice([-1, 1]) * rng.randint(1, 30) / 10 for _ in range(size)]
    return weights, gradient, rng.choice([0.1, 0.02]), rng.choice([0.0, 0.25])


def with_the_gradient(weights, gradient, rate, decay):
    """Return the weights after LAMB's first update if the gradient were not divided by the root of its square."""
    u = [g + decay * x for g, x in zip(gradient, weights, strict=True)]
    ratio = math.hypot(*weights) / math.hypot(*u) if any(weights) and any(u) else 1.0
    return [x - rate * ratio * part for x, part in zip(weights, u, strict=True)]


def adamw(weights, gradient, rate, decay):
    """Return the weights after AdamW's first update."""
    return [x - rate * (math.copysign(1.0, g) + decay * x) for x, g in zip(weights, gradient, strict=True)]


def decay_outside_the_ratio(weights, gradient, rate, decay):
    """Return the weights after LAMB's first update if the decay were not scaled by the trust ratio."""
    without = first_lamb_step(weights, gradient, rate, 0.0)
    return [x - rate * decay * old for x, old in zip(without, weights, strict=True)]


check = Exercises(
    [
        Exercise(
            "loss_weights",
            loss_weights,
            level=1,
            minutes=10,
            draw=draw_counts,
            hint="first give each rank its share of all sequences; then undo the division by the number of ranks.",
            slips={
                "that leaves the mean of means as it is: a sequence of a rank with few weighs more.": (
                    lambda counts: [1.0 for _ in counts]
                ),
                "those are the shares; the average over ranks divides once more by their number.": (
                    lambda counts: [count / sum(counts) for count in counts]
                ),
                "that gives a rank with more sequences less weight; its mean already divides by them.": (
                    lambda counts: [sum(counts) / max(1, count) / len(counts) for count in counts]
                ),
            },
        ),
        Exercise(
            "round_at_random",
            round_at_random,
            level=2,
            minutes=10,
            draw=draw_rounding,
            cases=[(0.5, 1, 0.25), (0.5, 1, 0.75), (3.0, 1, 0.1), (-0.25, 1, 0.5), (-0.25, 1, 0.8)],
            hint="`math.floor` gives the lower neighbor of negative numbers, too; go up if `draw` is below the rest.",
            slips={
                "that tosses a coin: both neighbors are equally likely, wherever the value lies between them.": (
                    lambda value, spacing, draw: (math.floor(value / spacing) + (draw < 0.5)) * spacing
                ),
                "`int` cuts toward 0, so a negative value starts from its upper neighbor.": (
                    lambda value, spacing, draw: (
                        (int(value / spacing) + (draw < value / spacing - int(value / spacing))) * spacing
                    )
                ),
                "that goes up where it should go down: a draw is small more often if the rest is large.": (
                    lambda value, spacing, draw: (
                        (math.floor(value / spacing) + (draw >= value / spacing - math.floor(value / spacing)))
                        * spacing
                    )
                ),
                "that rounds to the nearest neighbor, whatever the draw.": (
                    lambda value, spacing, draw: math.floor(value / spacing + 0.5) * spacing
                ),
            },
        ),
        Exercise(
            "first_lamb_step",
            first_lamb_step,
            level=3,
            minutes=15,
            draw=draw_lamb,
            cases=[
                ([2.0], [1.0], 0.1, 0.0),
                ([3.0, 4.0], [-10.0, 0.1], 0.02, 0.5),
                ([0.0, 0.0], [1.0, -2.0], 0.1, 0.5),
            ],
            hint=(
                "at the first step m̂ / √v̂ is the sign of the gradient; add the decay; the ratio is ‖x‖ / ‖u‖, or 1 "
                "where ‖x‖ is 0."
            ),
            slips={
                "that is AdamW: the trust ratio is missing.": adamw,
                "the decay belongs inside the ratio: u is the sum of both.": decay_outside_the_ratio,
                "that takes the gradient itself; AdamW divides it by the root of its square first.": with_the_gradient,
            },
        ),
    ]
)
