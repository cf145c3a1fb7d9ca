"""Answers that share a prompt: rows by `pack_trees`, beside groups kept whole and beside a prompt for each answer.

`python data/record.py groups` writes data/benchmarks/groups.csv. Lengths are synthetic: log-normal, each family
with a mean of the logarithm for prompts and one for answers, and a standard deviation of 0.6; prompts are cut to three
quarters of a row, and answers to what the prompt leaves.
"""

from functools import partial

import numpy as np

from benchmarks.table import record, timed
from packlib.packing import group_trees, pack_tree_lengths, plan

FAMILIES = {  # what prompts and answers are like: means of the logarithms, answers, slots of a row
    "long prompts, 8 rollouts": (9.0, 7.0, 8, 32_768),
    "long prompts, 16 rollouts": (9.0, 7.0, 16, 32_768),
    "questions on long documents, 8": (9.8, 5.5, 8, 32_768),
    "questions on long documents, 16": (9.8, 5.5, 16, 32_768),
    "short prompts, 8 rollouts": (5.5, 8.0, 8, 32_768),
    "short prompts, 16 rollouts": (5.5, 8.0, 16, 32_768),
    "pairs of a preference": (6.5, 6.0, 2, 4_096),
    "four choices": (6.0, 2.0, 4, 2_048),
    "code with 32 attempts": (8.0, 7.5, 32, 16_384),
}
SIZES = {64: (0, 1, 2), 256: (0, 1, 2), 1024: (0,)}  # groups, and the seeds of their draws


def draw(prompt: float, answer: float, number: int, top: int, groups: int, seed: int) -> tuple[np.ndarray, list]:
    """Return the lengths of the prompts, and for each those of its answers."""
    rng = np.random.default_rng(seed)
    prompts = rng.lognormal(prompt, 0.6, groups).clip(16, 3 * top // 4).astype(int)
    return prompts, [rng.lognormal(answer, 0.6, number).clip(1, top - one).astype(int) for one in prompts]


def whole_groups(prompts: np.ndarray, answers: list, top: int) -> int:
    """Count rows by best fit of whole groups; one too long for a row is first cut into pieces by best fit."""
    pieces = []
    for prompt, own in zip(prompts.tolist(), answers, strict=True):
        shared, branches = prompt - 1, own + 1
        if shared + branches.sum() <= top:
            pieces.append(shared + branches.sum())
        else:
            pieces += (shared + plan(branches, top - shared, "lpfhp").assign(branches).lengths_used).tolist()
    return plan(pieces, top, "lpfhp").num_packs


def one_draw(name: str, groups: int, seed: int) -> dict:
    *kind, top = FAMILIES[name]
    prompts, answers = draw(*kind, top, groups, seed)
    alone = np.concatenate([prompt + own for prompt, own in zip(prompts, answers, strict=True)])
    trees = group_trees(prompts, answers)
    first, its_seconds = timed(partial(pack_tree_lengths, trees, top, tries=0))
    rows, seconds = timed(partial(pack_tree_lengths, trees, top))
    whole = whole_groups(prompts, answers, top)
    return {
        "family": name,
        "groups": groups,
        "seed": seed,
        "at least": rows.lower_bound,
        "rows": len(rows),
        "above": f"{len(rows) / rows.lower_bound - 1:.2%}",
        "whole groups": whole,
        "they are above": f"{whole / rows.lower_bound - 1:.2%}",
        "a prompt for each answer": plan(alone, top, "lpfhp").num_packs,
        "tokens unshared ÷ shared": f"{rows.unshared_tokens / rows.tokens:.2f}",
        "CPU s": f"{seconds:.1f}",
        "first pass": len(first),
        "its CPU s": f"{its_seconds:.2f}",
    }


def main() -> None:
    rows = (one_draw(name, groups, seed) for groups, seeds in SIZES.items() for name in FAMILIES for seed in seeds)
    record("groups.csv", rows, "python data/record.py groups", ("numpy", "highspy"))
