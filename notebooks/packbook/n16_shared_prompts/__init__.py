from packbook.parameters import Whole

PARAMETERS = {
    "answers": Whole(2, 64),
    "prompt_tokens": Whole(16, 1 << 16),
    "answer_tokens": Whole(4, 1 << 16),
    "max_length": Whole(64, 1 << 17),
}
