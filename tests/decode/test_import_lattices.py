"""Verb ``import-lattices`` from Kaldi's text to what ``score`` reads."""

from __future__ import annotations

import dataclasses
import logging

import pytest
from test_kaldi_text import BY_HAND

from asr_parallel.config import ImportLatticesConfig
from asr_parallel.decode import import_lattices
from asr_parallel.decode.lattice import Lattices
from asr_parallel.files import read_json
from asr_parallel.log import UserError


@pytest.fixture
def config(tmp_path):
    (tmp_path / "lat.txt").write_text(BY_HAND)
    return ImportLatticesConfig(lattices=tmp_path / "lat.txt", out=tmp_path / "kaldi" / "decode_test", lmwt=7.0)


def test_words(config):
    """At LM weight 7 the paths of utt-1 cost 5.29 (A B), 4.36 (B A B) and 13.4 (B); at 1000 the first is best."""
    import_lattices.run(config)
    assert (config.out / "hyp.txt").read_text() == "utt-1 B A B\nutt-2\nutt-3\n"
    assert read_json(config.out / "import.json")["empty"] == ["utt-2"]
    assert Lattices.load(config.out / "lattices.npz").best("utt-1", 1000.0, 0.0) == ["A", "B"]
    assert config.inputs() == [config.lattices]
    assert all(path.exists() for path in config.outputs())


def test_numbers(config, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("asr_parallel"), "propagate", True)
    config.lattices.write_text(BY_HAND.replace(" A ", " 2 ").replace(" B ", " 1 "))
    (tmp_path / "words.txt").write_text("<eps> 0\nTWO 1\nONE 2\n")
    import_lattices.run(dataclasses.replace(config, words=tmp_path / "words.txt"))
    assert "utt-1 TWO ONE TWO\n" in (config.out / "hyp.txt").read_text()
    assert "give --words" not in caplog.text
    import_lattices.run(config)
    assert "has words such as 2: give --words if they are numbers" in caplog.text


def test_impossible_weight(config):
    with pytest.raises(UserError, match="--lmwt"):
        import_lattices.run(dataclasses.replace(config, lmwt=0.0))
