"""The exercises of notebook 16, in its order."""

from packbook.exercises import Exercise, Exercises


def group_tokens(prompt, answers):
    """Return the tokens of a row that holds a prompt once, and a head for each answer."""
    return prompt - 1 + sum(length + 1 for length in answers)


def draw_group(rng):
    """Draw the tokens of a prompt, and of two to four answers."""
    return rng.randint(1, 9), [rng.randint(1, 5) for _ in range(rng.randint(2, 4))]


def seen_until(parents, slots):
    """Return for each slot of a row the slot from which on it is not seen; nodes come in the order of a walk."""
    ends = [sum(slots[: node + 1]) for node in range(len(slots))]
    for node in range(len(parents) - 1, 0, -1):
        ends[parents[node]] = max(ends[parents[node]], ends[node])
    return [end for end, slots_of_node in zip(ends, slots, strict=True) for _ in range(slots_of_node)]


def draw_tree(rng):
    """Draw the parents and slots of nodes in the order of a walk; a node that is no leaf has two or three children."""
    parents, slots = [], []

    def add(parent, levels):
        node = len(parents)
        parents.append(parent)
        slots.append(rng.randint(1, 4))
        if levels and (parent < 0 or rng.random() < 0.7):
            for _ in range(rng.randint(2, 3)):
                add(node, levels - 1)

    add(-1, rng.choice((0, 1, 2, 2, 3)))
    return parents, slots


def forced_tokens(parents, slots, max_length):
    """Return the tokens that all rows of a tree hold at least, its copies included."""
    through, below = list(slots), [0] * len(slots)
    for node, parent in enumerate(parents[1:], 1):
        through[node] += through[parent]
    for node in range(len(slots) - 1, -1, -1):
        rows = max(1, -(-below[node] // (max_length - through[node]))) if below[node] else 1
        below[node] += rows * slots[node]
        if node:
            below[parents[node]] += below[node]
    return below[0]


def draw_rows(rng):
    """Draw a tree, and slots of a row into which each of its sequences fits."""
    parents, slots = draw_tree(rng)
    through = list(slots)
    for node, parent in enumerate(parents[1:], 1):
        through[node] += through[parent]
    return parents, slots, max(through) + rng.randint(0, 4)


def one_copy_of_what_is_below(parents, slots, max_length):
    """Return the tokens if what is below a node counts each of its nodes once, which is an error."""
    through, below = list(slots), [0] * len(slots)
    for node, parent in enumerate(parents[1:], 1):
        through[node] += through[parent]
    for node in range(len(slots) - 1, 0, -1):
        below[parents[node]] += slots[node] + below[node]
    rows = []  # that a node is in
    for tokens_below, tokens_through in zip(below, through, strict=True):
        rows.append(-(-tokens_below // (max_length - tokens_through)) if tokens_below else 1)
    return sum(copies * slots_of_node for copies, slots_of_node in zip(rows, slots, strict=True))


def rows_of_the_node_alone(parents, slots, max_length):
    """Return the tokens if a row had only the node itself above what is below it, which is an error."""
    below, total = [0] * len(slots), 0
    for node in range(len(slots) - 1, -1, -1):
        rows = max(1, -(-below[node] // max(1, max_length - slots[node])))
        total = below[node] + rows * slots[node]
        if node:
            below[parents[node]] += total
    return total


check = Exercises(
    [
        Exercise(
            "group_tokens",
            group_tokens,
            level=1,
            minutes=5,
            draw=draw_group,
            cases=[[1, [1]], [5, [3]], [1000, [10] * 8]],
            hint="the prompt without its last token, and then that token and the answer, for each answer.",
            slips={
                "that counts a prompt for each answer; the row holds the prompt once.": (
                    lambda prompt, answers: sum(prompt + length for length in answers)
                ),
                "that has one head for all answers; each branch begins with one of its own.": (
                    lambda prompt, answers: prompt + sum(answers)
                ),
                "that keeps the prompt's last token at the end of the prompt too; only the heads hold it.": (
                    lambda prompt, answers: prompt + sum(length + 1 for length in answers)
                ),
            },
        ),
        Exercise(
            "seen_until",
            seen_until,
            level=2,
            minutes=10,
            draw=draw_tree,
            cases=[[[-1], [3]], [[-1, 0, 0], [4, 2, 3]], [[-1, 0, 1, 1, 0], [2, 1, 2, 1, 3]]],
            hint=(
                "all that is below a node comes right behind it; go from the last node to the first, and let a parent "
                "reach as far as its children."
            ),
            slips={
                "that ends the sight of a node where its own slots end; what is below it must see it.": (
                    lambda parents, slots: [
                        sum(slots[: node + 1]) for node, own in enumerate(slots) for _ in range(own)
                    ]
                ),
                "that shows every slot to the end of the row, so branches see each other.": (
                    lambda parents, slots: [sum(slots)] * sum(slots)
                ),
                "that gives one number for each node; each slot needs its own.": (
                    lambda parents, slots: list(dict(zip(parents, slots, strict=True)).values())
                ),
            },
        ),
        Exercise(
            "forced_tokens",
            forced_tokens,
            level=3,
            minutes=20,
            draw=draw_rows,
            cases=[[[-1], [3], 3], [[-1, 0, 0], [4, 2, 3], 7], [[-1, 0, 0, 0, 0], [6, 4, 4, 4, 4], 14]],
            hint=(
                "go from the last node to the first. What is below a node counts its own copies already; round up what "
                "it takes of the room that the path above it leaves."
            ),
            slips={
                "that counts each node once; a node whose branches fill more than a row is in several rows.": (
                    lambda parents, slots, max_length: sum(slots)
                ),
                "what is below a node counts its copies too, so begin with the leaves.": one_copy_of_what_is_below,
                "a row that holds a node holds all that is above it, so there is less room.": rows_of_the_node_alone,
            },
        ),
    ]
)
