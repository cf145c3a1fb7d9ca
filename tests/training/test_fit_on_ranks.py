"""Training on two ranks: as on one, although the ranks hold different numbers of sequences and tokens."""

import pytest
import torch.distributed as dist
from model_cases import MAX_LENGTH, make_model, store
from training_cases import Broken, Interrupted, furthest, loader, recipe, small_model, stable, stop_at, weights

from packlib.batches import pack_lengths, pack_loader
from packlib.distributed import run_ranks
from packlib.training import evaluate, fit


def _train(rank, folder):
    """Each rank has its share of the loader; interrupted once, and broken by a NaN on rank 1 only."""

    def run(model, on_update=None, objective=None, folder=None, **settings):
        data = loader(2, which=slice(24))
        plan = recipe(2, 2, replicas=2, packing_factor=35 / 12)
        return fit(
            model, data, plan, objective, folder=folder, on_update=on_update, save_every=3, progress=False, **settings
        )

    results = {}
    for even in (False, True):
        model = small_model()
        records = run(model, even_updates=even)
        results[even] = (weights(model), stable(records))
        where = folder / f"even-{even}"
        with pytest.raises(Interrupted):
            run(small_model(), stop_at(5), folder=where, even_updates=even)
        dist.barrier()
        resumed = small_model()
        again = run(resumed, folder=where, even_updates=even)
        results[f"resumed {even}"] = (
            weights(resumed),
            [{k: v for k, v in r.items() if k != "seen"} for r in stable(again)],
        )
    with pytest.raises(ValueError, match="loaders of the same packs: make them with pack_loader"):
        fit(small_model(), loader(2, which=slice(24), ranks=1), recipe(2, 2, replicas=2), progress=False)
    results["means"] = evaluate(model, loader(2, which=slice(24)))
    with pytest.raises(FloatingPointError) as raised:
        run(small_model(), objective=Broken(4 if rank else -1))
    results["nan"] = str(raised.value)
    return results


def _train_unmodified(rank, rows, batch_size, replicas):
    """GPT-2, as transformers makes it, on rows of packs: the weights at the end, and the records."""
    model, data = make_model("causal"), pack_loader(rows, batch_size=batch_size)
    total = 2 * sum(len(row["seq_lengths"]) for row in rows)
    plan = recipe(batch_size, 1, total, replicas=replicas, warmup_sequences=0)
    records = stable(fit(model, data, plan, progress=False))
    return weights(model), records, evaluate(model, data)


@pytest.mark.slow
def test_two_ranks_train_an_unmodified_model_on_rows_as_one():
    packs = pack_lengths(store().lengths, MAX_LENGTH)
    some = [store().take(ids) for ids in list(packs)[:16]]
    rows = [{"input_ids": held.input_ids, "seq_lengths": held.lengths} for held in some]
    (alone, records, means), both = _train_unmodified(0, rows, 4, 1), run_ranks(_train_unmodified, 2, rows, 2, 2)
    assert furthest(alone, weights(make_model("causal"))) > 0.01
    for ours, theirs, measured in both:
        assert furthest(ours, alone) < 1e-10 and measured == pytest.approx(means, rel=1e-9)
        for one, other in zip(theirs, records, strict=True):
            assert one == pytest.approx(other, rel=1e-9)


def resumed_of(values):
    """The small model with these weights."""
    model = small_model()
    model.load_state_dict(values, strict=False)
    return model


@pytest.mark.slow
def test_two_ranks_train_as_one(tmp_path):
    first, second = run_ranks(_train, 2, tmp_path)
    alone = small_model()
    records = stable(fit(alone, loader(4, which=slice(24)), recipe(4, 2), progress=False))
    assert furthest(first[False][0], weights(alone)) < 1e-10
    means = evaluate(resumed_of(first[True][0]), loader(4, which=slice(24)))
    assert first["means"] == second["means"] == pytest.approx(means, rel=1e-10)
    for ours, one in zip(first[False][1], records, strict=True):
        assert ours == pytest.approx(one, rel=1e-9)
    for name in (False, True):
        assert furthest(first[name][0], second[name][0]) == 0 and first[name][1] == second[name][1]
        resumed = first[f"resumed {name}"]
        assert furthest(resumed[0], first[name][0]) == 0 and resumed[1] == first[name][1]
    sizes = {name: [r["update_sequences"] for r in first[name][1]] for name in (False, True)}
    assert max(sizes[True]) - min(sizes[True]) < max(sizes[False]) - min(sizes[False])
    assert "loss of update 2 is nan on another rank; the weights are those of update 1" in first["nan"]
    assert "in micro-batch 2 of 2 (samples " in second["nan"]
