"""The exercises of notebook 15, in its order."""

from collections import Counter

from packbook.exercises import Exercise, Exercises


def group_weights(lengths, groups):
    """Return the weight of one token of each answer in the mean over groups of the mean over the tokens of each."""
    tokens = Counter()
    for length, group in zip(lengths, groups, strict=True):
        tokens[group] += length
    return [1 / (len(tokens) * tokens[group]) for group in groups]


def draw_answers(rng):
    """Draw the tokens of up to six answers, and the group of each."""
    answers = rng.randint(1, 6)
    return [rng.randint(1, 12) for _ in range(answers)], [rng.choice([0, 1, 4]) for _ in range(answers)]


def asked(turns):
    """Count the tokens of a chat that are predicted; `turns` are pairs of a role and its number of tokens."""
    answers = sum(tokens for role, tokens in turns if role == "assistant")
    return answers - (turns[0][0] == "assistant")  # no slot comes before the first token of a chat


def draw_turns(rng):
    """Draw a chat: the role and the tokens of each turn."""
    first = rng.choice(["system", "user", "assistant"])
    roles = [first, *(["user", "assistant"] * 2 if first != "user" else ["assistant", "user", "assistant"])]
    return ([(role, rng.randint(1, 6)) for role in roles[: rng.randint(1, len(roles))]],)


def slot_weights(labels, segments, sequences):
    """Return the factor for the loss of each slot, so that all micro-batches add up to the mean over sequences."""
    weights = []
    for row, owner in zip(labels, segments, strict=True):
        slots = range(len(row))
        predicts = [owner[t] == owner[t + 1] > 0 and row[t + 1] != -100 for t in slots[:-1]] + [False]
        counts = Counter(owner[t] for t in slots if predicts[t])
        weights.append([1 / (sequences * counts[owner[t]]) if predicts[t] else 0.0 for t in slots])
    return weights


def draw_rows(rng):
    """Draw labels and segment ids of one or two rows, and the number of sequences of the whole update.

    The rows have the same number of slots, and the update has at least the sequences of these rows.
    """
    segments = [
        [n for n in range(1, rng.randint(2, 4)) for _ in range(rng.randint(1, 3))] + [0] * rng.randint(0, 2)
        for _ in range(rng.randint(1, 2))
    ]
    slots = max(map(len, segments))
    segments = [owner + [0] * (slots - len(owner)) for owner in segments]
    labels = [[-100 if n == 0 or rng.random() < 0.3 else rng.randint(3, 9) for n in owner] for owner in segments]
    return labels, segments, sum(map(max, segments)) + rng.randint(0, 3)


def across_borders(labels, segments, sequences):
    """Return the factors if the last token of a sequence predicted the first one of the next."""
    weights = []
    for row, owner in zip(labels, segments, strict=True):
        # of each slot but the last, the sequence whose token it predicts; 0 if it predicts none
        targets = [
            after if after > 0 and label != -100 else 0 for after, label in zip(owner[1:], row[1:], strict=True)
        ]
        weights.append([1 / (sequences * targets.count(target)) if target else 0.0 for target in targets] + [0.0])
    return weights


def mean_of_this_micro_batch(labels, segments, sequences):
    """Return the factors for the mean over the sequences of these rows alone."""
    weights = slot_weights(labels, segments, 1)
    predicting = set()  # row and number of each sequence that predicts a token
    for row, owner in enumerate(segments):
        predicting |= {(row, sequence) for sequence, weight in zip(owner, weights[row], strict=True) if weight}
    return slot_weights(labels, segments, len(predicting))


check = Exercises(
    [
        Exercise(
            "group_weights",
            group_weights,
            level=2,
            minutes=10,
            draw=draw_answers,
            cases=[([12, 3, 4, 2, 9, 6], [0, 0, 1, 1, 2, 2]), ([5, 1, 1, 3], [7, 4, 7, 4])],
            hint="add up the tokens of all answers of a group; each group weighs 1 over the number of groups.",
            slips={
                "groups may have any names; the largest is not their number less one.": (
                    lambda lengths, groups: [
                        weight * len(set(groups)) / (max(groups) + 1) for weight in group_weights(lengths, groups)
                    ]
                ),
                "that is the mean over sequences within each group; the tokens of a group count alike.": (
                    lambda lengths, groups: [
                        1 / (len(set(groups)) * groups.count(group) * length)
                        for length, group in zip(lengths, groups, strict=True)
                    ]
                ),
            },
        ),
        Exercise(
            "asked",
            asked,
            level=1,
            minutes=5,
            draw=draw_turns,
            cases=[([("user", 4), ("assistant", 3), ("user", 2), ("assistant", 3)],), ([("assistant", 1)],)],
            hint="each token of an assistant is predicted by the slot before it, if there is one.",
            slips={
                "if the assistant begins, no slot comes before its first token.": (
                    lambda turns: sum(n for role, n in turns if role == "assistant")
                ),
                "the first token of every answer is predicted, from the last token of its prompt.": (
                    lambda turns: sum(n - 1 for role, n in turns if role == "assistant")
                ),
            },
        ),
        Exercise(
            "slot_weights",
            slot_weights,
            level=3,
            minutes=25,
            draw=draw_rows,
            cases=[
                ([[-100, 7, 8, 5, 6]], [[1, 1, 1, 2, 2]], 2),
                ([[-100, -100, 8, 9, -100, 6, -100]], [[1, 1, 1, 1, 2, 2, 0]], 5),
                ([[-100, 7, 8, 9], [-100, 5, -100, 6]], [[1, 1, 1, 1], [1, 1, 2, 2]], 3),
            ],
            hint="a slot counts if the next one belongs to the same sequence and has a label; count these by sequence.",
            slips={
                "the last token of a sequence does not predict the first token of the next.": across_borders,
                "that is the mean of this micro-batch; `sequences` is the number of the whole update.": (
                    mean_of_this_micro_batch
                ),
            },
        ),
    ]
)
