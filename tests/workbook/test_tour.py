"""Notebook 00's chapter: both runs are fed the same, watching changes nothing, and wrong packs are named."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from packlib.batches import IGNORED, pack_lengths
from packlib.training import fit
from packlib.workbook.chapters.n00_tour import figures, lesson, runs
from packlib.workbook.chapters.n00_tour.texts import HELD_OUT as NUMBER_HELD_OUT
from packlib.workbook.chapters.n00_tour.texts import choose_texts, tokens_of
from packlib.workbook.chapters.shared.small_models import small_bert
from packlib.workbook.figures import new_figure

WORDS, LENGTHS, NUMBERS = choose_texts("wordnet", 120, 64, seed=2)
STORE, HELD_OUT = runs.read_tokens("wordnet", NUMBERS, 64)
LOADERS = runs.both_ways(STORE, pack_lengths(STORE.lengths, 64), seed=2)


def test_texts_fit_their_tokens_and_are_not_held_out_too():
    assert len(WORDS) == len(STORE) == 120 and len(HELD_OUT) == NUMBER_HELD_OUT
    assert STORE.lengths.max() <= 64 and (STORE.lengths == LENGTHS).all()
    assert len(tokens_of(WORDS[0])) == LENGTHS[0]
    rows = {tuple(store[i]["input_ids"]) for store in (STORE,) for i in range(len(store))}
    same = [i for i in range(len(HELD_OUT)) if tuple(HELD_OUT[i]["input_ids"]) in rows]
    assert len(same) <= 2, "a few definitions are the same in WordNet"


def test_pairs_have_the_example_behind_the_definition():
    words, lengths, numbers = choose_texts("wordnet-pairs", 100, 128, seed=0)
    store, _ = runs.read_tokens("wordnet-pairs", numbers, 128)
    assert all("; " in text for text in words) and (store.lengths == lengths).all()
    assert all(store[i]["token_type_ids"][-1] == 1 for i in range(100))


def test_both_ways_hide_the_same_tokens():
    found = []
    for loader in LOADERS.values():
        texts = {}
        for batch in loader:
            for number, sample in enumerate(batch.sample_ids.tolist()):
                at = batch.sequence_starts[number] + torch.arange(int(STORE.lengths[sample]))
                texts[sample] = [batch[name].flatten()[at].tolist() for name in ("input_ids", "labels")]
        found.append(texts)
    assert found[0] == found[1] and sorted(found[0]) == list(range(120))
    assert any(label != IGNORED for label in found[0][0][1])


def test_watching_a_run_does_not_change_it_and_its_picture_is_one_output(monkeypatch):
    shown = []

    class Handle:
        def update(self, bundle, raw, metadata):
            shown.append(bundle)

    def display(bundle, raw, display_id, metadata):
        assert not shown, "the first picture is shown, the others take its place"
        shown.append(bundle)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    race, ends = runs.Race(96, HELD_OUT, 64, every=1), []
    for name, watch in (("padded", True), ("packed", True), ("packed", False)):
        model = small_bert(seed=2)
        loader, recipe = LOADERS[name], runs.recipe_of(LOADERS[name], 96)
        loader.set_epoch(0)
        records = fit(model, loader, recipe, on_update=race.follow(name, model) if watch else None, progress=False)
        ends.append(records[-1]["loss"])
    race.finish("race")
    assert ends[1] == ends[2]
    assert [len(race.points[name]) for name in ("padded", "packed")] == [4, len(records) + 1]
    assert race.points["padded"][0] == race.points["packed"][0], "both begin alike, asked the same"
    assert [bundle["text/plain"].partition(".")[0] for bundle in shown[:1]] == ["padded: 0 of 96 texts"]
    assert "padded in" in shown[-1]["text/plain"] and len(shown) >= 3
    assert all(bundle["text/plain"] in bundle["text/html"] for bundle in shown)


def test_a_text_keeps_its_color_from_row_to_row():
    lengths = np.array([3, 5, 4])
    drawn = []
    for rows in ([[0], [1], [2]], [[1], [2, 0]]):
        _, ax = new_figure()
        figures.draw_rows(ax, rows, lengths, 8, 3)
        bars = ax.collections[1]
        spans = [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in bars.get_paths()]
        drawn.append(dict(zip([i for row in rows for i in row], map(tuple, bars.get_facecolors()), strict=True)))
    assert drawn[0] == drawn[1] and spans == [(0, 5), (0, 4), (4, 7)]


@pytest.mark.parametrize(
    ("packs", "said"),
    [
        ([[3, 5], [4]], None),
        ([[3], [5], [4]], "that takes 3 rows, and 2 would do."),
        ([[3, 5]], "4 is left out."),
        ([[5]], "[3, 4] are left out."),
        ([[3, 5], [4, 4]], "4 is in the packs more often than among the texts."),
        ("three", "each row must be a list of lengths, such as [12, 8], and no text."),
        ([[3, 5, 4]], "3 + 5 + 4 is 12; a row has 8 slots."),
    ],
)
def test_what_is_wrong_with_packs_is_said(packs, said):
    assert lesson.pack_fault(packs, [5, 3, 4], 8, 2) == said


def test_packs_to_read_are_small_enough_for_their_lines_and_nothing_is_cut():
    packs = pack_lengths(STORE.lengths, 64)
    chosen = figures.readable(packs, WORDS, lines=9)
    assert len(set(chosen)) == 2
    assert all(sum(len(figures.on_lines(WORDS[i])) for i in packs[pack]) <= 4 for pack in chosen)
    assert all(" ".join(figures.on_lines(text)) == text for text in WORDS)
    alone = figures.readable(pack_lengths([3] * 20, 64), ["a text"] * 20, lines=9)
    assert len(alone) == 1, "none is small: one stands for all"


def test_a_model_of_frequencies_alone_has_the_loss_that_its_frequencies_say():
    race = runs.Race(96, HELD_OUT, 64)
    everywhere = runs.frequency_loss(STORE.take(np.arange(0)), race.batches)
    assert everywhere == pytest.approx(np.log(4000)), "without texts, all tokens are equally likely"
    assert runs.frequency_loss(STORE, race.batches) < everywhere


def test_the_first_page_of_the_tour_does_not_wait_for_torch():
    code = "import sys; from packlib.workbook.chapters.n00_tour import figures, lesson, texts"
    code += "; from packlib.workbook.parameters import check_parameters; texts.tokens_of('a dog')"
    code += "; assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
