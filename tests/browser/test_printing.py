"""A report on paper: one page of A4 with the decisions, and a second one with what is behind the fold if it is open."""

import re

import numpy as np
import pytest
from datasets import Dataset
from transformers import AutoConfig

from packlib.tools.advice import advise
from packlib.tools.advice.page import page as report_page

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LENGTHS = np.random.default_rng(0).lognormal(6, 1.2, 4000).astype(int) + 2


@pytest.fixture(scope="module", params=["long documents", "all that can be asked"])
def report(request, tmp_path_factory):
    if request.param == "long documents":
        options = {"model": "7B", "memory": "80GB", "ranks": 16}
        return report_page(advise(LENGTHS * 64, 131_072, **options), "packlib report documents.npy")
    rows = [{"input_ids": [4] * n, "labels": [-100] * (n // 2) + [4] * (n - n // 2)} for n in np.minimum(LENGTHS, 512)]
    folder = tmp_path_factory.mktemp("rows")
    Dataset.from_list(rows).to_parquet(folder / "chats.parquet")
    bert = AutoConfig.for_model("bert", architectures=["BertForPreTraining"])  # whose pooler asks for the depths too
    bert.save_pretrained(folder)
    advice = advise(folder / "chats.parquet", 512, batch_size=4, ranks=8, model=folder, memory="80GB", source=LENGTHS)
    assert advice.depths and advice.loss and advice.upstream and advice.waiting
    return report_page(advice, "packlib report chats.parquet --max-length 512 --ranks 8 --source all.npy")


@pytest.mark.parametrize("opened", [None, "details"])
def test_a_printed_report_has_two_pages_at_most(chromium, tmp_path, report, opened):
    (tmp_path / "report.html").write_text(report, encoding="utf-8")
    with chromium.new_context(offline=True) as context:
        page = context.new_page()
        page.goto((tmp_path / "report.html").as_uri())
        if opened:
            page.locator(opened).evaluate_all("all => all.forEach(one => one.open = true)")
        printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type /Page\b", printed)) == (2 if opened else 1)
