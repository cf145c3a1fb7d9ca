"""Count the lengths in the two traces of requests that Azure published: chats, and completions of code.

    python data/record.py azure AzureLLMInferenceTrace_conv.csv AzureLLMInferenceTrace_code.csv

The traces lie in `data/` of https://github.com/Azure/AzurePublicDataset. A length is the tokens of a prompt and of what
was generated, as they would stand in a row of training.
"""

import argparse
import csv
from pathlib import Path

from packlib import LengthHistogram

LENGTHS = Path(__file__).with_name("lengths")


def main(*given: str) -> None:
    parser = argparse.ArgumentParser(prog="python data/record.py azure", description=__doc__.splitlines()[0])
    parser.add_argument("chats", type=Path, help="AzureLLMInferenceTrace_conv.csv")
    parser.add_argument("code", type=Path, help="AzureLLMInferenceTrace_code.csv")
    traces = parser.parse_args(given)
    count(traces.chats).to_csv(LENGTHS / "azure-chats.csv")
    count(traces.code).to_csv(LENGTHS / "azure-code.csv")


def count(trace: Path) -> LengthHistogram:
    """Return the lengths of the requests in a trace."""
    with trace.open(encoding="utf-8", newline="") as file:
        return LengthHistogram.from_lengths(
            int(request["ContextTokens"]) + int(request["GeneratedTokens"]) for request in csv.DictReader(file)
        )
