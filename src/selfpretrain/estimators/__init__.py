"""Estimators: self-pretraining with the manners of scikit-learn, and the trained models it leaves."""
