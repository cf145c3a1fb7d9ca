"""Static shapes and the counter, on a backend that traces only; torch's caches are empty before each test."""

import copy
import gc
import weakref

import pytest
import torch
from compiling_cases import Counting, Output, batch_of, compile_on_ranks, furthest, gradients, shapes_of, small
from hypothesis import given
from hypothesis import strategies as st
from model_cases import bert_config, make_batch, make_model, masking, store
from transformers import BertForPreTraining

from packlib.batches import PackingCollator, pack_lengths, pack_loader
from packlib.distributed import run_ranks
from packlib.training import Recipe, fit
from packlib.training.scaling import CompileCounter, compile_for_shapes, onset_schedule


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def affine(x):
    return torch.relu(2 * x + 1)


# --- the counter -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic, graphs", [(False, 3), (None, 2), (True, 1)])
def test_bert_makes_three_graphs_when_static_two_when_automatic_one_when_dynamic(dynamic, graphs):
    counting, model = Counting(), BertForPreTraining(bert_config(num_hidden_layers=1))
    compiled = torch.compile(model, backend=counting, dynamic=dynamic)
    with CompileCounter() as compiles:
        for length in (32, 48, 64, 32):
            ids = torch.ones(2, length, dtype=torch.int64)
            label = torch.tensor([0, 1])
            compiled(input_ids=ids, attention_mask=ids, labels=ids, next_sentence_label=label).loss.backward()
    assert compiles.graphs == counting.calls == graphs and compiles.recompiles == graphs - 1
    assert compiles.seconds > 0 and not compiles.fell_back


def test_every_recompile_names_the_guards_that_failed():
    compiled = torch.compile(affine, backend="eager", dynamic=False)
    with CompileCounter() as compiles:
        for length in (10, 20, 30, 40, 20):
            compiled(torch.zeros(length))
        assert compiles.graphs == 4  # can be asked within the block
    assert [len(compile.failed_guards) for compile in compiles.compiles] == [0, 1, 2, 3]
    last = compiles.compiles[-1].failed_guards
    for expected, guard in zip((30, 20, 10), last, strict=True):
        assert f"tensor 'x' size mismatch at index 0. expected {expected}, actual 40" in guard
    assert repr(compiles).startswith("CompileCounter: 4 graphs, 3 recompiles, ")
    assert "0/3    affine    3" in repr(compiles) and "expected 10, actual 40" in repr(compiles)
    assert compiles._repr_html_().count("<tr>") == 5 and "tensor &#x27;x&#x27;" in compiles._repr_html_()


def test_the_recompile_limit_and_the_eager_mode_after_it_are_said():
    counting = Counting()
    compiled = torch.compile(affine, backend=counting, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2), CompileCounter() as compiles:
        for length in (10, 20, 30, 40, 10):
            assert torch.equal(compiled(torch.ones(length)), torch.full((length,), 3.0))
    assert compiles.graphs == counting.calls == 2 and compiles.recompiles == 1
    (fell,) = compiles.fell_back
    assert (fell.function, fell.operations, len(fell.failed_guards)) == ("affine", 0, 2)
    sentence = "affine reached the recompile limit after 2 graphs: what they do not fit runs eagerly from here on"
    assert sentence in repr(compiles) and sentence in compiles._repr_html_()


# --- a graph for each shape ----------------------------------------------------------------------------------


def test_all_shapes_are_compiled_at_once_without_a_trace_and_beyond_the_recompile_limit():
    shapes = [(2, length) for length in range(3, 13)]
    assert len(shapes) > torch._dynamo.config.recompile_limit
    model, counting = small(dropout=0.5), Counting()
    model.norm.eval()
    model.embed.weight.grad = torch.full_like(model.embed.weight, 7.0)
    before, random, names = copy.deepcopy(model.state_dict()), torch.get_rng_state(), list(model.state_dict())
    graphs = compile_for_shapes(model, shapes_of(shapes), backend=counting)
    assert graphs.compiles.graphs == counting.calls == len(shapes) and graphs.compiles.recompiles == 0
    assert graphs.shapes == sorted(shapes, reverse=True) and graphs.mode == "default"
    assert torch.equal(torch.get_rng_state(), random) and list(model.state_dict()) == names
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert (model.embed.weight.grad == 7).all() and model.head.weight.grad is None
    assert model.training and not model.norm.training

    model.train()
    eager = copy.deepcopy(model)  # a copy is not compiled
    batches = [batch_of(*shape, seed=i) for i, shape in enumerate(shapes * 2)]
    with CompileCounter() as compiles:
        random = torch.get_rng_state()
        wanted = gradients(eager, batches)
        torch.set_rng_state(random)
        assert furthest(gradients(model, batches), wanted) == 0
        eager(**batch_of(5, 5))
        with torch.no_grad():  # an evaluation may have any shape
            model(**batch_of(5, 5))
    assert not compiles.compiles and counting.calls == len(shapes)


