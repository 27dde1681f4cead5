import lhotse
import numpy as np
import pytest
from lhotse.features.io import get_reader, get_writer

from asr_parallel.data.flat_frames import HEADER_BYTES, FrameFile, open_frames
from asr_parallel.data.store import FlatFramesReader, FlatFramesWriter
from asr_parallel.log import UserError

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((t, 4)).astype(np.float32) for t in (5, 3))


def write(path, dtype="<f4"):
    with FlatFramesWriter(path, dtype) as writer:
        return [writer.write("a", A), writer.write("b", B)]


def test_round_trip(tmp_path):
    path = tmp_path / "x.frames"
    keys = write(path)
    reader = FlatFramesReader(str(path))
    np.testing.assert_array_equal(reader.read(keys[0]), A)
    np.testing.assert_array_equal(reader.read(keys[1]), B)
    np.testing.assert_array_equal(reader.read(keys[0], 1, 3), A[1:3])
    np.testing.assert_array_equal(reader.read(keys[0], left_offset_frames=2), A[2:])
    np.testing.assert_array_equal(open_frames(path), np.concatenate([A, B]))
    # the format, read by hand
    np.testing.assert_array_equal(np.fromfile(path, "<f4", offset=HEADER_BYTES).reshape(-1, 4), np.concatenate([A, B]))
    assert np.fromfile(path, "<u8", count=4)[2:].tolist() == [4, 8]


def test_half_precision(tmp_path):
    path = tmp_path / "x.frames"
    keys = write(path, "<f2")
    assert path.stat().st_size == HEADER_BYTES + 8 * 4 * 2
    read = FlatFramesReader(path).read(keys[1])
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, B, rtol=1e-3)


def test_lhotse_knows_the_storage(tmp_path):
    assert get_writer("flat_frames") is FlatFramesWriter
    assert get_reader("flat_frames") is FlatFramesReader
    with FlatFramesWriter(tmp_path / "x.frames") as writer:
        array = writer.store_array("a", A, frame_shift=0.01, temporal_dim=0)
    np.testing.assert_array_equal(array.load(), A)


def test_cut_load_features(tmp_path):
    path = str(tmp_path / "x.frames")
    (_, key) = write(path)
    features = lhotse.Features(
        type="fbank", num_frames=3, num_features=4, frame_shift=0.01, sampling_rate=8000, start=0.0, duration=0.03,
        storage_type="flat_frames", storage_path=path, storage_key=key, recording_id="b", channels=0,
    )  # fmt: skip
    cut = lhotse.MonoCut("b", 0.0, 0.03, 0, features=features)
    np.testing.assert_array_equal(cut.load_features(), B)
    np.testing.assert_array_equal(cut.truncate(offset=0.01, duration=0.01).load_features(), B[1:2])


def test_overwritten_store_is_read_anew(tmp_path):
    path = tmp_path / "x.frames"
    keys = write(path)
    FlatFramesReader(path).read(keys[0])
    with FlatFramesWriter(path) as writer:
        key = writer.write("b", B)
    np.testing.assert_array_equal(FlatFramesReader(path).read(key), B)


def test_nothing_appears_when_writing_fails(tmp_path):
    path = tmp_path / "x.frames"

    def fail():
        with FrameFile(path) as file:
            file.append(A)
            assert not path.exists()
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_shapes_must_fit(tmp_path):
    with FrameFile(tmp_path / "x.frames") as file:
        file.append(A)
        for bad in (np.zeros((2, 3)), np.zeros(4), np.zeros((2, 0))):
            with pytest.raises(ValueError, match="shape"):
                file.append(bad)
        assert file.append(B) == (5, 3)


@pytest.mark.parametrize("keep", [0, 10, HEADER_BYTES, HEADER_BYTES + 7 * 16, -1])
def test_cut_file(tmp_path, keep):
    path = tmp_path / "x.frames"
    write(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="cut short"):
        open_frames(path)


@pytest.mark.parametrize(("at", "byte"), [(0, b"X"), (9, b"i"), (16, b"\5"), (16, b"\0"), (24, b"\0")])
def test_damaged_header(tmp_path, at, byte):
    path = tmp_path / "x.frames"
    write(path)
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(byte)
    with pytest.raises(UserError, match="run `features`"):
        open_frames(path)


def test_missing_file_and_wrong_keys(tmp_path):
    with pytest.raises(UserError, match="run `features` first"):
        FlatFramesReader(tmp_path / "none.frames").read("0,1")
    write(tmp_path / "x.frames")
    reader = FlatFramesReader(tmp_path / "x.frames")
    for key in ("4,5", "-1,2", "x", "1"):
        with pytest.raises(UserError, match=f"'{key}'"):
            reader.read(key)
