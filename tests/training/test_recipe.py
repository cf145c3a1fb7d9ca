"""Recipes and what changes in them: the papers' numbers, what is kept exactly, and the error where it is not."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packbook.records import recorded
from packlib.training import Recipe, adjust
from packlib.training.recipe import OPTIMIZERS

PAPER = Recipe(
    micro_batch=15,
    gradient_accumulation_steps=10,
    replicas=10,
    optimizer="lamb",
    learning_rate=6e-3,
    betas=(0.81, 0.81),
    total_sequences=10_500_000,
    warmup_sequences=3_000_000,
    weight_decay=0.01,
    max_length=512,
)


def test_the_papers_accumulation():
    """Batch 1500, packing factor 2: half the rows, as many sequences, and nothing else changes."""
    after, reasons, error = adjust(PAPER, 2)
    assert (PAPER.global_batch, after.global_batch, after.sequences_per_update) == (1500, 750, 1500)
    assert after == replace(PAPER, gradient_accumulation_steps=5, packing_factor=2.0) and error == 0
    assert (after.total_steps, after.warmup_steps) == (7000, 2000) == (PAPER.total_steps, PAPER.warmup_steps)
    assert "as before" in reasons[0]


def test_the_papers_betas():
    """Beta 0.81 becomes 0.66; what a gradient weighs after as many sequences stays."""
    after, reasons, error = adjust(PAPER, 2, "betas")
    assert after.betas == (pytest.approx(0.6561), pytest.approx(0.6561)) and round(after.betas[0], 2) == 0.66
    assert after == replace(PAPER, betas=after.betas, packing_factor=2.0)
    assert after.half_lives == pytest.approx(PAPER.half_lives, rel=1e-12)
    assert after.half_lives[0] == pytest.approx(1500 * math.log(2) / -math.log(0.81))
    assert error == pytest.approx(2 * 0.19 / (1 - 0.6561) - 1) and "10.5 %" in reasons[1]
    assert (after.total_steps, after.warmup_steps) == (3500, 1000)


@pytest.mark.parametrize("optimizer", ["lamb", "adamw"])
def test_betas_are_offered_to_lamb_with_what_was_recorded(optimizer):
    """The recorded runs ended higher with raised betas for LAMB, and lower for AdamW."""
    reasons = adjust(replace(PAPER, optimizer=optimizer), 2, "betas").reasons
    assert ("ended higher with raised betas" in str(reasons)) is (optimizer == "lamb")
    runs = recorded(f"curves-{optimizer}", "runs").rows
    ends = {}
    for row in runs:
        ends.setdefault(row["arm"], {})[row["seed"]] = row["held_out_loss"]  # the last row of a run stays
    apart = [ends["betas"][seed] - ends["nothing adjusted"][seed] for seed in ends["betas"]]
    assert all(one > 0 for one in apart) is (optimizer == "lamb") and len(apart) == 5


@pytest.mark.parametrize("factor", [2, 3.5, 223])
@pytest.mark.parametrize("how", ["betas", "batch"])
def test_a_power_far_from_the_papers_is_said_to_be(how, factor):
    """Accumulation 1 cannot be divided, so the micro batch falls to half, and the betas take what is over."""
    after, reasons, _ = adjust(Recipe(32, 1e-4, 1000), factor, how)
    power = factor if how == "betas" else max(1, factor / 2)
    assert after.betas[0] == pytest.approx(0.9**power)
    assert (f"power of 2; {power:.4g} lies far beyond what that shows." in str(reasons)) is (power > 3)


@given(
    st.floats(0, 0.9999), st.floats(0, 0.9999), st.integers(2, 9), st.lists(st.floats(-3, 3), min_size=2, max_size=2)
)
def test_a_beta_to_the_power_of_k_is_k_equal_steps(beta, other, k, values):
    """And for other gradients the newest is off by the error that `adjust` states, of the two moments the larger."""
    moment, gradient = values
    single = moment
    for _ in range(k):
        single = beta * single + (1 - beta) * gradient
    after, _, error = adjust(replace(PAPER, betas=(beta, other)), k, "betas")
    once = after.betas[0] * moment + (1 - after.betas[0]) * gradient
    assert single == pytest.approx(once, rel=1e-9, abs=1e-9)
    times = [(1 - one) * k / (1 - after) for one, after in zip((beta, other), after.betas, strict=True)]
    assert max(times) == pytest.approx(1 + error, rel=1e-6)


def test_the_rate_rules():
    assert adjust(PAPER, 4, "linear_rate").recipe.learning_rate == pytest.approx(0.024)
    after, reasons, error = adjust(PAPER, 4, "sqrt_rate")
    assert after.learning_rate == pytest.approx(0.012) and after.betas == PAPER.betas and error is None
    assert "0.006 becomes 0.012" in reasons[0]


@pytest.mark.parametrize("how", ["accumulation", "batch"])
@given(st.integers(1, 40), st.integers(1, 300), st.integers(1, 16), st.floats(1, 30))
def test_nothing_comes_closer_and_the_error_is_told(how, micro, steps, replicas, factor):
    """What no micro batch from half of the old one up can keep within 2 % the betas make up for."""
    before = replace(PAPER, micro_batch=micro, gradient_accumulation_steps=steps, replicas=replicas)
    after, reasons, error = adjust(before, factor, how)
    wanted, least = before.sequences_per_update, micro if how == "accumulation" else (micro + 1) // 2
    tried = [(m, n) for m in range(least, micro + 1) for n in range(1, steps + 1)]
    errors = {(m, n): abs(m * n * replicas * factor / wanted - 1) for m, n in tried}
    best, as_before = min(errors.values()), how == "accumulation" and abs(error) < 1e-9
    same = [off for (_, n), off in errors.items() if n == after.gradient_accumulation_steps]
    near = how == "batch" and best <= 0.02  # then the least accumulation is taken
    assert abs(error) == pytest.approx(min(same) if near else best, abs=1e-9) and (not near or abs(error) <= 0.02)
    signed = f"{100 * error:+.1f} %".replace("-", "−")
    assert ("as before" if as_before else f"{signed} against {wanted:,.0f}") in reasons[0]
    if how == "batch" and not near:
        assert after.half_lives == pytest.approx(before.half_lives)
        assert f"becomes {after.betas[0]:.6g}" in reasons[1]
        assert f"{PAPER.learning_rate * math.sqrt(1 + error):.6g}" in reasons[1]
    else:
        assert after.betas == before.betas
    assert least <= after.micro_batch <= micro
    assert after.sequences_per_update == pytest.approx((1 + error) * wanted)
    changed = {name: getattr(after, name) for name in ("micro_batch", "gradient_accumulation_steps", "betas")}
    assert after == replace(before, **changed, packing_factor=factor)
    if how == "accumulation":
        assert ('how="betas"' in str(reasons)) is (error > 0.05), "betas can make up for more sequences, not for fewer"
        assert ("even_updates=True" in str(reasons)) is (abs(error) > 0.02), "fit ends updates at a number of them"


def test_steps_become_sequences():
    given_in_steps = {"micro_batch": 4, "gradient_accumulation_steps": 8, "replicas": 2, "learning_rate": 1e-4}
    recipe = Recipe.from_dict({**given_in_steps, "total_steps": 100, "warmup_steps": 30})
    assert (recipe.total_sequences, recipe.warmup_sequences) == (6400, 1920)
    assert (recipe.total_steps, recipe.warmup_steps) == (100, 30)
    assert Recipe.from_steps(100, **given_in_steps, packing_factor=2.5).total_sequences == 16_000
    begun = replace(recipe, total_sequences=6401, warmup_sequences=1921)
    assert (begun.total_steps, begun.warmup_steps) == (101, 31), "an update that is begun counts"


def test_a_recipe_survives_json_and_says_what_it_is(tmp_path):
    PAPER.save(tmp_path / "recipe.json")
    assert Recipe.load(tmp_path / "recipe.json") == PAPER
    assert (tmp_path / "recipe.json").read_text() == PAPER.to_json() + "\n"
    for text in (repr(PAPER), PAPER._repr_html_()):
        for words in ("1,500 of 512 tokens", "15 × 10 × 10", "lamb", "3,000,000 sequences, 2,000 updates"):
            assert words in text


RATES = st.floats(1e-12, 1e3)


@given(
    st.builds(
        Recipe,
        micro_batch=st.integers(1, 1 << 20),
        learning_rate=RATES,
        total_sequences=st.integers(1 << 20, 1 << 60),
        warmup_sequences=st.integers(0, 1 << 20),
        packing_factor=st.floats(1, 512),
        max_length=st.none() | st.integers(512, 1 << 24),
        optimizer=st.sampled_from(OPTIMIZERS),
        betas=st.tuples(st.floats(0, 0.9999), st.floats(0, 0.9999)),
        weight_decay=st.floats(0, 1),
        decay=st.just("polynomial"),
        power=RATES,
    )
)
def test_json_there_and_back(recipe):
    assert Recipe.from_json(recipe.to_json()) == recipe


def changed(**fields):
    return lambda: replace(PAPER, **fields)


FEW = "micro_batch must be at least 1, not 0."
REFUSED = [  # what is called, and how the sentence ends
    (changed(micro_batch=0), ValueError, FEW),
    (changed(total_sequences=10), ValueError, "warmup_sequences must be from 0 to 10, not 3000000."),
    (changed(learning_rate=math.inf), ValueError, "learning_rate must be above 0, not inf."),
    (changed(learning_rate="1e-3"), TypeError, "learning_rate must be a number above 0, not '1e-3'."),
    (changed(betas=(0.9, 1.0)), ValueError, "beta2 must be at least 0 and below 1, not 1.0."),
    (changed(betas=0.9), TypeError, "betas must be two numbers, not 0.9."),
    (changed(optimizer="lamp"), ValueError, "optimizer must be 'adamw' or 'lamb', not 'lamp': did you mean 'lamb'?"),
    (changed(power=0.5), ValueError, "power 0.5 needs decay 'polynomial', not 'linear'."),
    (lambda: adjust(PAPER, 0.5), ValueError, "packing_factor must be at least 1 and at most 16777216, not 0.5."),
    (lambda: adjust(PAPER, 513), ValueError, "packing_factor 513 is over max_length 512: a sequence has a token."),
    (lambda: adjust(PAPER, 2, "beta"), ValueError, "'linear_rate' or 'sqrt_rate', not 'beta': did you mean 'betas'?"),
    (
        lambda: adjust(adjust(PAPER, 2).recipe, 2),
        ValueError,
        "packed already, with factor 2; adjust the one it came from.",
    ),
]
FILES = {
    "[]": "must hold one JSON object",
    PAPER.to_json().replace('"micro_batch": 15', '"micro_batch": 0'): FEW,
    '{"micro_batch": 3}': r"A recipe needs learning_rate\.",
    '{"micro_batch": 3, "learning_rate": 1}': r"A recipe needs total_sequences \(or total_steps\)\.",
    '{"micro_batch": 3, "total_steps": 9}': r"A recipe needs learning_rate\.",
    '{"warmup_steps": 4}': "A recipe with warmup_steps needs total_steps",
    '{"total_steps": 4, "total_sequences": 8}': "total_sequences is too much",
    '{"micro_batches": 3}': "not 'micro_batches': did you mean 'micro_batch'",
}


def test_what_cannot_be_is_refused_in_one_sentence(tmp_path):
    for call, error, says in REFUSED:
        with pytest.raises(error) as raised:
            call()
        assert str(raised.value).endswith(says) and "\n" not in str(raised.value)
    path = tmp_path / "recipe.json"
    for text, says in FILES.items():
        path.write_text(text)
        with pytest.raises(ValueError, match=f"recipe.json is no recipe: .*{says}"):
            Recipe.load(path)
        with pytest.raises(ValueError, match=f"^The text is no recipe: .*{says}"):
            Recipe.from_json(text)
