"""The published pod in the calculator: its settings, what they reproduce, and what they cannot."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from packbook.n11_scaling_up.calculator import Phase, Setup, human, values_of

ON_CHIP = 900e6  # bytes of one processor
POD = Setup(offload=True)  # BERT-Large, 3 + 7 + 7 + 7 layers; speed and bandwidth are assumed
PREDICTIONS = {128: 20, 384: 56, 512: 76}  # masked tokens of a row


class Run(NamedTuple):
    """What the code behind "Delivering BERT-Large at scale" sets for one phase on 64 processors.

    Attributes:
        entry: where it stands below `nlp/bert` in graphcore/examples: folder, and name of the entry or the file.
        updates: None where they are not published.
        warm_up: the share of the updates in which the rate rises.
    """

    entry: str
    length: int
    micro_batch: int
    accumulation: int
    replicas: int
    updates: int | None
    warm_up: float
    peak_rate: float

    @property
    def batch(self) -> int:
        """Rows behind an update."""
        return self.micro_batch * self.accumulation * self.replicas


PUBLISHED = (
    Run("pytorch, pretrain_large_128_POD64", 128, 8, 512, 16, 7038, 0.28, 0.006),
    Run("pytorch, pretrain_large_512_POD64", 512, 2, 512, 16, 2137, 0.128, 0.002828),
    Run("tensorflow2, pretrain_large_128_phase1_POD64", 128, 8, 1020, 16, None, 0.28, 0.006),
    Run("tensorflow2, pretrain_large_384_phase2_POD64", 384, 2, 510, 16, None, 0.129, 0.002828),
)
PACKED = {128: (1.17, 1.15), 512: (1.99625, 1.913)}  # by length: packing factor and realized speed-up
PHASES = tuple(
    Phase(
        run.length, run.updates * run.batch, run.micro_batch, run.accumulation, factor, 1 - speed_up / factor,
        PREDICTIONS[run.length],
    )
    for run, (factor, speed_up) in zip(PUBLISHED[:2], PACKED.values(), strict=True) if run.updates
)  # fmt: skip


def make_pod(replicas: int, stages: int, **options: Any) -> Setup:
    """Replicas with as many stages each, at most 24; 4 stages in the published layout, else evenly."""
    layout = tuple((i + 1) * POD.layers // stages - i * POD.layers // stages for i in range(stages))
    layout = tuple(POD.layout) if stages == len(POD.layout) else layout
    return replace(POD, layout=layout, folded=layout == POD.layout or stages == 1, replicas=replicas, **options)


def two_phases(micro_batch: int, accumulation: int, factors: Sequence[float] = (1.0, 1.0)) -> list[Phase]:
    """The published phases with another batch and packing factors; a micro-batch of both has as many tokens.

    Rows without packing lose no time to it; packed ones lose what was published.
    """
    return [
        replace(
            phase, micro_batch=rows, gradient_accumulation_steps=accumulation, packing_factor=factor,
            overhead=phase.overhead if factor > 1 else 0.0,
        )
        for phase, rows, factor in zip(PHASES, (micro_batch, max(1, micro_batch // 4)), factors, strict=True)
    ]  # fmt: skip


def largest(name: str, **changes: Any) -> float:
    """The largest value of a line of the sheet, over both phases and all stages of the published pod so changed."""
    return max(max(values_of(replace(POD, **changes), phase)[name]) for phase in PHASES)


def against_published() -> list[tuple[str, str, str, str]]:
    """What was published about the pod, and what the sheet makes of it: figure, published, calculated, agrees.

    Sources: "Delivering BERT-Large at scale" and the code that it links (the pod); Krell et al. 2021,
    arXiv 2107.02027 (packing).
    """
    chip, twice, full = largest("ON_DEVICE"), largest("ON_DEVICE", recompute=False), largest("MEMORY")
    warm_up = [run.warm_up * run.updates for run in PUBLISHED if run.updates]
    speed_ups = {1.99625: 1.913, 1.17: 1.15, 1.70: 1.685}  # by packing factor
    expected = [factor * (1 - 0.043) for factor in speed_ups]
    near = all(abs(ours / theirs - 1) < 0.005 for ours, theirs in zip(expected, speed_ups.values(), strict=True))
    rows: list[tuple[str, str, str, bool | None]] = [
        (
            "updates of warm-up", "2,000, and 13 % of 2,100", f"{warm_up[0]:,.0f} and {warm_up[1]:,.0f}",
            abs(warm_up[0] / 2000 - 1) < 0.02 and abs(warm_up[1] / (0.13 * 2100) - 1) < 0.02,
        ),
        ("on chip", "900 MB hold the model", human(chip, "bytes"), chip <= ON_CHIP),
        ("recomputation", "of every layer", f"{human(twice, 'bytes')} without it", twice > ON_CHIP),
        ("optimizer state", "lives off chip", f"{human(full, 'bytes')} with it", full > ON_CHIP),
        ("realized speed-up", "1.913, 1.15, 1.685", ", ".join(f"{x:.3f}" for x in expected), near),
        ("against DGX A100", "2.6 times faster", "nothing: speeds are measured", None),
    ]  # fmt: skip
    said = {True: "yes", False: "no", None: "cannot say"}
    return [(figure, published, ours, said[agrees]) for figure, published, ours, agrees in rows]
