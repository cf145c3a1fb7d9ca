"""Notebook 11: BERT on a pod. Beside it: `scaling_parts`, `scaling_costs`, `scaling_pod`, and `scaling_ranks`."""

from dataclasses import replace

from packlib.training.scaling import calculate
from packlib.training.scaling.pod import ON_CHIP, PHASES, POD
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.parameters import Dataset, Whole

PARAMETERS = {
    "dataset": Dataset(),
    "stages": Whole(2, 24),
    "micro_batch": Whole(1, 512),
    "gradient_accumulation_steps": Whole(1, 65_536),
    "replicas": Whole(1, 4096),
}


def loss_weights(counts):
    """What each rank multiplies its own mean loss with, so that the mean over ranks is the mean over sequences."""
    return [len(counts) * count / sum(counts) for count in counts]


def fewest_micro_batches(stages, most):
    """The smallest accumulation whose bubble is at most `most` percent."""
    m = 1
    while 100 * (stages - 1) > most * (m + stages - 1):
        m += 1
    return m


FASTER = {
    "layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 4, "gradient_accumulation_steps": 1024, "recompute": False,
}  # fmt: skip


def _pod_fault(got):
    """Whether it is 20 % faster than the published pod, on as many devices and with the same batch."""
    if set(got) != set(FASTER):
        return f"it needs the keys {', '.join(FASTER)}, no other."
    setup = replace(POD, **{name: got[name] for name in ("layout", "replicas", "recompute")})
    phase = replace(PHASES[0], **{name: got[name] for name in ("micro_batch", "gradient_accumulation_steps")})
    of, published = (
        {line.name: line.value for line in calculate(pod, [part])}
        for pod, part in ((setup, phase), (POD, PHASES[0]))
    )
    if of["devices"] != published["devices"]:
        return f"that is {of['devices']} devices; there are {published['devices']}."
    if of["global_batch"] != published["global_batch"]:
        return f"the global batch is {of['global_batch']:,}, not {published['global_batch']:,}."
    if phase.gradient_accumulation_steps > 1024:
        return f"an accumulation of {phase.gradient_accumulation_steps:,} is more than 1,024."
    if max(of["ON_DEVICE"]) > ON_CHIP:
        return f"the fullest device holds {max(of['ON_DEVICE']) / 1e6:,.0f} MB, more than 900."
    if of["hours"] > 0.8 * published["hours"]:
        return f"it takes {of['hours']:.1f} hours; at most {0.8 * published['hours']:.1f} are asked for."
    return None


EXERCISES = Exercises([
    Exercise(
        "loss_weights", loss_weights,
        cases=(([5],), ([1, 3],), ([8, 32],), ([4, 4, 4],), ([7, 0, 2, 3],)),
        wrong={
            "all the same": lambda counts: [1.0 for _ in counts],
            "forgets that ranks are averaged": lambda counts: [count / sum(counts) for count in counts],
            "only the number of ranks": lambda counts: [float(len(counts)) for _ in counts],
        },
        hint="first give each rank its share of all sequences; then undo the division by the number of ranks.",
    ),
    Exercise(
        "fewest_micro_batches", fewest_micro_batches,
        cases=((1, 5), (2, 50), (2, 10), (4, 10), (4, 1), (8, 3)),
        wrong={
            "one too few": lambda stages, most: max(1, fewest_micro_batches(stages, most) - 1),
            "(s - 1) / m": lambda stages, most: max(1, -(-100 * (stages - 1) // most)),
            "forgets the minus one": lambda stages, most: max(1, -(-100 * stages // most) - stages),
        },
        hint="solve (s - 1) / (m + s - 1) ≤ most / 100 for m, round up, and take at least 1.",
    ),
    Exercise(
        "faster_pod", FASTER, fault=_pod_fault,
        wrong={
            "the published pod": {"layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 8,
                                  "gradient_accumulation_steps": 512, "recompute": True},
            "even stages alone": {"layout": (6, 6, 6, 6), "replicas": 16, "micro_batch": 8,
                                  "gradient_accumulation_steps": 512, "recompute": True},
            "does not fit": {"layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 8,
                             "gradient_accumulation_steps": 512, "recompute": False},
            "accumulates too long": {"layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 2,
                                     "gradient_accumulation_steps": 2048, "recompute": False},
            "a smaller batch": {"layout": (3, 7, 7, 7), "replicas": 16, "micro_batch": 2,
                                "gradient_accumulation_steps": 1024, "recompute": False},
        },
        hint="what takes most of the time, and what would have to shrink to do without it?",
    ),
])  # fmt: skip
check = EXERCISES.check
