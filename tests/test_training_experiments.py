"""The recorded experiments: every arm makes a valid recipe, and the ablations do what their names say."""

import pytest
import torch
from experiments.arms import EXPERIMENTS, PADDED, WithoutMask, WithoutReset, l2_in_the_loss
from model_cases import make_batch, make_model

from packlib.training import PretrainingObjective, adjust

ARMS = [(e, name) for e, arms in EXPERIMENTS.items() for name in arms]


@pytest.mark.parametrize(("experiment", "name"), ARMS)
def test_every_arm_has_a_recipe_and_a_place_to_start(experiment, name):
    arms = EXPERIMENTS[experiment]
    arm, before = arms[name], list(arms)[: list(arms).index(name)]
    recipe = arm.recipe(PADDED, 5.757)
    assert recipe.total_sequences == PADDED.total_sequences and recipe.micro_batch == PADDED.micro_batch
    assert recipe.packing_factor == (5.757 if arm.packed else 1)
    if arm.start is not None:
        assert arm.start in before and arms[arm.start].start is None


def test_the_packed_arm_sees_the_padded_batch():
    after, _, error = adjust(PADDED, 5.757)
    assert PADDED.sequences_per_update == 256 and abs(error) < 0.09 and after.accumulation > 1


@pytest.mark.parametrize("objective", [WithoutMask(), WithoutReset()])
def test_an_ablation_changes_packs_and_leaves_single_sequences_alone(objective):
    model = make_model("bert")
    for depth, differs in ((1, False), (None, True)):
        batch = make_batch(depth)
        with torch.no_grad():
            right, ablated = PretrainingObjective()(model, batch), objective(model, batch)
        assert (abs(float(right["mlm_loss"].mean - ablated["mlm_loss"].mean)) > 1e-6) == differs


def test_l2_in_the_loss_is_not_adamw():
    optimizer = l2_in_the_loss(make_model("bert"), PADDED)
    assert type(optimizer) is torch.optim.Adam
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0]
