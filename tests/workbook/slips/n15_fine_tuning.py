"""Answers to the exercises of notebook 15 that its checkers must refuse, by the slip."""

from packlib.workbook.chapters.n15_fine_tuning.lesson import group_weights, slot_weights


def _here(labels, segments):
    """How many sequences of a micro-batch have a predicted token."""
    weights = slot_weights(labels, segments, 1)
    pairs = [
        (row, mine) for row, owner in enumerate(segments) for mine, one in zip(owner, weights[row], strict=True) if one
    ]
    return len(set(pairs))


def _across_borders(labels, segments, sequences):
    """The slip of a loss that does not look where a sequence ends."""
    weights = []
    for row, owner in zip(labels, segments, strict=True):
        asked = [after if after > 0 and label != -100 else 0 for after, label in zip(owner[1:], row[1:], strict=True)]
        weights.append([1 / (sequences * asked.count(one)) if one else 0.0 for one in asked] + [0.0])
    return weights


SLIPS = {
    "asked": {
        "all tokens": lambda turns: sum(tokens for _, tokens in turns),
        "the last answer alone": lambda turns: turns[-1][1] if turns[-1][0] == "assistant" else 0,
        "one token less for each answer": lambda turns: sum(n - 1 for role, n in turns if role == "assistant"),
        "forgets the beginning only if it is short": lambda turns: (
            sum(n for role, n in turns if role == "assistant") - (turns[0] == ["assistant", 1])
        ),
        "the first token of a chat too": lambda turns: sum(n for role, n in turns if role == "assistant"),
    },
    "group_weights": {
        "a mean over tokens": lambda lengths, groups: [1 / sum(lengths)] * len(lengths),
        "a mean over sequences": lambda lengths, groups: [1 / (len(lengths) * length) for length in lengths],
        "the mean of the answers' means": lambda lengths, groups: [
            1 / (len(set(groups)) * groups.count(group) * length)
            for length, group in zip(lengths, groups, strict=True)
        ],
        "the largest number for the number of groups": lambda lengths, groups: [
            weight * len(set(groups)) / (max(groups) + 1) for weight in group_weights(lengths, groups)
        ],
        "a sum over groups": lambda lengths, groups: [
            weight * len(set(groups)) for weight in group_weights(lengths, groups)
        ],
    },
    "slot_weights": {
        "where the label stands": lambda *given: [[0.0, *row[:-1]] for row in slot_weights(*given)],
        "across borders": _across_borders,
        "divided by prompts too": lambda labels, segments, sequences: [
            [1 / (sequences * owner.count(mine)) if weight else 0.0 for weight, mine in zip(row, owner, strict=True)]
            for row, owner in zip(slot_weights(labels, segments, sequences), segments, strict=True)
        ],
        "the mean of this micro-batch": lambda labels, segments, sequences: slot_weights(
            labels, segments, _here(labels, segments)
        ),
    },
}
