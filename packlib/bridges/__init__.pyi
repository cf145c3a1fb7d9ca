from .trainer import PackTrainer

__all__ = ["PackTrainer"]
