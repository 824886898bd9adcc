"""Self-pretraining for sequence models: pretrain on the task's own data, finetune, compare fairly."""

__version__ = "0.1.0"
