"""The loaders that USING shows are right ones, as they stand there."""

import re
from pathlib import Path

import accelerate
import accelerate.data_loader
import pytest
from datasets import Dataset
from datasets.distributed import split_dataset_by_node
from loader_cases import ROWS, padded, samples
from torch.utils.data import DataLoader

import packlib
from packlib import check_loader
from packlib.batches import TokenStore, batch_by_tokens, pack_lengths, pack_loader

PAGE = (Path(packlib.__file__).parent / "USING.md").read_text()
BLOCKS = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "state=None" in block]
STORE = TokenStore.from_samples(ROWS)
GIVEN = {
    "accelerate": accelerate,
    "batch_by_tokens": batch_by_tokens,
    "collate": padded,
    "DataLoader": DataLoader,
    "dataset": Dataset.from_list(samples(192)),
    "pack_loader": pack_loader,
    "packs": pack_lengths(STORE.lengths, 16),
    "rows": ROWS,
    "split_dataset_by_node": split_dataset_by_node,
    "store": STORE,
}


@pytest.mark.parametrize("name", ["make", "stateful", "by_accelerate", "streamed", "packed"])
def test_a_loader_of_the_page_passes_every_question(name):
    names = dict(GIVEN)
    if name == "stateful":
        why = "torchdata is not installed: the extra test brings it"
        loaders = pytest.importorskip("torchdata.stateful_dataloader", reason=why)
        names["StatefulDataLoader"] = loaders.StatefulDataLoader
        names["StatefulDistributedSampler"] = loaders.sampler.StatefulDistributedSampler
    for block in BLOCKS:
        if f"def {name}(" in block:
            exec(block, names)
    found = check_loader(names[name], ranks=2)
    assert found.passed, found
    assert not {"stop", "later stop", "second stop", "epoch after a stop", "stop at the end"} & found.not_asked.keys()
