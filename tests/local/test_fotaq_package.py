"""Where queen.1c comes from: a file, a package, apt-get; with and without dpkg-deb."""

import io
import shutil
import stat
import tarfile
from pathlib import Path

import fotaq_package as package
import pytest

from asr_parallel.log import UserError

QUEEN = b"QTBL" + bytes(range(256)) * 40


def deb(files, compression="xz", cut=None):
    """A Debian package that holds ``files``."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=f"w:{compression}") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    control = io.BytesIO()
    with tarfile.open(fileobj=control, mode="w:gz"):
        pass
    out = b"!<arch>\n"
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", control.getvalue()),
        (f"data.tar.{compression}", data.getvalue()),
    ]
    for name, content in members:
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content
        out += b"\n" * (len(content) % 2)
    return out[:cut]


@pytest.fixture(params=["dpkg-deb", "python"])
def unpacker(request, monkeypatch):
    """Both ways to read a package."""
    if request.param == "python":
        monkeypatch.setattr(package.shutil, "which", lambda name: None)
    elif shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb here")
    return request.param


@pytest.mark.parametrize("compression", ["xz", "gz"])
def test_unpack(tmp_path, unpacker, compression):
    source = tmp_path / "game.deb"
    source.write_bytes(deb({"./usr/readme": b"x" * 999, "./usr/share/queen.1c": QUEEN}, compression))
    got = package.unpack(source, tmp_path / "downloads")
    assert got.read_bytes() == QUEEN
    assert got.parent == tmp_path / "downloads"
    written = got.stat().st_mtime_ns
    assert package.unpack(source, tmp_path / "downloads") == got
    assert got.stat().st_mtime_ns == written
    assert [p.name for p in got.parent.iterdir()] == [got.name]


def test_cut_package_is_an_error_that_names_it(tmp_path, unpacker):
    whole = len(deb({"./queen.1c": QUEEN}))
    for cut in (9, 100, whole - 20, whole // 2):
        source = tmp_path / f"cut{cut}.deb"
        source.write_bytes(deb({"./queen.1c": QUEEN}, cut=cut))
        with pytest.raises(UserError, match=rf"cut{cut}\.deb"):
            package.unpack(source, tmp_path / "downloads")
    assert list(tmp_path.glob("downloads/*")) == []


def test_other_package_is_told(tmp_path, unpacker):
    source = tmp_path / "other.deb"
    source.write_bytes(deb({"./usr/bin/other": b"x"}))
    with pytest.raises(UserError, match=r"other\.deb: holds no queen\.1c"):
        package.unpack(source, tmp_path / "downloads")


def test_queen_itself_is_used_as_it_is(tmp_path):
    source = tmp_path / "queen.1c"
    source.write_bytes(QUEEN)
    assert package.unpack(source, tmp_path / "downloads") == source


def test_local_source_prefers_what_is_given(tmp_path):
    old = tmp_path / f"{package.PACKAGE}_1.0.0-9_all.deb"
    old.write_bytes(b"!<arch>\n")
    assert package.local_source(None, tmp_path) == old
    assert package.local_source(tmp_path / old.name, tmp_path / "none") == old
    assert package.local_source(None, tmp_path / "none") is None
    with pytest.raises(package.SourceMissing, match=r"--source no\.deb"):
        package.local_source(Path("no.deb"), tmp_path)


def test_no_apt_get_tells_the_ways_out(tmp_path, monkeypatch):
    monkeypatch.setattr(package.shutil, "which", lambda name: None)
    with pytest.raises(package.SourceMissing, match=r"(?s)no apt-get.*--source FILE\.deb.*queen\.1c"):
        package.fetch(tmp_path)


FAKE_APT = """#!/bin/sh
# the first download fails (no lists); update makes lists, after which download works
for last; do :; done
printf '%s\\n' "$*" >> {log}
case "$*" in
  *update) : > {lists} ;;
  *) if [ -e {lists} ] && {works}; then printf 'deb' > {name}
     else echo 'E: Unable to locate package' >&2; exit 100; fi ;;
esac
"""


def fake_apt(tmp_path, monkeypatch, works):
    script = tmp_path / "bin" / "apt-get"
    script.parent.mkdir()
    text = FAKE_APT.format(
        log=tmp_path / "log", lists=tmp_path / "lists", works=works, name=f"{package.PACKAGE}_1.0.0-9_all.deb"
    )
    script.write_text(text)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")


def test_fetch_updates_into_its_own_directory(tmp_path, monkeypatch):
    fake_apt(tmp_path, monkeypatch, "true")
    got = package.fetch(tmp_path / "downloads")
    assert got == tmp_path / "downloads" / f"{package.PACKAGE}_1.0.0-9_all.deb"
    assert got.read_bytes() == b"deb"
    assert [p.name for p in got.parent.iterdir()] == [got.name]
    first, update, second = (tmp_path / "log").read_text().splitlines()
    assert "Dir::State::lists" not in first
    for line in (update, second):
        assert f"Dir::State::lists={tmp_path}/downloads/.apt-" in line


def test_fetch_that_fails_says_what_apt_said(tmp_path, monkeypatch):
    fake_apt(tmp_path, monkeypatch, "false")
    with pytest.raises(package.SourceMissing, match=r"(?s)Unable to locate package.*Ways out"):
        package.fetch(tmp_path / "downloads")
    assert list((tmp_path / "downloads").iterdir()) == []
