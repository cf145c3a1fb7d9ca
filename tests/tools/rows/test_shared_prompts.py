"""Answers that share a prompt in a row: what each gets is what prompt and answer get alone."""

import pickle

import pytest
import torch
import transformers
from transformers import BertForMaskedLM, FalconForCausalLM, LlamaForCausalLM, RoFormerForCausalLM

from packlib.packing import pack_groups
from packlib.tools.rows import SharedPromptCollator, lay_groups
from small_families import MAPPINGS, VOCABULARY, InDouble, quiet, randomize, small_config

FAMILIES = ("llama", "gpt2", "qwen3", "mistral", "gemma3_text", "mixtral", "gpt_neox", "llama4_text")
SIZES = ((5, (3, 1, 4)), (1, (2, 2)), (9, (2, 6)), (2, (1,)), (6, (5, 3, 2, 1)))  # a prompt's tokens, and its answers'


def tokens_of():
    generator = torch.Generator().manual_seed(3)

    def draw(number):
        return torch.randint(4, VOCABULARY, (number,), generator=generator).tolist()

    return [draw(prompt) for prompt, _ in SIZES], [[draw(n) for n in own] for _, own in SIZES]


def laid(prompts, answers, **options):
    """In rows of 16 slots, of which the largest group takes two."""
    rows = pack_groups([*map(len, prompts)], [[*map(len, own)] for own in answers], 16)
    return list(lay_groups(rows, prompts, answers, **options))


def alone(model, prompts, answers, batch, prompt_loss):
    """The log-probability of every token of an answer, and the mean loss, with a prompt for each answer."""
    sums, total, count = [], 0, 0
    for group, number in zip(batch.groups, batch.answers, strict=True):
        ids = torch.tensor([prompts[group] + answers[group][number]])
        scores = model(input_ids=ids, use_cache=False).logits[0, :-1].log_softmax(-1)
        found = -scores.gather(1, ids[0, 1:, None])[:, 0]
        own = found[len(prompts[group]) - 1 :]
        sums.append(own.sum())
        counted = found if prompt_loss else own
        total, count = total + counted.sum(), count + len(counted)
    return torch.stack(sums), total / count


@pytest.mark.parametrize("prompt_loss", [False, True])
@pytest.mark.parametrize("family, backend", [*((family, "eager") for family in FAMILIES), ("llama", "sdpa")])
def test_logits_loss_and_gradients_are_those_of_a_prompt_for_each_answer(family, backend, prompt_loss):
    with quiet(), InDouble():
        config = small_config("causal", family)
        config._attn_implementation = backend
        model = getattr(transformers, MAPPINGS["causal"][family])(config).double().eval()
        randomize(model)
        prompts, answers = tokens_of()
        collate = pickle.loads(pickle.dumps(SharedPromptCollator(model, pad_id=2)))  # as workers get it
        batch = collate(laid(prompts, answers, prompt_loss=prompt_loss))
        asked_for = [(group, number) for group, own in enumerate(answers) for number in range(len(own))]
        assert sorted(zip(batch.groups, batch.answers, strict=True)) == asked_for
        assert (batch.inputs["input_ids"] == 2).any()
        output, gradients = model(**batch.inputs), []
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        loss = batch.loss(output.logits)
        if not prompt_loss:
            torch.testing.assert_close(output.loss, loss, rtol=0, atol=1e-12)  # the model's own is the same
        sums = batch.answer_sums(batch.losses(output.logits) * (batch.answer_ids >= 0))
        others, mean = alone(model, prompts, answers, batch, prompt_loss)
        for each in (loss, mean):
            found = torch.autograd.grad(each, trained, allow_unused=True)
            gradients.append([torch.zeros(()) if one is None else one for one in found])
        if not prompt_loss:  # else a head's label is that of the shared tokens
            assert (sums - others).abs().max() < 1e-10
        assert (loss - mean).abs() < 1e-10
        assert max((a - b).abs().max() for a, b in zip(*gradients, strict=True)) < 1e-10


def test_what_would_not_be_exact_is_refused():
    with pytest.raises(TypeError, match="a prompt's tokens would see its answers"):
        SharedPromptCollator(BertForMaskedLM(small_config("masked", "bert")))
    with quiet(), pytest.raises(TypeError, match=r"distances in slots|whole rows"):
        SharedPromptCollator(FalconForCausalLM(small_config("causal", "falcon", alibi=True)))
    with quiet(), pytest.raises(TypeError, match="distances in slots"):
        SharedPromptCollator(RoFormerForCausalLM(small_config("causal", "roformer")))
    flash = LlamaForCausalLM(small_config("causal", "llama"))
    flash.config._attn_implementation = "flash_attention_2"
    with pytest.raises(TypeError, match="takes no mask of pairs"):
        SharedPromptCollator(flash)
    short = LlamaForCausalLM(small_config("causal", "llama", max_position_embeddings=8))
    with pytest.raises(ValueError, match="the model's position table ends at 8"):
        SharedPromptCollator(short)(laid(*tokens_of()))
    with pytest.raises(ValueError, match="at least one row"):
        SharedPromptCollator(LlamaForCausalLM(small_config("causal", "llama")))([])
    prompts, answers = tokens_of()
    rows = pack_groups([*map(len, prompts)], [[*map(len, own)] for own in answers], 24)
    answers[2][1].append(7)
    with pytest.raises(ValueError, match="made for 6 tokens of answer 1 of group 2, not for 7"):
        list(lay_groups(rows, prompts, answers))
