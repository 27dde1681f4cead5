"""Verb ``report``: an experiment as one HTML page that needs nothing else."""
