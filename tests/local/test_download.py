"""Downloads over a real local server that hangs up, knows no ranges, lies about them, or has another file."""

import hashlib

import download as d
import pytest
from range_server import Server

from asr_parallel.log import UserError

CONTENT = bytes(range(256)) * 4000  # a megabyte
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Server({"/file": CONTENT})
    yield found
    found.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "file"


def get(server, path, md5=MD5, waits=(0, 0)):
    return d.download([f"{server.url}/file"], path, md5, waits)


def test_whole_file_in_one_go_and_not_again(server, path):
    assert get(server, path).read_bytes() == CONTENT
    assert server.asked == [None]
    get(server, path)
    assert server.asked == [None]
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_broken_lines_go_on_where_they_stopped(server, path):
    server.hang_up = [300_000, 1, 500_000]
    assert get(server, path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=300001-", "bytes=800001-"]


def test_a_killed_download_goes_on(server, path):
    path.parent.mkdir()
    path.with_name("file.part").write_bytes(CONTENT[:1234])
    assert get(server, path).read_bytes() == CONTENT
    assert server.asked == ["bytes=1234-"]


def test_server_without_ranges_sends_all_again(server, path):
    server.ranges = False
    server.hang_up = [300_000, 200_000]
    assert get(server, path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=200000-"]


def test_bytes_from_elsewhere_are_not_taken(server, path):
    path.parent.mkdir()
    path.with_name("file.part").write_bytes(CONTENT[:1000])
    server.shift = 5
    with pytest.raises(d.Unreachable, match="bytes from 1005 where those from 1000 were wanted"):
        get(server, path)
    assert path.with_name("file.part").read_bytes() == CONTENT[:1000]


def test_nothing_ever_comes_gives_up_after_one_round(server, path):
    server.files.clear()
    with pytest.raises(d.Unreachable, match=r"file can't be fetched: .*404"):
        get(server, path)
    assert len(server.asked) == 1
    assert not path.exists()


def test_patience_ends_and_the_bytes_are_kept(server, path):
    server.hang_up = [1000, *[0] * 20]
    with pytest.raises(d.Unreachable, match="the line broke after 1,000 of 1,024,000 bytes"):
        get(server, path, waits=(0, 0, 0))
    assert len(server.asked) == 1 + 4  # it made progress, then one round and three waits
    assert path.with_name("file.part").read_bytes() == CONTENT[:1000]


def test_a_mirror_goes_on_where_the_first_one_stopped(server, path):
    broken = Server({"/file": CONTENT, "/mirror/file": CONTENT})
    broken.hang_up = [4000, 0, 0]
    urls = [f"{broken.url}/file", f"{broken.url}/mirror/file", f"{server.url}/file"]
    assert d.download(urls, path, MD5, ()).read_bytes() == CONTENT
    assert broken.asked == [None, "bytes=4000-", "bytes=4000-"]
    assert server.asked == ["bytes=4000-"]
    broken.close()


def test_another_file_is_thrown_away(server, path):
    other = server.files["/file"] = CONTENT[:-1] + b"!"
    with pytest.raises(d.Unreachable, match=rf"md5 {hashlib.md5(other).hexdigest()}, .*{MD5}"):
        get(server, path)
    assert not list(path.parent.iterdir())


def test_a_beginning_of_another_version_is_fetched_anew(server, path):
    path.parent.mkdir()
    path.with_name("file.part").write_bytes(b"old" * 1000)
    assert get(server, path).read_bytes() == CONTENT
    assert server.asked == ["bytes=3000-", None]


def test_more_bytes_than_there_are_is_a_beginning_of_another_version(server, path):
    path.parent.mkdir()
    path.with_name("file.part").write_bytes(CONTENT + b"more")
    assert get(server, path).read_bytes() == CONTENT


def test_a_wrong_file_in_place_is_named_and_left(server, path):
    path.parent.mkdir()
    path.write_bytes(CONTENT[:5000])
    with pytest.raises(UserError, match=r"folder/file: md5 .* remove it"):
        get(server, path)
    assert path.read_bytes() == CONTENT[:5000]
    assert server.asked == []
