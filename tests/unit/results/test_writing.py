"""Files that are whole at every moment."""

import os
import stat

import pytest

from cudabw.results.writing import require_writable, write_whole

not_as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def content_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "run.json"
    for data in (b"old and long", b"new"):
        write_whole(path, data)
        assert content_of(tmp_path) == {"run.json": data}


def test_a_new_file_gets_the_permissions_of_every_new_file_and_an_old_one_keeps_its_own(tmp_path):
    plain, kept = tmp_path / "plain", tmp_path / "kept"
    plain.write_bytes(b"")
    write_whole(tmp_path / "new", b"")
    assert (tmp_path / "new").stat().st_mode == plain.stat().st_mode
    kept.write_bytes(b"")
    kept.chmod(0o640)
    write_whole(kept, b"1")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "real.json", tmp_path / "latest.json"
    for existing in (False, True):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        require_writable(link)
        write_whole(link, b"%d" % existing)
        assert link.is_symlink()
        assert content_of(tmp_path / "there") == {"real.json": b"%d" % existing}


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    link = tmp_path / "null.json"
    link.symlink_to("/dev/null")
    require_writable(link)
    write_whole(link, b"data")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)  # noqa: PTH116 - the device itself


def test_what_cannot_be_written_leaves_the_old_content_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    path.write_bytes(b"old")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")
    assert content_of(tmp_path) == {"run.json": b"old"}


def test_that_a_file_can_be_written_is_found_out_without_a_change(tmp_path):
    path = tmp_path / "run.json"
    require_writable(path)
    assert content_of(tmp_path) == {}
    path.write_bytes(b"old")
    require_writable(path)
    assert content_of(tmp_path) == {"run.json": b"old"}


@pytest.mark.parametrize(
    ("name", "why"),
    [("", "Is a directory"), ("none/run.json", "No such file"), ("file/run.json", "Not a directory")],
)
def test_what_is_no_place_for_a_file_is_refused(tmp_path, name, why):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=why):
        require_writable(tmp_path / name)


@not_as_root
def test_what_may_not_be_written_is_refused(tmp_path):
    path = tmp_path / "run.json"
    path.write_bytes(b"")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        require_writable(path)
    tmp_path.chmod(0o555)
    with pytest.raises(PermissionError):
        require_writable(tmp_path / "new.json")
