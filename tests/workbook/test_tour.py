"""Notebook 00's chapter: all runs are fed the same, and watching changes nothing."""

import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import nbformat
import numpy as np
import torch

from packbook.figures import new_figure, styled
from packbook.n00_tour import figures, runs
from packbook.n00_tour.texts import choose_texts, tokens_of
from packbook.records import recorded
from packbook.run.running import notebooks
from packbook.shared.two_words import small_bert_of_words, two_word_batch

WORDS, LENGTHS, NUMBERS = choose_texts("wordnet", 120, 64, seed=2)
STORE = runs.read_tokens("wordnet", NUMBERS, 64)


def test_texts_fit_their_tokens_and_pairs_have_the_example_behind_the_definition():
    assert STORE.lengths.max() <= 64 and (STORE.lengths == LENGTHS).all()
    assert len(WORDS) == len(STORE) == 120 and len(tokens_of(WORDS[0])) == LENGTHS[0]
    words, lengths, numbers = choose_texts("wordnet-pairs", 100, 128, seed=0)
    store = runs.read_tokens("wordnet-pairs", numbers, 128)
    assert all("; " in text for text in words) and (store.lengths == lengths).all()
    assert all(store[i]["token_type_ids"][-1] == 1 for i in range(100))


def gradients(race, way):
    """The gradient of each update of a run whose weights stay as they are."""
    model = small_bert_of_words(seed=2).double()
    for sentences in race.sentences(way, model):
        model(**runs.lay_out(way, sentences, race.slots, race.seed)).loss.backward()
        yield torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
        model.zero_grad()


def test_padded_and_packed_have_the_same_gradient_at_each_update_and_no_mask_another(monkeypatch):
    race = runs.Race(LENGTHS, 64, 2, seed=2, watched=False)
    for maximum, longest, packed, unmasked in zip(*(gradients(race, way) for way in runs.WAYS), strict=True):
        for same in (longest, packed):
            assert torch.allclose(maximum, same, rtol=0, atol=1e-12 * float(maximum.norm()))
        assert (unmasked - maximum).norm() > 1e-3 * maximum.norm()


def test_the_notebook_lays_sentences_out_as_the_recorded_race_does():
    cells = nbformat.read(notebooks()["00_tour"], as_version=4).cells
    (source,) = [cell.source for cell in cells if "def lay_out(way, sentences):" in cell.source]
    names = {"runs": runs, "two_word_batch": two_word_batch, "params": SimpleNamespace(max_length=128, seed=3)}
    exec(source, names)
    sentences = next(
        iter(runs.Race(LENGTHS, 64, 1, seed=3, watched=False).sentences("packed", small_bert_of_words(3)))
    )
    for way in runs.WAYS:
        ours, recorded = names["lay_out"](way, sentences), runs.lay_out(way, sentences, 64, 3)
        assert dict(ours).keys() == dict(recorded).keys()
        assert all(torch.equal(ours[name], recorded[name]) for name in dict(ours) if torch.is_tensor(ours[name]))


def test_each_run_has_the_rows_that_its_name_says_and_sentences_as_different_as_texts():
    race = runs.Race(LENGTHS, 64, 4, seed=2, watched=False)
    lengths = race.learned.lengths
    assert lengths.min() >= runs.LEAST and lengths.max() <= 64 and set(lengths) <= {*LENGTHS.clip(runs.LEAST)}
    sentences = race.learned.take(np.arange(runs.BATCH))
    shapes = [tuple(runs.lay_out(way, sentences, 64, 2)["input_ids"].shape) for way in runs.WAYS]
    assert shapes[:2] == [(40, 64), (40, sentences.lengths.max())]
    assert shapes[2] == shapes[3] and shapes[2][0] < 20 and shapes[2][1] == 64


def test_the_title_says_against_what_packing_is_faster_or_that_it_is_not_and_no_number_of_one_run():
    race = runs.Race(LENGTHS, 64, 1, seed=2, watched=False)

    def title(slow, fast, padded=0.99, packed=0.99):
        race.points = {"padded to the longest": [(40, slow, padded)], "packed": [(40, fast, packed)]}
        return race.title()

    assert title(3.0, 1.5) == title(2.7, 1.5) == "Packed learns the same as padded to the longest, in less time"
    assert (
        title(1.0, 1.0)
        == title(1.05, 1.0)
        == "Packed learns the same as padded to the longest, in about the same time"
    )
    assert title(3.0, 1.5, 0.9, 0.8) == "Packed 80 % are right, padded 90 %"


def test_what_was_recorded_is_that_packed_runs_learn_the_same_in_less_time():
    rows = recorded("race").rows
    ends = {(row["run"], row["seed"]): row["right"] for row in rows}
    for seed in {row["seed"] for row in rows}:
        longest, packed = ends["padded to the longest", seed], ends["packed", seed]
        assert abs(ends["padded to the maximum", seed] - packed) <= 0.01 and abs(longest - packed) <= 0.01
        assert ends["packed, no mask", seed] < packed - 0.3
    table = {way: numbers for way, *numbers in runs.medians(rows)}
    assert list(table) == list(runs.WAYS)
    assert table["padded to the maximum"][-1] > table["padded to the longest"][-1] > 1.5 and table["packed"][-1] == 1


def test_a_race_is_tested_on_sentences_that_no_run_learned_from():
    race = runs.Race(LENGTHS, 64, 30, seed=2)
    learned = {tuple(row["input_ids"].tolist()) for row in race.learned}
    words = torch.where(race.test.labels >= 0, race.test.labels, race.test.input_ids)
    new = {tuple(row[:length].tolist()) for row, length in zip(words, race.test.lengths, strict=True)}
    assert len(learned) > 1000 and len(new) > 150 and not learned & new


def test_watching_a_run_does_not_change_it_and_its_picture_is_one_output(monkeypatch):
    shown, handle = [], Mock()
    display = Mock(side_effect=lambda bundle, **_: shown.append(bundle) or handle)
    handle.update.side_effect = lambda bundle, **_: shown.append(bundle)
    monkeypatch.setattr("IPython.display.display", display)
    ends = []
    for every in (1, 3):
        race = runs.Race(LENGTHS, 64, 3, seed=2, every=every)
        for way in runs.WAYS:
            model = small_bert_of_words(seed=2)
            optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
            for sentences in race.sentences(way, model):
                model(**runs.lay_out(way, sentences, 64, 2)).loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        ends.append([points[-1][2] for points in race.points.values()])
        race.finish("race")
    assert ends[0] == ends[1] and [point[0] for point in race.points["packed"]] == [0, 120]
    assert display.call_count == 2, "the first picture of a race is shown, the others take its place"
    assert shown[-1]["text/plain"].startswith("Without the mask ")
    assert shown[-1]["image/png"]


@styled()
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
    code += "; from packbook.n00_tour import check_parameters; texts.tokens_of('a dog')"
    code += "; assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
