from packbook.parameters import Dataset, Whole

PARAMETERS = {
    "dataset": Dataset(),
    "stages": Whole(2, 24),
    "micro_batch": Whole(1, 512),
    "gradient_accumulation_steps": Whole(1, 65_536),
    "replicas": Whole(1, 4096),
}
