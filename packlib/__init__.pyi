from . import advisor, batches, bridges, distributed, lengths, model, packing, training, workbook

__all__ = ["advisor", "batches", "bridges", "distributed", "lengths", "model", "packing", "training", "workbook"]
