"""Archives write below their root or not at all, whatever this Python's own unpacking would let through."""

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from residual_audio.data import DataError
from residual_audio.data.fetch import Remote, download, place
from residual_audio.data.unpack import unpack
from tests.data.test_fetch import BODY, server  # noqa: F401 — a fixture


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for info, content in members:
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def long_way_out() -> list[tuple[tarfile.TarInfo, bytes]]:
    """CVE-2025-4517: a chain of links whose real path is too long to be resolved hides that it leads out."""
    members, path = [], ""
    for letter in "abcdefghijklmnop":
        folder = f"{path}{'d' * 247}"
        members += [(entry(folder, tarfile.DIRTYPE), b""), (entry(f"{path}{letter}", tarfile.SYMTYPE, "d" * 247), b"")]
        path = f"{path}{letter}/"
    end = "/".join("abcdefghijklmnop") + "/" + "l" * 254
    members += [(entry(end, tarfile.SYMTYPE, "../" * 16), b""), (entry("escape", tarfile.SYMTYPE, f"{end}/../../../out"), b"")]
    return [*members, (entry("escape/evil"), b"evil")]


ATTACKS = {
    "above": [(entry("../evil"), b"x")],
    "absolute": [(entry("/tmp/residual-evil"), b"x")],
    "deep": [(entry("a/../../evil"), b"x")],
    "windows": [(entry("a\\..\\evil"), b"x")],
    "link": [(entry("l", tarfile.SYMTYPE, ".."), b""), (entry("l/evil"), b"x")],
    "hard link": [(entry("l", tarfile.LNKTYPE, "../evil"), b"")],
    "device": [(entry("null", tarfile.CHRTYPE), b"")],
    "pipe": [(entry("pipe", tarfile.FIFOTYPE), b"")],
    "long way out": long_way_out(),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_tar_writes_nothing_outside(attack, tmp_path):
    archive = tar(tmp_path / "x.tar.gz", *ATTACKS[attack])
    with pytest.raises(DataError, match="not unpacked"):
        unpack(archive, tmp_path / "in" / "root")
    outside = [p for p in tmp_path.rglob("*") if p not in (archive, tmp_path / "in") and tmp_path / "in" / "root" not in (p, *p.parents)]
    assert outside == []
    assert not any(p.is_symlink() for p in tmp_path.rglob("*"))


@pytest.mark.parametrize("name", ["../evil", "/tmp/residual-evil", "a/../../evil", "C:/evil"])
def test_a_zip_writes_nothing_outside(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr(name, "x")
    with pytest.raises(DataError, match="leads out"):
        unpack(tmp_path / "x.zip", tmp_path / "root")


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("l")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr(info, "/etc")
    with pytest.raises(DataError, match="is a link"):
        unpack(tmp_path / "x.zip", tmp_path / "root")


def test_sizes_are_capped(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(1 << 20))
        file.writestr("more", b"x")
    with pytest.raises(DataError, match="more than 1,000 bytes"):
        unpack(tmp_path / "x.zip", tmp_path / "a", most_bytes=1000)
    with pytest.raises(DataError, match="more than 1 files"):
        unpack(tmp_path / "x.zip", tmp_path / "b", most_files=1)
    unpack(tmp_path / "x.zip", tmp_path / "c")
    assert (tmp_path / "c" / "more").read_bytes() == b"x"
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(tmp_path / "bad.zip", tmp_path / "d")


def test_a_file_that_lies_there_already_is_verified(server, tmp_path):  # noqa: F811
    """Somebody else's, or one that was damaged since: it is fetched again, not trusted."""
    (tmp_path / "data.bin").write_bytes(b"evil")
    assert download(server.remote("data.bin"), tmp_path).read_bytes() == BODY


def test_placing_uses_it(tmp_path):
    archive = tar(tmp_path / "x.tar.gz", *ATTACKS["link"])
    with pytest.raises(DataError, match="is a link"):
        place(archive, Remote("http://x", "md5:0", "x.tar.gz"), tmp_path / "root")