def test_what_would_compile_again_fails_loudly():
    detected = "(?s)Detected recompile.*({}|fail_on_recompile'$)"  # torch gives the reason from 2.10 on
    model = small()
    graphs = compile_for_shapes(model, [batch_of(2, 4) | {"weights": torch.ones(8)}], backend="eager")
    with CompileCounter() as compiles:
        with pytest.raises(ValueError, match=r"batch has the shape \(2, 5\): graphs were made for \(2, 4\)\."):
            model(**batch_of(2, 5))
        with pytest.raises(ValueError, match=r"\(2, 4\) weights has the shape \(4,\); its graph is for \(8,\)"):
            model(**batch_of(2, 4), weights=torch.ones(4))
        with pytest.raises(ValueError, match=r"weights has the shape None; its graph is for \(8,\)"):
            model(**batch_of(2, 4))
        with pytest.raises(RuntimeError, match=detected.format("dtype mismatch")):
            model(**batch_of(2, 4), weights=torch.ones(8, dtype=torch.float64))
        with pytest.raises(RuntimeError, match=detected.format("training")):
            model.eval()(**batch_of(2, 4), weights=torch.ones(8))
        model.train()(**batch_of(2, 4), weights=torch.ones(8))
        with pytest.raises(TypeError, match=r"a tensor of the shape \(rows, slots\); this one has weights"):
            model(weights=torch.ones(8))
    assert not compiles.compiles and graphs.shapes == [(2, 4)]


def test_released_graphs_are_freed_and_the_others_stay():
    made = []

    def backend(graph, inputs):
        made.append(weakref.ref(graph))
        return graph.forward

    model = small()
    with compile_for_shapes(model, shapes_of([(2, 4), (2, 5), (2, 6)]), backend=backend) as graphs:
        graphs.release([(2, 5)])
        gc.collect()
        assert [graph() is None for graph in made] == [False, True, False]  # the largest was made first
        model(**batch_of(2, 4)).loss.backward()
        with pytest.raises(ValueError, match=r"shape \(2, 5\): its graph was released"):
            model(**batch_of(2, 5))
        with pytest.raises(ValueError, match=r"no graph of shape \(2, 5\) to release: its graph was released"):
            graphs.release([(2, 5)])
        assert graphs.shapes == [(2, 6), (2, 4)]
    gc.collect()
    assert all(graph() is None for graph in made) and graphs.shapes == []
    model(**batch_of(2, 5))  # eagerly, as before
    again = compile_for_shapes(model, shapes_of([(2, 5)]), backend=backend)
    graphs.release()  # an old handle leaves a new one alone
    with pytest.raises(ValueError, match="graphs were made for"):
        model(**batch_of(2, 4))
    again.release()


