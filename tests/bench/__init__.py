"""What questline costs: `python -m tests.bench [--short]`, each figure beside its baseline of the same run."""
