"""The exercises of notebook 14, in its order."""

from packbook.exercises import Exercise, Exercises
from packbook.guesses import said
from packbook.n14_whole_documents.runs import SLOTS, in_words
from packlib.packing import document_rows, least_cuts


def split_pieces(length, slots):
    """Return the lengths of the pieces that `split` makes of a document, in their order."""
    return [slots] * (length // slots) + [length % slots] * (length % slots > 0)


def draw_document(rng):
    """Draw the length of a document, and the slots of a row."""
    return rng.randint(1, 30), rng.randint(2, 8)


def wrapped_cuts(lengths, slots):
    """Return the number of places where wrapping cuts the documents."""
    ends, end = set(), 0
    for length in lengths:
        end += length
        ends.add(end)
    return sum(row_end not in ends for row_end in range(slots, end, slots))


def draw_documents(rng):
    """Draw the lengths of up to seven documents, and the slots of a row."""
    return [rng.randint(1, 14) for _ in range(rng.randint(1, 7))], rng.randint(3, 8)


PUZZLE = (5, 5, 4, 3, 3, 3, 3, 2, 2, 2)  # 32 tokens: four full rows of eight, which best fit does not find


def cuts_too_many(order):
    """Return a sentence that says why an order of PUZZLE is wrong; None if wrapping cuts no document in it."""
    order = list(order)
    if sorted(order) != sorted(PUZZLE):
        return f"give the lengths {', '.join(map(str, PUZZLE))}, each as often as it is there."
    rows = document_rows(order, SLOTS, "wrapped")
    return f"wrapping makes {said(rows.cuts, 'cuts')}: {in_words(rows)}." if rows.cuts else None


check = Exercises(
    [
        Exercise(
            "split_pieces",
            split_pieces,
            level=1,
            minutes=5,
            draw=draw_document,
            cases=[(1, 4), (4, 4), (5, 4), (8, 4), (14, 8), (3, 1)],
            hint="`length // slots` rows are full; there is a rest only if `length % slots` is not 0.",
            slips={
                "a document that fills its rows exactly leaves no rest, and no piece of 0 tokens.": (
                    lambda length, slots: [slots] * (length // slots) + [length % slots]
                ),
                "the full rows come first, and then the rest.": (
                    lambda length, slots: split_pieces(length, slots)[::-1]
                ),
                "those are pieces of about equal length; `split` fills rows and leaves one rest.": (
                    lambda length, slots: [
                        length // -(-length // slots) + (at < length % -(-length // slots))
                        for at in range(-(-length // slots))
                    ]
                ),
            },
        ),
        Exercise(
            "wrapped_cuts",
            wrapped_cuts,
            level=2,
            minutes=10,
            draw=draw_documents,
            cases=[([3], 4), ([4], 4), ([5], 4), ([4, 4], 4), ([9], 4), ([14, 7, 5, 2, 3], 8)],
            hint="a row ends after every `slots` tokens; it cuts unless a document ends at the same place.",
            slips={
                "a row's end cuts nothing if a document ends there too.": (
                    lambda lengths, slots: (sum(lengths) - 1) // slots
                ),
                "that counts documents that are cut; a long one is cut in several places.": (
                    lambda lengths, slots: document_rows(lengths, slots, "wrapped").cut_documents
                ),
                "those are the cuts of `split`; wrapping also cuts documents that would fit into a row.": least_cuts,
            },
        ),
        Exercise(
            "order_without_cuts",
            [5, 3, 5, 3, 4, 2, 2, 3, 3, 2],
            level=3,
            minutes=15,
            fault=cuts_too_many,
            hint="wrapping cuts nothing if the documents between two row ends fill a row exactly.",
            slips={
                "all ten documents must be there.": [5, 3, 5, 3, 4, 2, 2],
                "that is how best fit packs them: it joins 4 and 3, which leaves a slot that nothing fills.": (
                    [5, 3] * 2 + [4, 3, 3] + [2] * 3
                ),
            },
        ),
    ]
)
