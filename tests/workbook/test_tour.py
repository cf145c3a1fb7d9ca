"""Notebook 00's chapter: all runs are fed the same, and watching changes nothing."""

import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import torch

from packbook.figures import new_figure
from packbook.n00_tour import figures, runs
from packbook.n00_tour.texts import choose_texts, tokens_of
from packbook.shared.two_words import small_bert_of_words

WORDS, LENGTHS, NUMBERS = choose_texts("wordnet", 120, 64, seed=2)
STORE = runs.read_tokens("wordnet", NUMBERS, 64)


def test_texts_fit_their_tokens_and_pairs_have_the_example_behind_the_definition():
    assert STORE.lengths.max() <= 64 and (STORE.lengths == LENGTHS).all()
    assert len(WORDS) == len(STORE) == 120 and len(tokens_of(WORDS[0])) == LENGTHS[0]
    words, lengths, numbers = choose_texts("wordnet-pairs", 100, 128, seed=0)
    store = runs.read_tokens("wordnet-pairs", numbers, 128)
    assert all("; " in text for text in words) and (store.lengths == lengths).all()
    assert all(store[i]["token_type_ids"][-1] == 1 for i in range(100))


def gradients(race, name):
    """The gradient of each update of a run whose weights stay as they are."""
    model = small_bert_of_words(seed=2).double()
    for fields in race.batches(name, model):
        model(**fields).loss.backward()
        yield torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
        model.zero_grad()


def test_padded_and_packed_have_the_same_gradient_at_each_update_and_no_mask_another(monkeypatch):
    race = runs.Race(2, seed=2)
    monkeypatch.setattr(race, "_show", lambda *_: None)
    for padded, packed, unmasked in zip(*(gradients(race, name) for name in runs.WAYS), strict=True):
        assert torch.allclose(padded, packed, rtol=0, atol=1e-12 * float(padded.norm()))
        assert (unmasked - padded).norm() > 1e-3 * padded.norm()


def test_a_race_is_tested_on_sentences_that_no_run_learned_from():
    race = runs.Race(30, seed=2)
    learned = {tuple(row["input_ids"].tolist()) for row in race.learned}
    words = torch.where(race.held_out.labels >= 0, race.held_out.labels, race.held_out.input_ids)
    new = {tuple(row[:length].tolist()) for row, length in zip(words, race.held_out.lengths, strict=True)}
    assert len(learned) > 1000 and len(new) > 300 and not learned & new


def test_watching_a_run_does_not_change_it_and_its_picture_is_one_output(monkeypatch):
    shown, handle = [], Mock()
    display = Mock(side_effect=lambda bundle, **_: shown.append(bundle) or handle)
    handle.update.side_effect = lambda bundle, **_: shown.append(bundle)
    monkeypatch.setattr("IPython.display.display", display)
    ends = []
    for every in (1, 3):
        race = runs.Race(3, seed=2, every=every)
        for name in runs.WAYS:
            model = small_bert_of_words(seed=2)
            optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
            for fields in race.batches(name, model):
                model(**fields).loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        ends.append([points[-1][2] for points in race.points.values()])
        race.finish("race")
    assert ends[0] == ends[1] and [point[0] for point in race.points["packed"]] == [0, 120]
    assert display.call_count == 2, "the first picture of a race is shown, the others take its place"
    assert shown[-1]["text/plain"].startswith("Without the mask ")
    assert shown[-1]["image/png"]


def test_a_text_keeps_its_color_from_row_to_row():
    drawn = []
    for rows in ([[0], [1], [2]], [[1], [2, 0]]):
        _, ax = new_figure()
        figures.draw_rows(ax, rows, np.array([3, 5, 4]), 8, 3)
        colors = map(tuple, ax.collections[1].get_facecolors())
        drawn.append(dict(zip([i for row in rows for i in row], colors, strict=True)))
    assert drawn[0] == drawn[1]


def test_the_first_page_of_the_tour_does_not_wait_for_torch():
    code = "import sys; from packbook.n00_tour import figures, lesson, texts"
    code += "; from packbook.parameters import check_parameters; texts.tokens_of('a dog')"
    code += "; assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
