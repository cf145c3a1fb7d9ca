"""Packed training to copy: lists of tokens become packs, each pack a flat row, and an unmodified model takes one step.

It needs torch and transformers, and nothing of this workbook; notebook 06 explains it. As a script it compares the step
with the same step on padded rows:

    python take_home.py
"""

from itertools import pairwise

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import GPT2Config, GPT2LMHeadModel


def pack(sequences, slots):
    """Put each sequence, from long to short, into the fullest pack with room for it among `slots` tokens."""
    packs = []
    for sequence in sorted(sequences, key=len, reverse=True):
        if not 1 <= len(sequence) <= slots:
            raise ValueError(f"each sequence must have 1 to {slots} tokens, not {len(sequence)}.")
        with_room = [one for one in packs if sum(map(len, one)) + len(sequence) <= slots]
        if not with_room:
            packs.append([])
            with_room = packs[-1:]
        max(with_room, key=lambda one: sum(map(len, one))).append(sequence)
    return packs


def flat_row(sequences):
    """Join a pack to one row without padding; return it, and the bounds of its sequences."""
    tokens = torch.tensor([token for sequence in sequences for token in sequence])
    positions = torch.cat([torch.arange(len(sequence)) for sequence in sequences])
    labels = torch.where(positions == 0, -100, tokens)  # no token predicts the first one of the next sequence
    bounds = [*(positions == 0).nonzero().flatten().tolist(), len(tokens)]
    return {"input_ids": tokens[None], "position_ids": positions[None], "labels": labels[None]}, bounds


def padded_rows(sequences):
    """Put the same sequences, for comparison, each into a row of its own, filled up to the longest."""
    tokens = pad_sequence([torch.tensor(sequence) for sequence in sequences], batch_first=True)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    real = torch.arange(tokens.shape[1]) < lengths[:, None]
    return {"input_ids": tokens, "attention_mask": real.long(), "labels": torch.where(real, tokens, -100)}


def new_model():
    """Make a small GPT-2 as transformers does, with the same random weights at each call."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1,
                        embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0)  # fmt: skip
    model = GPT2LMHeadModel(config).double()
    model.loss_type = "ForCausalLM"  # the one that transformers takes anyway, with a warning
    return model


def update(model, batches):
    """Take one step from all batches: their summed losses over the count of all their labels."""
    count = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)
    optimizer, logits, mean, own = torch.optim.SGD(model.parameters(), lr=0.1), [], 0.0, 0.0
    for batch in batches:
        output = model(**batch, use_cache=False, num_items_in_batch=count)
        predicted, labels = output.logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten()
        loss = cross_entropy(predicted, labels, reduction="sum") / count
        loss.backward()
        logits.append(output.logits.detach())
        mean, own = mean + loss.item(), own + output.loss.item()  # own: as the model computes it, in single precision
    optimizer.step()
    return logits, mean, own


if __name__ == "__main__":
    random = torch.Generator().manual_seed(0)
    texts = [torch.randint(100, (length,), generator=random).tolist() for length in (9, 30, 4, 17, 12, 6, 25)]
    packs = pack(texts, slots=48)
    rows, bounds = zip(*map(flat_row, packs), strict=True)
    for one, ends in zip(packs, bounds, strict=True):
        print(f"a row of {' + '.join(str(len(text)) for text in one)} tokens, bounds {ends}")

    flat, padded = new_model(), new_model()
    flat_logits, flat_mean, flat_own = update(flat, rows)
    (padded_logits,), padded_mean, padded_own = update(padded, [padded_rows([text for one in packs for text in one])])
    pieces = [row[0, a:b] for row, ends in zip(flat_logits, bounds, strict=True) for a, b in pairwise(ends)]
    apart = [(piece - row[: len(piece)]).abs().max() for piece, row in zip(pieces, padded_logits, strict=True)]
    moved = [(one - other).abs().max() for one, other in zip(flat.parameters(), padded.parameters(), strict=True)]
    print("logits equal to 1e-10:", bool(max(apart) < 1e-10))
    print("cross entropy equal to 1e-10:", abs(flat_mean - padded_mean) < 1e-10)
    print("the model's own loss equal to 1e-6 of it:", abs(flat_own - padded_own) < 1e-6 * padded_own)
    print("weights after the step equal to 1e-10:", bool(max(moved) < 1e-10))
