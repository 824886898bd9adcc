"""Scikit-learn estimators for self-pretraining and finetuning, and the trained models they save."""
