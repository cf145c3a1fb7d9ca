"""The code that applies a plan and a recipe: the packs, and training on them in each of four trainers."""

from packlib.lengths import LengthHistogram
from packlib.tools.advice.micro_batch import Batch
from packlib.tools.advice.words import filled, parts_of
from packlib.training.recipe import Recipe


def code_for(
    histogram: LengthHistogram,
    recipe: Recipe | None = None,
    overlong: str | None = None,
    attention: str = "sdpa",
    recompute: bool = False,
    shared: bool = False,
    *,
    batch: Batch | None = None,
    epochs: int = 1,
    packing_factor: float = 1.0,
    replicas: int = 1,
    tokenized: bool = False,
    second_budget: tuple[str, int] | None = None,
) -> dict[str, str]:
    """Return the Python code of `trainers.jinja`, by name of its part: "Packs", "Model", and then each trainer.

    The code uses names that its user must set: `dataset`, the `folder` of the model, and for TRL `tokenizer`; without a
    recipe `learning_rate` too, and without a batch `sequences_per_update`.

    >>> from packlib.tools.advice.applying import code_for
    >>> from packlib.lengths import LengthHistogram
    >>> from packlib.training import Recipe
    >>> code_for(LengthHistogram([0, 3, 1]), Recipe(2, 1e-4, 40))["Packs"].splitlines()[-1]
    'packed = pack_dataset(dataset, max_length=2, plan=plan)'

    Args:
        histogram: the lengths that the plan packs.
        recipe: for packed rows; None if it is not known.
        overlong: the rule for longer sequences; None if there are none.
        attention: the attention backend on a GPU.
        recompute: whether each layer keeps its input only, and is computed twice.
        shared: whether the devices share weights, gradients and moments. Then there is no "PyTorch loop", since one
            device does not hold them.
        batch: the packs of an update, where no recipe says it.
        epochs: passes over the data, where no recipe says it.
        packing_factor: sequences in an average pack, where neither recipe nor batch says it.
        replicas: number of devices that share an update, where neither recipe nor batch says it.
        tokenized: whether the data set has chats or texts, of which the `tokenizer` makes tokens.
        second_budget: a column and the most that a pack may hold of it; the packs are then made without the plan.
    """
    if recipe is not None:
        batch = Batch(recipe.micro_batch, recipe.gradient_accumulation_steps, recipe.replicas, recipe.packing_factor)
    text = filled(
        "trainers.jinja",
        max_length=histogram.max_length,
        recipe=recipe,
        batch=batch,
        epochs=epochs,
        factor=f"{packing_factor:.2f}",
        replicas=batch.replicas if batch else replicas,
        rate=f"{recipe.learning_rate:.6g}" if recipe else "",
        betas=tuple(float(f"{beta:.8g}") for beta in recipe.betas) if recipe else (),
        weight_decay=f"{recipe.weight_decay:g}" if recipe else "",
        power=f"{recipe.power:g}" if recipe and recipe.decay == "polynomial" else "",
        overlong=overlong,
        attention=attention,
        recompute=recompute,
        shared=shared,
        tokenized=tokenized,
        second_budget=second_budget,
    )
    return {name: part.rstrip() for name, part in parts_of(text).items()}
