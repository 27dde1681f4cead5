"""The scripts of `local/` are no package: make them importable."""

import gzip
import hashlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "local"))


@pytest.fixture
def small_parts(monkeypatch):
    """The published table, for archives as small as these; no log of the script's own, no proxy."""
    import librispeech_parts as parts
    from tiny_librispeech import ARPA, LEXICON, SPEAKERS, layout, tar

    archives = {part: tar(layout(part)) for part in SPEAKERS}
    texts = {parts.LEXICON: LEXICON.encode(), parts.LM: gzip.compress(ARPA.encode())}
    for part, content in archives.items():
        row = parts.Part(31, hashlib.md5(content).hexdigest(), 3 * len(SPEAKERS[part]))
        monkeypatch.setitem(parts.PARTS, part, row)
    monkeypatch.setattr(parts, "LANGUAGE", {name: hashlib.md5(c).hexdigest() for name, c in texts.items()})
    monkeypatch.setattr("preparing.setup", lambda: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return {f"/31/{part}.tar.gz": c for part, c in archives.items()} | {f"/11/{name}": c for name, c in texts.items()}


@pytest.fixture
def librispeech(tmp_path):
    """Both parts of the tiny LibriSpeech, unpacked."""
    from tiny_librispeech import SPEAKERS, layout

    for part in SPEAKERS:
        for name, content in layout(part).items():
            path = tmp_path / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return tmp_path / "source"


@pytest.fixture
def openslr(small_parts):
    from range_server import Server

    found = Server(small_parts)
    yield found
    found.close()
