"""Kaldi's files in and out: data directories, archives, alignments, graphs and networks; see ``docs/kaldi.md``."""
