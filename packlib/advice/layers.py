"""What attention and static shapes cost a layer, in multiplications: in the shape of the model, if it is given."""

from packlib.advice.memory import model_setup, model_work
from packlib.advice.risks import many, share_of
from packlib.packing import PackingPlan
from packlib.work import Work

WIDTH = 1024  # of the layer that is weighed where no model is given: between BERT-Base and 2 billion parameters
SAVED = 0.05  # of a layer's work: for less, no special kernel is worth its trouble


def layer_work(model: str | None = None) -> tuple[Work, int, str]:
    """What a slot and a pair of slots cost a layer that skips no pair; its width; and its shape in words.

    >>> layer_work()
    (Work(per_token=25165824, per_square=4096), 1024, 'a layer 1,024 wide with a feed-forward part of four times that')

    Args:
        model: as `packlib.advice.about_memory` takes it.
    """
    if model is None:
        return Work.bert(1, WIDTH), WIDTH, f"a layer {WIDTH:,} wide with a feed-forward part of four times that"
    setup, predicted, shape = model_setup(model)
    work = model_work(model)
    if predicted == 1:  # a decoder's work leaves out the pairs that look ahead, and a dense mask only hides them
        work = Work(work.per_token - work.per_square, 2 * work.per_square)
    return Work(work.per_token / setup.layers, work.per_square / setup.layers), setup.width, f"a layer of {shape}"


def about_attention(plan: PackingPlan, model: str | None = None) -> str:
    """Which attention to take, from the work that a dense mask adds; an estimate.

    Args:
        model: as in `layer_work`; by default a layer 1,024 wide.
    """
    work, _, shape = layer_work(model)
    top = plan.histogram.max_length
    squares = sum(n * length**2 for length, n in enumerate(plan.histogram.counts.tolist()))
    seen = squares / (plan.num_packs * top**2)
    dense = top * work.per_square / work.per_token  # attention over the rest of the layer
    saved = dense * (1 - seen) / (1 + dense)
    take = "attention that skips the rest (FlashAttention with cu_seqlens, or FlexAttention; both need a GPU)"
    if saved < SAVED:
        take = "scaled_dot_product_attention with a dense mask"
    return (
        f"Take {take}: {share_of(seen)} of the pairs of slots in a row are within one sequence, and skipping the "
        f"others saves {share_of(saved)} of a layer's work (an estimate, by counting multiplications in {shape})."
    )


def about_places(plan: PackingPlan, model: str | None = None) -> str:
    """What static shapes cost: places for what a sequence has once, in each row as many as in the deepest pack.

    Args:
        model: as in `layer_work`; by default a layer 1,024 wide.
    """
    work, width, shape = layer_work(model)
    deepest, top, n = plan.deepest, plan.histogram.max_length, plan.histogram.num_sequences
    empty = deepest - n / plan.num_packs  # of a row, on average
    return (
        f"With static shapes every row has {many(deepest, 'place')} for what a sequence has once, such as its class: "
        f"{many(deepest * plan.num_packs, 'place')} for {many(n, 'sequence')}, {share_of(empty, deepest)} of them "
        f"empty. A pooler in the empty ones adds {share_of(empty * 2 * width**2, work.total(top, top**2))} of a "
        f"layer's work (an estimate, by counting multiplications in {shape}). Rows without such places, as of most "
        "causal models, pay nothing."
    )
