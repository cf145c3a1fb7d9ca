"""How long ranks wait on packs that others made: counted by hand, and on many log-normal lengths."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools import cli
from packlib.tools.auditing import audit, audit_waits
from packlib.work import Work, balance

ATTENTION = Work(per_token=0, per_square=1)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "packed.parquet"


def written(path, packs, **options):
    pq.write_table(pa.table({"seq_lengths": packs}), path, **options)
    return path


def test_two_ranks_by_hand(place):
    # 64 pairs and 16 + 16: the second rank waits for half of the time, the average rank for a quarter
    assert audit(written(place, [[8], [4, 4]]), ranks=2, batch_size=1, work=ATTENTION).waiting == (0.25,) * 4
    # 100 and 10 x 8 + 64 with a token at 10 and a pair at 1: 144 and 112
    waiting = audit(place, ranks=2, batch_size=1, work=Work(10, 1)).waiting
    assert waiting.mean == waiting.least == pytest.approx(1 - 128 / 144)


def test_an_update_takes_all_its_batches_and_packs_that_make_none_are_left_out(place):
    packs = [[8], [4, 4], [4, 4], [8], [2] * 4]
    found = audit(written(place, packs), ranks=2, batch_size=1, gradient_accumulation_steps=2, work=ATTENTION)
    assert "the first 4 packs are dealt at random to 2 ranks, 2 each in an update" in found.notes[-1]
    # of the six pairs that the first rank may get, two are as heavy as can be: 128 against 64; the others are even
    assert found.waiting.mean == pytest.approx(1 - 96 / (96 * 4 / 6 + 128 * 2 / 6), abs=0.01)
    assert found.waiting.least == found.balanced == 0


def test_a_log_normal_file_is_dealt_as_a_plain_loop_deals_it(place):
    lengths = np.minimum(np.random.default_rng(0).lognormal(6, 1.2, 20_000).astype(int) + 1, 8192)
    packs = plan(LengthHistogram.from_lengths(lengths, 8192), method="lpfhp").assign(lengths)
    written(place, [lengths[ids].tolist() for ids in packs], row_group_size=300)
    found = audit(place, lengths, ranks=8, batch_size=2, work=ATTENTION, max_sequences_per_pack=2)
    each, dealt = [int((lengths[ids] ** 2).sum()) for ids in packs], len(packs) // 16 * 16
    assert f"the first {dealt:,} packs" in found.notes[-1]
    rng = np.random.default_rng(9)
    slowest = mean = 0.0
    for _ in range(20_000):
        of_ranks = rng.choice(each[:dealt], 16, replace=False).reshape(8, 2).sum(axis=1)
        slowest, mean = slowest + of_ranks.max(), mean + of_ranks.mean()
    random, low, high, least = found.waiting
    assert abs(random - (1 - mean / slowest)) < 0.005
    assert low < random < high < low + 0.005 and least <= found.balanced < 0.4 * random
    assert found.balanced == pytest.approx(balance(packs, 8, 2, work=ATTENTION).waiting, abs=0.01)


def test_a_bounded_number_of_packs_is_dealt(place, monkeypatch):
    monkeypatch.setattr(audit_waits, "_MOST", 3)
    written(place, [[8], [], [4, 4], [8], [4, 4], [8], [8]], row_group_size=2)  # an empty one is not dealt
    found = audit(place, ranks=2, batch_size=1, work=ATTENTION)
    assert found.packs == 7 and "the first 2 packs" in found.notes[-1]


def test_what_cannot_be_told_is_said(place):
    pq.write_table(pa.table({"input_ids": [[1] * 8] * 4}), place)
    unknown = audit(place, ranks=2, batch_size=1)
    few = audit(written(place, [[8], [4, 4]]), ranks=2, batch_size=2)
    for found in (unknown, few):
        assert found.waiting is found.balanced is None and found.notes[-1].startswith("How long ranks wait is unknown")
    alone = audit(place, batch_size=2)
    assert alone.waiting is None and "wait" not in " ".join(alone.notes)


def test_the_shell_takes_a_model_and_prints_what_it_costs(place, capsys):
    written(place, [[8], [4, 4], [8], [8]])
    config = place.parent / "config.json"
    config.write_text(
        json.dumps({"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 9,
                    "num_key_value_heads": 1, "intermediate_size": 20, "hidden_act": "silu", "model_type": "llama"})
    )  # fmt: skip
    command = ["audit", str(place), "--ranks", "2", "--batch-size", "1", "--no-progress", "--json"]
    assert cli.main([*command, "--model", str(config)]) == 0
    theirs = json.loads(capsys.readouterr().out)
    work = Work.decoder(layers=2, width=8, feed_forward=20, heads=2, key_value_heads=1, head_width=4)
    expected = audit(place, ranks=2, batch_size=1, work=work)
    assert theirs["waiting"] == expected.waiting._asdict() and work.in_words in theirs["notes"][-1]
    assert cli.main(command) == 0
    usual = json.loads(capsys.readouterr().out)
    assert theirs["waiting"]["mean"] > usual["waiting"]["mean"] and "like Llama 3 8B's" in usual["notes"][-1]
