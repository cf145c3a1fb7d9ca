from packbook.parameters import Whole

PARAMETERS = {"max_length": Whole(256, 32_768), "answers_per_prompt": Whole(2, 64), "ranks": Whole(2, 64)}
