"""The code that applies a plan and a recipe: the packs, and training on them in each of four trainers."""

from packlib.lengths import LengthHistogram
from packlib.tools.advice.words import filled, parts_of
from packlib.training.recipe import Recipe


def code_for(
    histogram: LengthHistogram,
    recipe: Recipe,
    overlong: str | None = None,
    attention: str = "sdpa",
    recompute: bool = False,
    shared: bool = False,
) -> dict[str, str]:
    """Python for the "Packs", the "Model", and then for each trainer, as `trainers.jinja` has it.

    It takes `dataset`, the `folder` of the model, and for TRL `tokenizer` as given.

    >>> from packlib.tools.advice.applying import code_for
    >>> from packlib.lengths import LengthHistogram
    >>> from packlib.training import Recipe
    >>> code_for(LengthHistogram([0, 3, 1]), Recipe(2, 1e-4, 40))["Packs"].splitlines()[-1]
    'packed = pack_dataset(dataset, max_length=2, plan=plan)'

    Args:
        histogram: the lengths that the plan packs.
        recipe: for packed rows.
        overlong: what becomes of longer sequences, where there are any.
        attention: the backend to take on a GPU.
        recompute: compute each layer twice, and keep its input only.
        shared: the devices share weights, gradients and moments. Then there is no "PyTorch loop", since one does not
            hold them.
    """
    text = filled(
        "trainers.jinja",
        max_length=histogram.max_length,
        recipe=recipe,
        rate=f"{recipe.learning_rate:.6g}",
        betas=tuple(float(f"{beta:.8g}") for beta in recipe.betas),
        decay=f"{recipe.weight_decay:g}",
        power=f"{recipe.power:g}" if recipe.decay == "polynomial" else "",
        overlong=overlong,
        attention=attention,
        recompute=recompute,
        shared=shared,
    )
    return {name: part.rstrip() for name, part in parts_of(text).items()}