def test_gradients_add_up_where_a_graph_writes_them_to_one_place_each_time():
    """As CUDA graphs do, which this stands in for: what was not kept would be overwritten by the next micro-batch."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def backward(graph, inputs):
        place = []

        def run(*args):
            values = graph(*args)
            if not place:
                place.extend(torch.empty_like(v) if isinstance(v, torch.Tensor) else None for v in values)
            for here, value in zip(place, values, strict=True):
                if here is not None:
                    here.copy_(value)
            return [None if here is None else torch.empty(0).to(here).set_(here) for here in place]

        return make_boxed_func(run)

    backend = aot_autograd(fw_compiler=lambda graph, inputs: make_boxed_func(graph), bw_compiler=backward)
    batches = [batch_of(2, 4, seed) for seed in range(3)]
    wanted, model = gradients(small(), batches), small()
    graphs = compile_for_shapes(model, batches[:1], backend=backend)
    assert furthest(gradients(model, batches), wanted) > 0.01  # so this is a test
    graphs.mode = "reduce-overhead"
    assert furthest(gradients(model, batches), wanted) < 1e-12


def test_bad_shapes_and_modes_and_a_model_that_fails_are_left_as_before():
    model = small()

    def refused(error, match, *args, **options):
        with pytest.raises(error, match=match):
            compile_for_shapes(model, *args, **{"backend": "eager", **options})
        assert model._compiled_call_impl is None and model.training
        model(**batch_of(2, 3))

    refused(ValueError, "no shape to compile for", [])
    refused(ValueError, r"shape \(2, 4\) is there twice", shapes_of([(2, 4), (2, 5), (2, 4)]))
    refused(ValueError, "mode must be .*, not 'fast'", shapes_of([(2, 4)]), "fast")
    refused(ValueError, "CUDA graphs, which need a GPU and one process; here the model is on cpu, with 1 process",
            shapes_of([(2, 4)]), "reduce-overhead")  # fmt: skip
    refused(ValueError, "rows must be at least 1, not 0", [(0, 4)])
    refused(ZeroDivisionError, "division", shapes_of([(2, 4)]), loss=lambda model, batch: 1 / 0)

    def breaks(model, batch):
        return model(**batch).loss

    model.dropout.register_forward_hook(lambda *_: torch._dynamo.graph_break())
    refused(torch._dynamo.exc.Unsupported, "graph_break", shapes_of([(2, 4)]), loss=breaks)


def test_packing_is_one_shape_and_one_graph_and_trains_as_before():
    model = make_model("bert", max_predictions_per_pack=20)
    eager = copy.deepcopy(model)
    collator = PackingCollator(96, masking(), max_sequences_per_pack=8, max_predictions_per_pack=20)
    packs = pack_lengths(store().lengths, 96, "optimal", 8)

    def loader():
        return pack_loader(store(), packs, collator, 4, drop_last=True)

    recipe = Recipe(micro_batch=4, learning_rate=1e-3, total_sequences=60, packing_factor=len(store()) / len(packs))
    with compile_for_shapes(model, [make_batch(8, 4, max_sequences_per_pack=8)], backend="eager") as graphs:
        with CompileCounter() as compiles:
            records = fit(model, loader(), recipe, progress=False)
            batch = next(iter(loader()))
            with pytest.raises(RuntimeError, match="nonzero"):  # too many masked tokens: loud when compiled, too
                model(**{**batch, "labels": torch.ones_like(batch.input_ids)})
        assert graphs.compiles.graphs == 1 and not compiles.compiles
    plain = fit(eager, loader(), recipe, progress=False)
    assert len(records) > 2 and [r["loss"] for r in records] == pytest.approx([r["loss"] for r in plain], rel=1e-9)
    assert furthest(list(model.parameters()), list(eager.parameters())) < 1e-9


def test_two_ranks_compile_the_same_graphs_and_get_the_same_gradients():
    first, second = run_ranks(compile_on_ranks, 2, timeout=300)
    for found in (first, second):
        assert found[False][:2] == (2, 2)  # a graph for each shape
        assert found[True][0] > 4 and found[True][1] == 2  # split where a bucket of gradients is full
        assert found[False][2] < 1e-12 and found[True][2] < 1e-12
        assert found["no sync", False] > 1e-3 and found["no sync", True] > 1e-3
        assert found["unseen"] == "A batch has the shape (2, 9): graphs were made for (3, 12), (2, 8)."
        assert found["shapes differ"] == "Rank 1 has the shapes [(2, 11), (2, 8)]; rank 0 has [(2, 10), (2, 8)]."


class Squares(torch.nn.Embedding):
    """So small that few kernels are compiled."""

    def forward(self, input_ids):
        rows = super().forward(input_ids)
        return Output(rows.square().mean(), rows)


@pytest.mark.slow
def test_inductor_gives_the_same_gradients_and_its_backward_time_is_counted():
    from torch._inductor import config
    from torch._inductor.utils import fresh_cache

    model, batches = Squares(50, 8).double(), [batch_of(2, 4, seed) for seed in range(2)]
    wanted = gradients(model, batches)
    believe = config.patch({"cpp.vec_isa_ok": True})  # the processor, without compiling and loading a probe
    # nothing from or for another run
    with fresh_cache(), believe, compile_for_shapes(model, batches[:1]) as graphs:
        assert furthest(gradients(model, batches), wanted) < 1e-12
    assert graphs.compiles.graphs == 1 and graphs.compiles.seconds > 0.5


# --- the order of the batches ---------------------------------------------------------------------------------


@given(st.integers(1, 4), st.data())
def test_each_rank_meets_each_shape_once_at_the_start_and_no_batch_is_lost(world_size, data):
    shapes = data.draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 40)), min_size=1, max_size=6, unique=True))
    extra = data.draw(st.lists(st.sampled_from(shapes), max_size=20))
    batches = list(enumerate(data.draw(st.permutations(shapes * world_size + extra))))
    schedule = onset_schedule(batches, world_size, shape=lambda batch: batch[1])
    assert sorted(schedule) == batches
    for rank in range(world_size):
        mine = [shape for _, shape in schedule[rank::world_size]][: len(shapes)]
        assert sorted(mine) == sorted(shapes)
        assert mine == sorted(mine, key=lambda shape: -shape[0] * shape[1]) or len(set(mine)) < len(mine)
        assert mine == [shape for _, shape in schedule[::world_size]][: len(shapes)]
    rest = schedule[len(shapes) * world_size :]
    assert rest == sorted(rest)


def test_a_schedule_of_batches_themselves_and_too_few_of_a_shape():
    batches = [batch_of(2, 4), batch_of(2, 8), batch_of(2, 8), batch_of(2, 4), batch_of(2, 4)]
    assert [id(batch) for batch in onset_schedule(batches, 2)] == [id(batches[i]) for i in (1, 2, 0, 3, 4)]
    assert onset_schedule([], 2) == []
    with pytest.raises(ValueError, match=r"2 of the batches have the shape \(2, 8\); each of 3 ranks needs one"):
        onset_schedule(batches, 3)
    with pytest.raises(ValueError, match="world_size must be at least 1, not 0"):
        onset_schedule(batches, 0)
