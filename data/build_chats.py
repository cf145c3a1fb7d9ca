"""Take `data/lengths/chats.csv` out of the trace that Azure published: 500 requests to a chat service, in tokens.

    python data/record.py chats AzureLLMInferenceTrace_conv.csv

The trace is `data/AzureLLMInferenceTrace_conv.csv` of https://github.com/Azure/AzurePublicDataset. One kind of request
fills some minutes of its hour, so these are the 100 whole lines that follow each fifth of the file.
"""

import argparse
from pathlib import Path

PLACES, LINES = 5, 100


def main(*given: str) -> None:
    parser = argparse.ArgumentParser(prog="python data/record.py chats", description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path, help="AzureLLMInferenceTrace_conv.csv")
    trace = parser.parse_args(given).trace.read_text()
    taken = ["prompt,answer"]
    for place in range(PLACES):
        _, *lines = trace[place * (len(trace) // PLACES) :].split("\n", LINES + 1)  # the first is the header, or cut
        taken += [line.partition(",")[2] for line in lines[:LINES]]  # without the time
    Path(__file__).with_name("lengths").joinpath("chats.csv").write_text("\n".join(taken) + "\n")
