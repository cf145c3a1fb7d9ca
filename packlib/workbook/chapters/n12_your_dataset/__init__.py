from dataclasses import dataclass
from typing import Any, ClassVar

from packlib.checks import shown
from packlib.workbook.parameters import Choice, Dataset, Whole, absolute_file


@dataclass(frozen=True)
class RecipeFile:
    """The path of a training recipe in JSON, or None."""

    optional: ClassVar[bool] = True

    def check(self, name: str, value: Any) -> str | None:
        from packlib.training.recipe import Recipe

        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"{name} must be the path of a recipe in JSON or None, not {shown(value)}.")
        try:
            factor = Recipe.from_json(value).packing_factor
        except (ValueError, OSError) as error:
            raise type(error)(f"{name}: {error}") from None
        if factor != 1:
            raise ValueError(f"{name}: {value} is packed already, with factor {factor:g}; give the padded one.")
        return value

    def parse(self, text: str) -> str | None:
        """A file becomes an absolute path, as for data sets."""
        return None if text.lower() == "none" else absolute_file(text)


PARAMETERS = {
    "dataset": Dataset(),
    "max_length": Whole(1, 1 << 20, optional=True),
    "overlong": Choice(("truncate", "drop")),
    "max_sequences_per_pack": Whole(1, 1 << 20, optional=True),
    "batch_size": Whole(1, 1 << 20),
    "recipe": RecipeFile(),
}
