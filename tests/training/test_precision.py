"""16 bits: stochastic rounding against all numbers that a type holds, and weights that learn where rounding stalls."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from training_cases import furthest, loader, recipe, small_model, weights

from packlib.training import make_optimizer, round_weights, stochastic_round

HALVES = [torch.bfloat16, torch.float16]


def every_number(dtype):
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_what_the_type_holds_stays(dtype):
    values = every_number(dtype)
    for wide in (torch.float32, torch.float64):
        assert torch.equal(stochastic_round(values.to(wide), dtype).nan_to_num(7.0), values.nan_to_num(7.0))
    assert stochastic_round(torch.tensor([torch.nan]), dtype).isnan().all()


@pytest.mark.parametrize("dtype", HALVES)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(0, 1000))
def test_it_is_a_neighbor_with_the_right_probability(dtype, x, seed):
    """Against the sorted list of all numbers of the type; the largest finite one has infinity for a neighbor."""
    draws, value = 4096, torch.tensor(x, dtype=torch.float32)
    finite = every_number(dtype).double()
    finite = finite[finite.isfinite()].unique().numpy()
    got = stochastic_round(value.expand(draws), dtype, torch.Generator().manual_seed(seed)).double().numpy()
    place = np.searchsorted(finite, x)
    below, above = finite[max(place - 1, 0)], finite[min(place, len(finite) - 1)]
    if x in finite:
        assert (got == x).all()
    elif abs(x) > finite[-1]:
        assert np.isin(np.abs(got), [finite[-1], np.inf]).all() and (np.sign(got) == np.sign(x)).all()
    else:
        assert np.isin(got, [below, above]).all()
        p = (x - below) / (above - below)
        assert abs((got == above).mean() - p) <= 5 * np.sqrt(p * (1 - p) / draws) + 2 / draws


@pytest.mark.parametrize("dtype", HALVES)
def test_an_update_under_half_a_spacing_stalls_unless_it_is_rounded_at_random(dtype):
    """64 weights at 1 shall go to 0, by 1/8 of the spacing below 1 an update."""
    step, ends = torch.finfo(dtype).eps / 16, {}
    for rounding in ("nearest", "stochastic", "master"):
        weight = torch.nn.Parameter(torch.ones(64, dtype=dtype))
        optimizer = round_weights(torch.optim.SGD([weight], lr=step), rounding)
        for _ in range(256):
            weight.grad = torch.ones_like(weight)
            optimizer.step()
        ends[rounding] = weight.detach().double()
        assert weight.dtype == dtype and weight.grad.dtype == dtype
    there = 1 - 256 * step
    assert (ends["nearest"] == 1).all()
    assert (ends["master"] - there).abs().max() <= torch.finfo(dtype).eps / 2
    assert abs(ends["stochastic"].mean() - there) < 4 * torch.finfo(dtype).eps * (256 / 8 / 4 / 64) ** 0.5
    assert ends["stochastic"].std() > 0


@pytest.mark.parametrize(("kind", "rounding"), [("lamb", "stochastic"), ("adamw", "master"), ("lamb", "nearest")])
def test_a_run_that_goes_on_is_the_same_bit_for_bit(kind, rounding):
    """Also with a norm that stays FP32; the weights keep their place in memory."""
    data = list(loader(8))[:4]

    def start():
        model = small_model(torch.bfloat16)
        model.bert.embeddings.LayerNorm.float()
        plan = recipe(8, 1, optimizer=kind)
        return model, round_weights(make_optimizer(model, plan), rounding, seed=9)

    def go_on(model, optimizer, batches):
        for batch in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                model(**batch).loss.backward()
            optimizer.step()

    whole, first, second = start(), start(), start()
    places = [p.data_ptr() for p in whole[0].parameters()]
    go_on(*whole, data)
    assert places == [p.data_ptr() for p in whole[0].parameters()]
    go_on(*first, data[:2])
    second[0].load_state_dict(first[0].state_dict())
    second[1].load_state_dict(first[1].state_dict())
    go_on(*second, data[2:])
    assert furthest(weights(whole[0]), weights(second[0])) == 0
    assert furthest(weights(whole[0]), weights(first[0])) > 0
    assert whole[0].bert.embeddings.LayerNorm.weight.dtype == torch.float32
    assert {p.dtype for name, p in whole[0].named_parameters() if "embeddings.LayerNorm" not in name} == {
        torch.bfloat16
    }
    moments = [v for state in whole[1].state.values() for n, v in state.items() if n in ("m", "v") or n[:3] == "exp"]
    assert moments and {v.dtype for v in moments} == {torch.float32}


def test_bad_input_gets_a_sentence():
    with pytest.raises(ValueError, match=r"dtype must be torch.bfloat16 or torch.float16, not torch.float32"):
        stochastic_round(torch.ones(2), torch.float32)
    with pytest.raises(ValueError, match="not 'stochastical': did you mean 'stochastic'"):
        round_weights(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1), "stochastical")
