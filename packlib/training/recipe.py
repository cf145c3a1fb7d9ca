"""What a training run is made of, counted so that it means the same before and after packing."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from packlib.arguments import in_html, number, one_of, shown, whole_number
from packlib.files import naming, naming_text, parse_object, read_text, write_text
from packlib.lengths.counting import INT64_MAX, MAX_LENGTH

OptimizerName = Literal["adamw", "lamb"]
Decay = Literal["linear", "polynomial", "cosine"]
OPTIMIZERS: tuple[OptimizerName, ...] = get_args(OptimizerName)
DECAYS: tuple[Decay, ...] = get_args(Decay)


@dataclass(frozen=True)
class Recipe:
    """One phase of a training run. BERT's two phases are two recipes: each length has its own packing factor.

    Warm-up and total are counted in sequences, so that they mean the same before and after packing.

    >>> from packlib.training import Recipe
    >>> recipe = Recipe(8, learning_rate=1e-4, total_sequences=1_000_000, gradient_accumulation_steps=4)
    >>> recipe.global_batch, recipe.total_steps
    (32, 31250)
    >>> Recipe.from_json(recipe.to_json()) == recipe
    True

    Attributes:
        micro_batch: rows (padded sequences, or packs) in one forward pass of one replica.
        learning_rate: the highest one, at the end of the warm-up.
        total_sequences, warmup_sequences: sequences to train on, and how many of them warm the rate up.
        gradient_accumulation_steps: micro-batches of a replica behind one update.
        replicas: copies of the model that share an update.
        packing_factor: sequences in an average row; 1 where each row is one padded sequence.
        max_length: slots of a row, in tokens; None if it does not matter here.
        optimizer: "adamw" or "lamb".
        betas: the decay of the first and second moment in one update.
        weight_decay: decoupled from the gradient, as in AdamW.
        decay, power: how the rate falls after the warm-up: "linear", "polynomial" of this power, or "cosine".

    Raises:
        TypeError, ValueError: naming the value that is wrong and what is allowed.
    """

    micro_batch: int
    learning_rate: float
    total_sequences: int
    warmup_sequences: int = 0
    gradient_accumulation_steps: int = 1
    replicas: int = 1
    packing_factor: float = 1.0
    max_length: int | None = None
    optimizer: OptimizerName = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.01
    decay: Decay = "linear"
    power: float = 1.0

    def __post_init__(self) -> None:
        counts = ("micro_batch", "gradient_accumulation_steps", "replicas", "total_sequences")
        for name, value in {  # as Python's own numbers, which JSON can hold
            **{name: whole_number(name, getattr(self, name), 1, INT64_MAX) for name in counts},
            "warmup_sequences": whole_number("warmup_sequences", self.warmup_sequences, 0, self.total_sequences),
            "max_length": None
            if self.max_length is None
            else whole_number("max_length", self.max_length, 1, MAX_LENGTH),
            "learning_rate": number("learning_rate", self.learning_rate, above=0),
            "weight_decay": number("weight_decay", self.weight_decay, at_least=0),
            "power": check_decay(self.decay, self.power),
            "packing_factor": check_factor(self.packing_factor, self.max_length),
            "betas": check_betas(self.betas),
        }.items():
            object.__setattr__(self, name, value)
        one_of("optimizer", self.optimizer, OPTIMIZERS)

    @classmethod
    def from_steps(cls, total_steps: int, warmup_steps: int = 0, **settings: Any) -> "Recipe":
        """Make a recipe from a warm-up and a total in updates; `settings` are the other attributes."""
        whole_number("total_steps", total_steps, 1, INT64_MAX)
        whole_number("warmup_steps", warmup_steps, 0, total_steps)
        recipe = cls(total_sequences=1, **settings)
        total, warmup = (round(steps * recipe.sequences_per_update) for steps in (total_steps, warmup_steps))
        return replace(recipe, total_sequences=total, warmup_sequences=warmup)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Recipe":
        """Make a recipe from its attributes by name; `total_steps` and `warmup_steps` are understood too."""
        steps = ("total_steps", "warmup_steps")
        for name in values:
            one_of("a field of a recipe", name, [*(field.name for field in fields(cls)), *steps])
        if values.keys() & steps:
            if both := sorted(values.keys() & {"total_sequences", "warmup_sequences"}):
                raise ValueError(f"Give a recipe its totals in steps or in sequences: {both[0]} is too much.")
            if "total_steps" not in values:
                raise ValueError("A recipe with warmup_steps needs total_steps.")
        for name in ("micro_batch", "learning_rate", "total_sequences"):
            if name not in values and not (name == "total_sequences" and "total_steps" in values):
                or_steps = " (or total_steps)" if name == "total_sequences" else ""
                raise ValueError(f"A recipe needs {name}{or_steps}.")
        return cls.from_steps(**values) if values.keys() & steps else cls(**values)

    def to_json(self) -> str:
        """Write the recipe as JSON text, one object of its attributes."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Recipe":
        """Read a recipe that `to_json` wrote, or any JSON object with the values that `from_dict` takes.

        Raises:
            ValueError: if it is no valid recipe, with the first thing that is wrong.
        """
        with naming_text("recipe"):
            return cls.from_dict(parse_object(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recipe as JSON to a file, which is whole or not there."""
        write_text(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Recipe":
        """Read a recipe from a JSON file, one object of its attributes, as `from_dict` takes them.

        Raises:
            FileNotFoundError, ValueError: if there is no such file, or it holds no valid recipe.
        """
        with naming(path, "recipe") as file:
            return cls.from_dict(parse_object(read_text(file)))

    @property
    def global_batch(self) -> int:
        """Rows behind one update: micro batch × accumulation × replicas."""
        return self.micro_batch * self.gradient_accumulation_steps * self.replicas

    @property
    def sequences_per_update(self) -> float:
        """Sequences behind one update, on average."""
        return self.global_batch * self.packing_factor

    @property
    def total_steps(self) -> int:
        """Updates of the run, on average."""
        return math.ceil(self.total_sequences / self.sequences_per_update)

    @property
    def warmup_steps(self) -> int:
        """Updates of the warm-up, on average."""
        return math.ceil(self.warmup_sequences / self.sequences_per_update)

    @property
    def half_lives(self) -> tuple[float, ...]:
        """Memory of the two moments: sequences after which a gradient's weight has halved."""
        update = self.sequences_per_update
        return tuple(update * math.log(0.5) / math.log(beta) if beta else 0.0 for beta in self.betas)

    def _rows(self) -> dict[str, str]:
        """Say what the recipe is made of, in words, by name; for people, as text or as a table."""
        batch = f"{self.micro_batch:,} × {self.gradient_accumulation_steps:,} × {self.replicas:,}"
        top = "" if self.max_length is None else f" of {self.max_length} tokens"
        return {
            "rows an update": f"{self.global_batch:,}{top} (micro batch × accumulation × replicas: {batch})",
            "sequences an update": f"{self.sequences_per_update:,.1f} (packing factor {self.packing_factor:g})",
            "optimizer": f"{self.optimizer}, betas {self.betas[0]:.6g} and {self.betas[1]:.6g}, "
            f"weight decay {self.weight_decay:g}",
            "learning rate": f"{self.learning_rate:.6g}, {self.decay} decay"
            + (f" of power {self.power:g}" if self.decay == "polynomial" else ""),
            "warm-up": f"{self.warmup_sequences:,} sequences, {self.warmup_steps:,} updates",
            "total": f"{self.total_sequences:,} sequences, {self.total_steps:,} updates",
        }

    def __repr__(self) -> str:
        return "\n".join(["Recipe:", *(f"  {name}: {value}" for name, value in self._rows().items())])

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{name}</th><td>{in_html(v)}</td></tr>" for name, v in self._rows().items())
        return f"<table>{''.join(rows)}</table>"


def check_betas(betas: Any) -> tuple[float, ...]:
    """Return the decays of the two moments; refuse what is not two numbers of at least 0 and below 1."""
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise TypeError(f"betas must be two numbers, not {shown(betas)}.")
    return tuple(number(f"beta{i}", beta, at_least=0, below=1) for i, beta in enumerate(betas, start=1))


def check_decay(decay: Decay, power: float) -> float:
    """Return the power of a decay; refuse one that is not above 0, or that the decay does not have."""
    one_of("decay", decay, DECAYS)
    power = number("power", power, above=0)
    if power != 1 and decay != "polynomial":
        raise ValueError(f"power {power} needs decay 'polynomial', not {decay!r}.")
    return power


def check_factor(value: float, max_length: int | None) -> float:
    """Return a packing factor; refuse one below 1, or above one sequence a token."""
    factor = number("packing_factor", value, at_least=1, at_most=MAX_LENGTH)
    if max_length is not None and factor > max_length:
        raise ValueError(f"packing_factor {factor:g} is over max_length {max_length}: a sequence has a token.")
    return factor
