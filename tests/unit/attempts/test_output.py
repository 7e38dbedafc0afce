"""An attempt's files, and the text that is shown of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from questlined.attempts import output

TEXTS = ["plain ascii text", "größe überall äöü", "日本語のテキスト", "🗡🛡️🏹 quest 🐉"]


def sealed(
    directory: Path, stdout: bytes = b"", stderr: bytes = b"", *, whole: int = 10, preview: int = 5
) -> output.Seal:
    """An attempt's files after these were written."""
    files = output.create(directory, prompt=None, stdin_prompt=False, append=False)
    try:
        os.write(files.stdout, stdout)
        os.write(files.stderr, stderr)
        return output.seal(files, whole=whole, preview=preview)
    finally:
        files.close()


@pytest.mark.parametrize("text", TEXTS)
def test_a_preview_is_whole_characters_and_the_number_is_right(tmp_path: Path, text: str) -> None:
    """Wherever the cuts fall."""
    data = (text * 5).encode()
    for preview in range(len(text.encode()) + 1):
        shown = sealed(tmp_path, data, whole=10, preview=preview).stdout
        head, said, tail = shown.split("\n")
        assert data.startswith(head.encode())
        assert data.endswith(tail.encode())
        assert preview - 3 <= len(head.encode()) <= preview
        assert preview - 3 <= len(tail.encode()) <= preview
        assert said == f"… {len(data) - len(head.encode()) - len(tail.encode())} bytes left out …"


def test_text_up_to_the_bound_is_whole(tmp_path: Path) -> None:
    """One byte more is not."""
    assert sealed(tmp_path, b"x" * 100, whole=100, preview=10).stdout == "x" * 100
    assert "81 bytes left out" in sealed(tmp_path, b"x" * 101, whole=100, preview=10).stdout


def test_a_preview_of_rubbish_is_valid_text(tmp_path: Path) -> None:
    """Bytes that are no character are not taken for the half of one."""
    for data in (b"\xff" * 100, b"\x80" * 100, b"\xc3" * 100, b"\xf0\x9f" * 50, bytes(range(256))):
        for preview in (1, 2, 3, 4, 5):
            text = sealed(tmp_path, data, whole=10, preview=preview).stdout
            assert text.encode().decode() == text
            assert "bytes left out" in text


def test_nul_and_what_is_no_utf8_are_shown_replaced() -> None:
    assert output.readable("a\0é".encode() + b"\xffz") == "a\ufffdé\ufffdz"


def test_a_file_whose_name_is_gone_is_sealed_all_the_same(tmp_path: Path) -> None:
    """A program may remove it, or put another thing in its place: what was written is what counts."""
    files = output.create(tmp_path, prompt=None, stdin_prompt=False, append=False)
    os.write(files.stdout, b"kept")
    (tmp_path / "stdout").unlink()
    (tmp_path / "stdout").symlink_to("/etc/passwd")
    found = output.seal(files, whole=10, preview=5)
    files.close()
    assert ([(file.kind, file.bytes) for file in found.artifacts], found.stdout) == (
        [("stdout", 4), ("stderr", 0)],
        "kept",
    )


def test_no_files_have_no_sizes(tmp_path: Path) -> None:
    """After a crash before they were made."""
    assert output.sizes(tmp_path) == ()
    sealed(tmp_path, b"abc")
    assert [(file.kind, file.bytes) for file in output.sizes(tmp_path)] == [("stdout", 3), ("stderr", 0)]


def test_the_last_output_is_the_later_files(tmp_path: Path) -> None:
    """An empty file tells of no output."""
    files = output.create(tmp_path, prompt=None, stdin_prompt=False, append=False)
    assert output.seal(files, whole=10, preview=5).last_output_at is None
    os.write(files.stdout, b"a")
    for descriptor, at in ((files.stdout, 5), (files.stderr, 9)):
        os.utime(descriptor, (at, at))
    assert output.seal(files, whole=10, preview=5).last_output_at == 5000
    files.close()


def test_files_are_private_and_the_task_file_is_the_prompt(tmp_path: Path) -> None:
    """Whatever the umask; an attempt's directory is made with all above it."""
    directory = output.directory_of(tmp_path / "artifacts", "q-1", 2)
    before = os.umask(0)
    try:
        files = output.create(directory, prompt="é\udcff", stdin_prompt=True, append=False)
    finally:
        os.umask(before)
    assert os.read(files.stdin, 10) == b"\xc3\xa9\xff"
    assert {oct(path.stat().st_mode & 0o777) for path in directory.iterdir()} == {"0o600"}
    assert oct(directory.stat().st_mode & 0o777) == "0o700"
    assert directory == tmp_path / "artifacts" / "q-1" / "2"
    files.close()


def test_files_that_cannot_be_made_leave_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "stderr").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(IsADirectoryError):
        output.create(tmp_path, prompt=None, stdin_prompt=False, append=True)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("append", [True, False])
def test_only_a_child_that_writes_itself_appends(tmp_path: Path, append: bool) -> None:
    """splice takes no such file. A second try of the same attempt begins anew."""
    (tmp_path / "stdout").write_text("old")
    files = output.create(tmp_path, prompt=None, stdin_prompt=False, append=append)
    os.write(files.stdout, b"ab")
    os.lseek(files.stdout, 0, os.SEEK_SET)
    os.write(files.stdout, b"c")
    assert (tmp_path / "stdout").read_bytes() == (b"abc" if append else b"cb")
    assert os.read(files.stdin, 1) == b""
    files.close()


def test_nothing_of_an_earlier_life_of_the_attempt_counts_for_this_one(tmp_path: Path) -> None:
    """A database that was brought back from a backup claims the same attempt again."""
    directory = tmp_path / "q-1" / "1"
    directory.mkdir(parents=True)
    for name in ("records", "unit", "stdout"):
        (directory / name).write_text("ended success exited 0 1 0 - -\n")
    output.create(directory, prompt=None, stdin_prompt=False, append=True).close()
    assert sorted(path.name for path in directory.iterdir()) == ["stderr", "stdout"]
    assert (directory / "stdout").read_text() == ""
