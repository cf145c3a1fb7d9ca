"""Answers to the exercises of notebook 16 that its checkers must refuse, by the slip."""

import numpy as np

from packlib.workbook.chapters.n16_shared_prompts.lesson import group_tokens, tree_mask


def _blind_to_the_prompt(prompt, answers):
    mask = np.array(tree_mask(prompt, answers))
    mask[prompt - 1 :, : prompt - 1] = False
    return mask.tolist()


SLIPS = {
    "group_tokens": {
        "no heads": lambda prompt, answers: prompt + sum(answers),
        "a prompt for each answer": lambda prompt, answers: sum(prompt + length for length in answers),
        "heads beside a whole prompt": lambda prompt, answers: prompt + sum(length + 1 for length in answers),
        "one head": lambda prompt, answers: prompt + 1 + sum(answers),
    },
    "tree_positions": {
        "they run on": lambda prompt, answers: list(range(group_tokens(prompt, answers))),
        "answers from 0": lambda prompt, answers: [
            *range(prompt - 1),
            *(at for length in answers for at in range(length + 1)),
        ],
        "heads after the prompt": lambda prompt, answers: [
            *range(prompt - 1),
            *(prompt + at for length in answers for at in range(length + 1)),
        ],
        "no heads": lambda prompt, answers: [
            *range(prompt),
            *(prompt + at for length in answers for at in range(length)),
        ],
    },
    "tree_mask": {
        "causal alone": lambda prompt, answers: np.tri(group_tokens(prompt, answers)).astype(bool).tolist(),
        "answers do not see the prompt": _blind_to_the_prompt,
        "transposed": lambda prompt, answers: np.array(tree_mask(prompt, answers)).T.tolist(),
        "nobody sees itself": lambda prompt, answers: (
            np.array(tree_mask(prompt, answers)) & ~np.eye(group_tokens(prompt, answers), dtype=bool)
        ).tolist(),
        "no heads": lambda prompt, answers: np.ones([prompt + sum(answers)] * 2).tolist(),
    },
}
