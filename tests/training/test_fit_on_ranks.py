"""Training on two ranks: as on one, although the ranks hold different numbers of sequences and tokens."""

import pytest
import torch.distributed as dist
from model_cases import MAX_LENGTH, make_model, store
from training_cases import Broken, Interrupted, furthest, loader, recipe, small_model, stable, stop_at, weights

from packlib.batches import pack_lengths, pack_loader
from packlib.distributed import RankError, run_ranks
from packlib.files import work_folder
from packlib.training import evaluate
from runs.resuming import fit

PLAN = recipe(2, 2, replicas=2, packing_factor=35 / 12)
pytestmark = pytest.mark.slow


def train(model=None, on_update=None, objective=None, **settings):
    """Train on this rank's share of the packs; return the weights and the records."""
    model, data = model or small_model(), loader(2, which=slice(24))
    records = fit(model, data, PLAN, objective, on_update=on_update, save_every=3, progress=False, **settings)
    return weights(model), [{k: v for k, v in r.items() if k != "seen"} for r in stable(records)]


def train_unmodified(rows, batch_size, replicas):
    """Train GPT-2, as transformers makes it, on packed rows; return weights, records and the evaluation."""
    model, data = make_model("causal"), pack_loader(rows, batch_size=batch_size)
    total = 2 * sum(len(row["seq_lengths"]) for row in rows)
    plan = recipe(batch_size, 1, total, replicas=replicas, warmup_sequences=0)
    records = stable(fit(model, data, plan, progress=False))
    return weights(model), records, evaluate(model, data)


def refusal(error, **settings):
    with pytest.raises(error) as raised:
        train(**settings)
    return str(raised.value)


def on_a_rank(rank, folder, rows):
    """Return what comes of each run on this rank: whole, interrupted, and broken by a NaN on rank 1 only."""
    results = {"unmodified": train_unmodified(rows, 2, 2)}
    for even in (False, True):
        model, where = small_model(), folder / f"even-{even}"
        results[even] = train(model, even_updates=even)
        with pytest.raises(Interrupted):
            train(on_update=stop_at(5), folder=where, even_updates=even)
        dist.barrier()
        results["resumed", even] = train(folder=where, even_updates=even)
    results["means"] = evaluate(model, loader(2, which=slice(24)))
    results["nan"] = refusal(FloatingPointError, objective=Broken(4 if rank else -1))
    with pytest.raises(ValueError, match="loaders of the same packs: make them with pack_loader"):
        fit(small_model(), loader(2, which=slice(24), ranks=1), PLAN, progress=False)
    results["another"] = refusal(ValueError, folder=folder / f"rank-{rank}")
    results["taken"] = refusal(RankError, folder=folder / "taken")
    return results


@pytest.fixture(scope="module")
def rows():
    some = [store().take(ids) for ids in list(pack_lengths(store().lengths, MAX_LENGTH))[:16]]
    return [{"input_ids": held.input_ids, "seq_lengths": held.lengths} for held in some]


@pytest.fixture(scope="module")
def both(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    fit(small_model(), loader(2), recipe(2, 1, 1, warmup_sequences=0), folder=folder / "rank-0", progress=False)
    with work_folder(folder / "taken"):
        return folder, run_ranks(on_a_rank, 2, folder, rows, timeout=600)


def test_two_ranks_train_as_one(both):
    _, (first, second) = both
    alone = small_model()
    records = stable(fit(alone, loader(4, which=slice(24)), recipe(4, 2), progress=False))
    assert furthest(first[False][0], weights(alone)) < 1e-10
    for ours, one in zip(first[False][1], records, strict=True):
        assert ours == pytest.approx(one, rel=1e-9)
    for even in (False, True):
        assert furthest(first[even][0], second[even][0]) == 0 and first[even][1] == second[even][1]
        resumed = first["resumed", even]
        assert furthest(resumed[0], first[even][0]) == 0 and resumed[1] == first[even][1]
    sizes = {even: [r["update_sequences"] for r in first[even][1]] for even in (False, True)}
    assert max(sizes[True]) - min(sizes[True]) < max(sizes[False]) - min(sizes[False])
    alone.load_state_dict(first[True][0], strict=False)
    means = evaluate(alone, loader(4, which=slice(24)))
    assert first["means"] == second["means"] == pytest.approx(means, rel=1e-10)


def test_two_ranks_train_an_unmodified_model_on_rows_as_one(both, rows):
    alone, records, means = train_unmodified(rows, 4, 1)
    assert furthest(alone, weights(make_model("causal"))) > 0.01
    for ours, theirs, measured in (results["unmodified"] for results in both[1]):
        assert furthest(ours, alone) < 1e-10 and measured == pytest.approx(means, rel=1e-9)
        for one, other in zip(theirs, records, strict=True):
            assert one == pytest.approx(other, rel=1e-9)


def test_all_ranks_stop_together(both):
    folder, answers = both
    assert "loss of update 2 is nan on another rank; the weights are those of update 1" in answers[0]["nan"]
    assert "in micro-batch 2 of 2 (samples " in answers[1]["nan"]
    for rank, results in enumerate(answers):
        other = f"The ranks find checkpoints of the updates [1, None] in {folder / f'rank-{rank}'}."
        assert results["another"] == other
        assert results["taken"].startswith("Rank 0 of 2 raised BlockingIOError: Another run is writing to")
