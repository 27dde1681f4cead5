"""Archives and scripts against those who know the format: kaldi_native_io (Kaldi's own code), kaldiio and kaldi-io."""

from __future__ import annotations

import gzip
import importlib.util
import io
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

from asr_parallel.kaldi.tables import ArchiveWriter, BadEntry, Script, read_archive, slices
from asr_parallel.kaldi.values import Reader, text_matrix, write_integers, write_matrix
from asr_parallel.log import UserError

kaldiio = pytest.importorskip("kaldiio")
native = pytest.importorskip("kaldi_native_io")
RNG = np.random.default_rng(0)
MATRICES = {
    "utt-1": (10 * RNG.standard_normal((40, 13))).astype(np.float32),
    "archêvéque-1": RNG.standard_normal((4, 13)).astype(np.float32),
    "話-1": np.full((9, 13), 2.5, np.float32),  # a column whose values are all the same
    "utt-4": RNG.standard_normal((3000, 13)).astype(np.float32),
}
INTEGERS = {
    "a": np.array([0, 5, -3, 2**31 - 1], np.int32),
    "é": np.zeros(0, np.int32),
    "c": np.arange(7, dtype=np.int32),
}


def read(path, take=Reader.matrix):
    return dict(read_archive(path, take))


def same(ours, theirs):
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        np.testing.assert_array_equal(ours[key], value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("text", [False, True])
def test_matrices_of_kaldiio(tmp_path, dtype, text):
    """K9: ids are UTF-8."""
    matrices = {key: m.astype(dtype) for key, m in MATRICES.items()}
    kaldiio.save_ark(str(tmp_path / "a.ark"), matrices, scp=str(tmp_path / "a.scp"), text=text)
    found = read(tmp_path / "a.ark")
    assert list(found) == list(matrices)
    for key, m in matrices.items():
        np.testing.assert_allclose(found[key], m, rtol=1e-6)
    script = Script(tmp_path / "a.scp", Reader.matrix)
    for key in reversed(matrices):
        np.testing.assert_array_equal(script[key], found[key])


@pytest.mark.parametrize("method", range(1, 8))
def test_compressed_matrices_as_kaldi_and_kaldiio_read_them(tmp_path, method):
    """K1.  Methods 1 and 2 give CM, 3 and 4 CM2, 5 to 7 CM3."""
    ark = str(tmp_path / "a.ark")
    kaldiio.save_ark(ark, MATRICES, compression_method=method)
    kind = (tmp_path / "a.ark").read_bytes().removeprefix(b"utt-1 \0B").split()[0]
    assert kind == {1: b"CM", 2: b"CM", 3: b"CM2", 4: b"CM2"}.get(method, b"CM3")
    found = read(tmp_path / "a.ark")
    assert list(found) == list(MATRICES)
    for key, theirs in kaldiio.load_ark(ark):
        np.testing.assert_allclose(found[key], theirs, atol=2e-5, rtol=1e-5)
    with native.SequentialFloatMatrixReader(f"ark:{ark}") as kaldi:
        for key, theirs in kaldi:
            np.testing.assert_allclose(found[key], np.array(theirs), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("method", ["kAutomaticMethod", "kSpeechFeature", "kTwoByteAuto", "kOneByteAuto"])
def test_what_kaldi_compressed_is_near_what_it_was(tmp_path, method):
    with native.CompressedMatrixWriter(f"ark:{tmp_path}/a.ark") as writer:
        for key, m in MATRICES.items():
            writer.write(key, m, getattr(native.CompressionMethod, method))
    for key, found in read(tmp_path / "a.ark").items():
        spread = MATRICES[key].max() - MATRICES[key].min()
        assert np.abs(found - MATRICES[key]).max() <= 0.01 * spread + 1e-6


def test_integers_of_kaldi(tmp_path):
    with (
        native.Int32VectorWriter(f"ark:{tmp_path}/b.ark") as binary,
        native.Int32VectorWriter(f"ark,t:{tmp_path}/t.ark") as text,
    ):
        for key, v in INTEGERS.items():
            binary.write(key, v.tolist())
            text.write(key, v.tolist())
    same(read(tmp_path / "b.ark", Reader.table_integers), INTEGERS)
    same(read(tmp_path / "t.ark", Reader.table_integers), INTEGERS)


KALDI_IO = """
import sys, kaldi_io
folder = sys.argv[1]
with kaldi_io.open_or_fd(folder + "/theirs.ark", "wb") as f:
    for key, m in kaldi_io.read_mat_scp(folder + "/ours.scp"):
        kaldi_io.write_mat(f, m, key=key)
with kaldi_io.open_or_fd(folder + "/theirs_ali.ark", "wb") as f:
    for key, v in kaldi_io.read_vec_int_ark(folder + "/ours_ali.ark"):
        kaldi_io.write_vec_int(f, v, key=key)
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kaldi_io_reads_ours_and_we_read_what_it_writes(tmp_path, dtype):
    """In a process of its own: importing kaldi_io runs a shell and changes PATH.  It takes ids for Latin-1."""
    if not importlib.util.find_spec("kaldi_io"):
        pytest.skip("kaldi-io is not installed")
    matrices = {key: m.astype(dtype) for key, m in MATRICES.items() if key.isascii()}
    integers = {key: v for key, v in INTEGERS.items() if key.isascii()}
    with ArchiveWriter(tmp_path / "ours", write_matrix) as archive:
        for key, m in matrices.items():
            archive.add(key, m)
    with ArchiveWriter(tmp_path / "ours_ali", write_integers) as archive:
        for key, v in integers.items():
            archive.add(key, v)
    command = [sys.executable, "-c", KALDI_IO, str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "KALDI_ROOT": str(tmp_path)}, timeout=120)
    same(read(tmp_path / "theirs.ark"), dict(sorted(matrices.items())))
    same(read(tmp_path / "theirs_ali.ark", Reader.table_integers), integers)


def test_a_gzipped_archive_whatever_it_is_called(tmp_path):
    """K3: alignments are written through ``gzip -c``."""
    with native.Int32VectorWriter(f"ark:{tmp_path}/b.ark") as writer:
        for key, v in INTEGERS.items():
            writer.write(key, v.tolist())
    for name in ("ali.1.gz", "ali.1"):
        (tmp_path / name).write_bytes(gzip.compress((tmp_path / "b.ark").read_bytes()))
        same(read(tmp_path / name, Reader.table_integers), INTEGERS)


def test_vectors(tmp_path):
    vectors = {"a": np.array([1.5, -2], np.float32), "b": np.array([1e-30, 7], np.float64)}
    kaldiio.save_ark(str(tmp_path / "a.ark"), vectors)
    same(read(tmp_path / "a.ark", Reader.vector), vectors)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kaldi_reads_our_matrices(tmp_path, dtype):
    with ArchiveWriter(tmp_path / "v1.2", write_matrix) as archive:
        for key, m in MATRICES.items():
            archive.add(key, m.astype(dtype))
    kind = native.SequentialFloatMatrixReader if dtype == np.float32 else native.SequentialDoubleMatrixReader
    with kind(f"ark:{tmp_path}/v1.2.ark") as reader:
        same({key: np.array(m) for key, m in reader}, {k: m.astype(dtype) for k, m in MATRICES.items()})
    by_script = kaldiio.load_scp(str(tmp_path / "v1.2.scp"))
    assert list(by_script) == sorted(MATRICES, key=str.encode)
    for key, m in MATRICES.items():
        np.testing.assert_array_equal(by_script[key], m.astype(dtype))


def test_kaldi_reads_our_integers(tmp_path):
    """K5: integers stay integers."""
    with ArchiveWriter(tmp_path / "ali", write_integers) as archive:
        for key, v in INTEGERS.items():
            archive.add(key, v)
    with native.SequentialInt32VectorReader(f"ark:{tmp_path}/ali.ark") as reader:
        same({key: np.array(v, np.int32) for key, v in reader}, INTEGERS)


def test_text_that_kaldi_reads(tmp_path):
    m = MATRICES["utt-1"].astype(np.float64)
    (tmp_path / "t.ark").write_text(f"u {text_matrix(m)}")
    with native.SequentialFloatMatrixReader(f"ark:{tmp_path}/t.ark") as reader:
        ((_, theirs),) = [(key, np.array(value)) for key, value in reader]
    np.testing.assert_array_equal(theirs, m.astype(np.float32))


@pytest.mark.parametrize("range_", ["[0:9]", "[3:3]", "[5:39,2:12]", "[:,0:3]", "[,4:4]", "[0:39]"])
def test_ranges_of_a_script_include_their_end(tmp_path, range_):
    """K7; kaldiio and Kaldi agree (kaldi-io leaves out the last frame)."""
    kaldiio.save_ark(str(tmp_path / "a.ark"), MATRICES, scp=str(tmp_path / "a.scp"), compression_method=2)
    lines = [line + range_ for line in (tmp_path / "a.scp").read_text().splitlines() if line.startswith("utt-1 ")]
    (tmp_path / "r.scp").write_text("\n".join(lines) + "\n")
    theirs = kaldiio.load_scp(str(tmp_path / "r.scp"))["utt-1"]
    np.testing.assert_allclose(Script(tmp_path / "r.scp", Reader.matrix)["utt-1"], theirs, atol=1e-5)
    if ":" in range_.split(",")[0].strip("[]:"):
        with native.SequentialFloatMatrixReader(f"scp:{tmp_path}/r.scp") as reader:
            ((_, kaldi),) = [(key, np.array(m)) for key, m in reader]
        np.testing.assert_allclose(theirs, kaldi, atol=1e-5)


@pytest.mark.parametrize("range_", ["[0:40]", "[7:3]", "[0:9,13:13]"])
def test_a_range_beyond_the_matrix_is_refused(tmp_path, range_):
    with pytest.raises(ValueError, match="range"):
        slices(range_, (40, 13))


def test_paths_of_a_script(tmp_path, monkeypatch):
    """D25: blanks and letters; relative ones begin where Kaldi ran."""
    folder = tmp_path / "egs" / "dir (é)"
    folder.mkdir(parents=True)
    kaldiio.save_ark(str(folder / "a b.ark"), {"u": MATRICES["utt-1"]})
    (tmp_path / "a.scp").write_text("u dir (é)/a b.ark:2\n")
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(Script(tmp_path / "a.scp", Reader.matrix, tmp_path / "egs")["u"], MATRICES["utt-1"])
    with pytest.raises(BadEntry, match=r"a.scp:1: .*a b.ark cannot be read"):
        Script(tmp_path / "a.scp", Reader.matrix)["u"]


def test_commands_run_only_if_allowed(tmp_path):
    """K11: one that fails is an error with its own words."""
    kaldiio.save_ark(str(tmp_path / "a.ark"), {"u": MATRICES["utt-1"]})
    lines = [
        f"u tail -c +3 {tmp_path}/a.ark |",
        f"v tail -c +3 {tmp_path}/a.ark; echo broken >&2; exit 3 |",
        "w /no/such/tool x |",
    ]
    (tmp_path / "a.scp").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"a.scp:1: .*--allow_commands"):
        Script(tmp_path / "a.scp", Reader.matrix)["u"]
    script = Script(tmp_path / "a.scp", Reader.matrix, allow_commands=True)
    np.testing.assert_array_equal(script["u"], MATRICES["utt-1"])
    with pytest.raises(UserError, match=r"a.scp:2: .* ended with code 3: broken"):
        script["v"]
    with pytest.raises(UserError, match=r"a.scp:3: .* code 127"):
        script["w"]


def test_an_archive_that_is_cut_short_names_the_last_good_id(tmp_path):
    """K11, K15: at every byte but the edges of records, where only counts can tell."""
    few = {"a": MATRICES["archêvéque-1"], "b": MATRICES["archêvéque-1"]}
    kaldiio.save_ark(str(tmp_path / "whole.ark"), few)
    data = (tmp_path / "whole.ark").read_bytes()
    edges = (0, len(data) // 2)
    for size in range(len(data)):
        (tmp_path / "a.ark").write_bytes(data[:size])
        if size in edges:
            assert len(read(tmp_path / "a.ark")) == edges.index(size)
            continue
        after = "a" if size > edges[1] else "its beginning"
        with pytest.raises(UserError, match=f"a.ark is damaged after {after}: "):
            read(tmp_path / "a.ark")


def test_a_truncated_gzip_is_noticed(tmp_path):
    with ArchiveWriter(tmp_path / "ali", write_integers) as archive:
        for i in range(50):
            archive.add(f"u{i:02}", np.arange(500, dtype=np.int32))
    packed = gzip.compress((tmp_path / "ali.ark").read_bytes())
    (tmp_path / "ali.1.gz").write_bytes(packed[: len(packed) - 200])
    with pytest.raises(UserError, match=r"ali.1.gz is damaged after u\d\d"):
        read(tmp_path / "ali.1.gz", Reader.table_integers)


def test_rows_of_different_lengths_are_an_error(tmp_path):
    """K10."""
    (tmp_path / "a.ark").write_text("u  [\n 1 2 3\n 4 5\n 6 7 8 ]\n")
    with pytest.raises(UserError, match="damaged after its beginning: rows of 3 and of other"):
        read(tmp_path / "a.ark")


def test_another_type_than_the_wanted_one(tmp_path):
    kaldiio.save_ark(str(tmp_path / "a.ark"), {"u": MATRICES["utt-1"]})
    with pytest.raises(UserError, match="damaged after its beginning"):
        read(tmp_path / "a.ark", Reader.table_integers)
    with pytest.raises(UserError, match="'FM' where FV or DV should stand"):
        read(tmp_path / "a.ark", Reader.vector)


def test_no_pickle_is_read(tmp_path):
    """kaldiio loads pickles that it finds in an archive."""
    (tmp_path / "a.ark").write_bytes(b"u PKL" + b"\x80\x04N.")
    with pytest.raises(UserError, match="damaged"):
        read(tmp_path / "a.ark")


def test_values_at_the_edge_of_a_buffer():
    """A token may be split between two buffers of the file."""
    m = np.arange(6, dtype=np.float32).reshape(2, 3)
    for ahead in range(8185, 8200):
        stream = io.BytesIO()
        stream.write(struct.pack(f"{ahead}x"))
        write_matrix(stream, m)
        stream.seek(0)
        reader = Reader(stream)
        reader.take(ahead)
        reader.header()
        np.testing.assert_array_equal(reader.matrix(), m)
