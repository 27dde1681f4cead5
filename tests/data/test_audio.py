"""What headers of audio files say and do not say, against files made byte by byte."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import soundfile

from asr_parallel.data import audio
from asr_parallel.data.audio import Audio, AudioError, probe, samples

RATE = 8000
WAVE = (np.arange(4001) % 251 * 120 - 15000).astype("<i2")
PCM = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
GUID = b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"


def riff(data=None, size=None, total=None, before=b"", after=b"", fmt=PCM):
    data = WAVE.tobytes() if data is None else data
    body = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + before
    body += b"data" + struct.pack("<I", len(data) if size is None else size) + data + after
    return b"RIFF" + struct.pack("<I", len(body) if total is None else total) + body


def nist(coding="pcm", data=None, count=4001):
    fields = ["NIST_1A", "   1024", "channel_count -i 1", f"sample_count -i {count}", f"sample_rate -i {RATE}"]
    fields += ["sample_n_bytes -i 2", "sample_byte_format -s2 01", "sample_sig_bits -i 16"]
    fields += [f"sample_coding -s{len(coding)} {coding}", "end_head", ""]
    return "\n".join(fields).encode().ljust(1024) + (WAVE.tobytes() if data is None else data)


LIST = b"LIST" + struct.pack("<I", 5) + b"INFOx"
EXTENSIBLE = struct.pack("<HHIIHHHHIH", 0xFFFE, 1, RATE, 3 * RATE, 3, 24, 22, 24, 4, 1) + GUID
WIDE = b"".join(struct.pack("<i", int(v) << 8)[:3] for v in WAVE)


@pytest.mark.parametrize(
    ("content", "direct"),
    [
        (riff(), True),
        (riff(before=LIST + b"\0"), True),
        (riff(before=LIST), False),
        (riff(after=LIST), True),
        (riff(WIDE, fmt=EXTENSIBLE), True),
        (riff(size=0, total=0), False),
        (riff(size=0xFFFFFFFF, total=0xFFFFFFFF), True),
        (riff(size=0x7FFFFFFF - 36, total=0x7FFFFFFF), True),
        (riff(WAVE.tobytes() + b"\1", size=0), False),  # half a sample at the end
        (nist(), True),
    ],
)
def test_d23_whole_files(tmp_path, content, direct):
    """D23 (karl2d#215, wavefile#37): extensible and 24-bit formats, odd chunks with and without padding, streams."""
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    found = probe(path)
    assert found == Audio(RATE, len(WAVE), 1, "", direct)
    np.testing.assert_array_equal(np.round(samples(path, found)[:, 0] * 32768), WAVE)
    if direct:
        assert soundfile.info(path).frames == len(WAVE)


@pytest.mark.parametrize("content", [riff()[:-2000], nist()[:-2000], riff(before=LIST)[:-2000]])
def test_files_that_were_cut_say_so(tmp_path, content):
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    found = probe(path)
    assert found.frames == len(WAVE) - 1000
    assert found.lost == f"is cut short: {len(WAVE) - 1000} samples where its header says {len(WAVE)}"
    np.testing.assert_array_equal(np.round(samples(path, found)[:, 0] * 32768), WAVE[:-1000])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "is not there"),
        (b"", "is empty"),
        (riff()[:30], "nothing that can be read here"),
        (b"RIFF" + bytes(100), "nothing that can be read here"),
        (b"\x00\x00\x00\x18ftypmp42" + bytes(100), "put ffmpeg on the PATH, or convert it"),
    ],
)
def test_files_of_no_use(tmp_path, monkeypatch, content, why):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "a.wav"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AudioError, match=why):
        probe(path)


SHORTEN = nist("pcm,embedded-shorten-v2.00", np.random.default_rng(0).bytes(5000))


def test_d21_shorten_is_never_noise(tmp_path, monkeypatch):
    """D21 (audio#989, lhotse#362): without a decoder a message that names both; and soundfile gives nothing either."""
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "a.sph"
    path.write_bytes(SHORTEN)
    with pytest.raises(AudioError, match="compressed with shorten: put ffmpeg or sph2pipe on the PATH"):
        probe(path)
    with pytest.raises(soundfile.SoundFileError):
        soundfile.read(path)


@pytest.mark.parametrize("tool", ["sph2pipe", "ffmpeg"])
def test_d21_decoders_are_used_where_they_are(tmp_path, monkeypatch, tool):
    """A stand-in for the decoder copies what it should have decoded to its last argument."""
    folder = tmp_path / "bin (é)"
    folder.mkdir()
    (folder / "whole.wav").write_bytes(riff())
    program = folder / tool
    program.write_text(
        '#!/bin/sh\nfor out; do :; done\nwhile read -r x; do :; done < "$0"\n/bin/cp "${0%/*}/whole.wav" "$out"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    path = tmp_path / "a b;.sph"
    path.write_bytes(SHORTEN)
    found = probe(path)
    assert found == Audio(RATE, len(WAVE), 1, "", False)
    np.testing.assert_array_equal(np.round(samples(path, found)[:, 0] * 32768), WAVE)
    program.write_text("#!/bin/sh\necho no such stream >&2\nexit 3\n")
    with pytest.raises(AudioError, match=f"cannot be decoded: {tool} ended with 3: no such stream"):
        probe(path)


def test_d30_samples_are_in_the_range_that_kaldi_expects(tmp_path):
    """D30 (audio#400, lhotse#14): reading gives [-1, 1]; the front end scales by 32768 and adds no dither."""
    from asr_parallel.data.frontend import SCALE

    path = tmp_path / "a.wav"
    path.write_bytes(riff())
    wave = samples(path, probe(path))
    assert abs(wave).max() <= 1.0
    assert SCALE == 32768 == round(float(WAVE[7]) / wave[7, 0])
    assert {".wav", ".sph", ".flac"} <= audio.SUFFIXES
