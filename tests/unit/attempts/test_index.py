"""The index of an attempt's records, and the records that follow from it, its files and their sizes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from questlined.attempts import index, output, pages
from questlined.attempts.index import ENTRY_BYTES, PIECE_BYTES, Index
from questlined.attempts.output import STREAMS, readable
from questlined.attempts.pages import Record, Source

END = {"outcome": "done"}
BEGAN_AT, ENDED_AT = 1000, 9000


class Attempt:
    """Files that grow, an index that is told to look, and readers of both."""

    def __init__(self, directory: Path) -> None:
        self.files = output.create(directory, prompt=None, stdin_prompt=False, append=True)
        self.directory = directory
        self.index = Index(directory, BEGAN_AT, (self.files.stdout, self.files.stderr))
        self.at = BEGAN_AT

    def write(self, data: bytes, stream: str = "stdout") -> None:
        assert os.write(getattr(self.files, stream), data) == len(data)

    def look(self, **more: Any) -> int:
        self.at += 20
        return self.index.observe(self.at, **more)

    def lives(self) -> Source:
        return Source(self.directory, BEGAN_AT)

    def ended(self) -> Source:
        """As it is once its files are sealed."""
        sizes = (os.fstat(self.files.stdout).st_size, os.fstat(self.files.stderr).st_size)
        ended = pages.ended(self.directory, sizes, ENDED_AT, END)
        assert ended is not None
        return Source(self.directory, BEGAN_AT, ended)

    @property
    def stored(self) -> int:
        path = self.directory / "records"
        return path.stat().st_size // ENTRY_BYTES if path.exists() else 0


@contextmanager
def attempt(folder: Path) -> Iterator[Attempt]:
    made = Attempt(folder / "1")
    try:
        yield made
    finally:
        made.index.close()
        made.files.close()


def read(source: Source, after: int = 0, **more: Any) -> list[Record]:
    """Every record after a number."""
    found: list[Record] = []
    while True:
        page = pages.page(source, after, **more)
        assert sum(len(str(record.data.get("text", "")).encode()) for record in page.records) <= 3 * pages.TEXT_BYTES
        assert len(page.records) <= pages.RECORDS_MAX + 2
        found += page.records
        after = page.number
        if page.over or not page.full:
            return found


def text(records: list[Record], stream: str = "stdout") -> str:
    return "".join(record.data["text"] for record in records if record.data.get("stream") == stream)


def kinds(records: list[Record]) -> list[tuple[int | None, str]]:
    return [(record.number, record.kind) for record in records]


RANDOM = random.Random(2)
PARTS = ["plain ", "größe ", "日本語", "🗡🐉", "\n", "\0"]
BYTES = [b"\xff", b"\xe2\x82", b"\xf0\x9f", b"\x80", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80"]


def noise(length: int, *, valid: bool) -> bytes:
    """Bytes of all kinds, in the end of no kind."""
    made = b""
    while len(made) < length:
        made += RANDOM.choice(PARTS).encode() if valid or RANDOM.random() < 0.7 else RANDOM.choice(BYTES)
    return made


@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_records_are_the_same_whenever_and_from_wherever_they_are_read(tmp_path: Path, seed: int, valid: bool) -> None:
    """While it runs, after its end, and from each id on; the texts together are the files, whatever the cuts."""
    RANDOM.seed(seed)
    files = dict.fromkeys(STREAMS, b"")
    with attempt(tmp_path) as made:
        live: list[Record] = []
        for _ in range(RANDOM.randrange(40)):
            stream = RANDOM.choice(STREAMS)
            data = noise(RANDOM.choice([1, 7, 300, 70_000]), valid=valid)
            cut = RANDOM.randrange(len(data) + 1)
            for part in (data[:cut], data[cut:]):
                made.write(part, stream)
                files[stream] += part
                if RANDOM.random() < 0.6:
                    made.look()
                if RANDOM.random() < 0.4:
                    live += read(made.lives(), live[-1].number or 0 if live else 0)
        whole = read(made.ended())
        assert [record.number for record in whole] == list(range(1, len(whole) + 1))
        assert whole[: len(live)] == live
        assert (whole[0].kind, whole[-1].kind, whole[-1].data) == ("state", "end", END)
        for number in range(len(whole) + 1):
            assert read(made.ended(), number) == whole[number:]
        for stream in STREAMS:
            assert text(whole, stream) == readable(files[stream])
            only = [record for record in whole if record.data.get("stream") in (None, stream)]
            assert read(made.ended(), streams=[stream]) == only


def test_a_character_that_is_not_whole_waits_for_its_rest(tmp_path: Path) -> None:
    """What can become no character does not wait, and at the end nothing does."""
    with attempt(tmp_path) as made:
        for byte in "a🗡".encode():
            made.write(bytes([byte]))
            made.look()
        assert text(read(made.lives())) == "a🗡"
        made.write(b"\xff")
        assert made.look() == 1
        made.write(b"\xf0\x9f")
        assert made.look() == 0
        assert text(read(made.lives())) == "a🗡\ufffd"
        assert text(read(made.ended())) == "a🗡\ufffd\ufffd"


@pytest.mark.parametrize("indexed", [True, False])
def test_a_piece_is_at_most_its_size_and_cut_between_characters(tmp_path: Path, indexed: bool) -> None:
    """Whether it was seen while it came or at the end only."""
    whole = "x" + "日" * 100_000
    with attempt(tmp_path) as made:
        made.write(whole.encode())
        if indexed:
            made.look()
        found = [record.data for record in read(made.ended()) if record.kind == "output"]
        sizes = [len(data["text"].encode()) for data in found]
        assert max(sizes) <= PIECE_BYTES
        assert [data["offset"] for data in found] == [sum(sizes[:number]) for number in range(len(sizes))]
        assert "".join(data["text"] for data in found) == whole


def test_an_attempt_that_nobody_looked_at_has_no_index(tmp_path: Path) -> None:
    """Its records follow from its files: the state, stdout, stderr, the end."""
    with attempt(tmp_path) as made:
        made.write(b"out")
        made.write(b"err", "stderr")
        assert made.stored == 0
        found = read(made.ended())
        assert kinds(found) == [(1, "state"), (2, "output"), (3, "output"), (4, "end")]
        assert (found[0].at, found[1].at, found[3].at) == (BEGAN_AT, ENDED_AT, ENDED_AT)
        assert kinds(read(made.lives())) == [(1, "state")]
        assert made.index.close() == ()
        assert not (tmp_path / "1" / "records").exists()


def test_an_attempt_without_files_has_begun_and_ended(tmp_path: Path) -> None:
    """As one that another program held."""
    ended = pages.ended(tmp_path / "none", None, ENDED_AT, END)
    assert kinds(read(Source(tmp_path / "none", BEGAN_AT, ended))) == [(1, "state"), (2, "end")]
    assert pages.ended(tmp_path / "none", (0, 0), ENDED_AT, END) is None


def test_a_request_to_stop_is_a_record(tmp_path: Path) -> None:
    """After what was written before it."""
    with attempt(tmp_path) as made:
        made.write(b"a")
        made.look(cancelling=True)
        found = read(made.ended())
        assert [record.data.get("state") or record.data.get("text") for record in found[:-1]] == [
            "running",
            "a",
            "cancelling",
        ]


@pytest.mark.parametrize("tail", [b"", bytes(7), bytes(ENTRY_BYTES * 3), b"\1" * ENTRY_BYTES, b"x" * 100])
@pytest.mark.parametrize("cut", [0, 20, 31])
def test_a_torn_tail_is_no_record(tmp_path: Path, tail: bytes, cut: int) -> None:
    """After a power cut: what is whole counts, and what comes later is appended behind it."""
    with attempt(tmp_path) as made:
        made.write(b"one")
        made.look()
        made.write(b"two")
        made.look()
        path = tmp_path / "1" / "records"
        path.write_bytes(path.read_bytes()[: ENTRY_BYTES * 3 - cut] + tail)
        kept = 3 if cut == 0 else 2
        found = read(made.lives())
        assert kinds(found) == [(1, "state"), (2, "output"), (3, "output")][:kept]
        later = Index(tmp_path / "1", BEGAN_AT, (made.files.stdout, made.files.stderr))
        made.write(b"three", "stderr")
        assert later.observe(made.at) == (1 if cut == 0 else 2)
        later.close()
        assert text(read(made.ended())) == "onetwo"
        assert text(read(made.ended()), "stderr") == "three"
        assert path.stat().st_size % ENTRY_BYTES == 0
        assert [record.number for record in read(made.ended())][:kept] == list(range(1, kept + 1))


def test_a_write_that_failed_halfway_keeps_what_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have read it; the rest comes when it can."""
    with attempt(tmp_path) as made:
        made.write(b"one")
        made.look()
        made.write(b"x" * PIECE_BYTES * 3)
        real = os.pwrite

        def short(descriptor: int, data: memoryview, offset: int) -> int:
            if offset >= 4 * ENTRY_BYTES:
                raise OSError(28, "No space left on device")
            return real(descriptor, data[: ENTRY_BYTES + 20], offset)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", short)
            for _ in range(2):
                with pytest.raises(OSError, match="space"):
                    made.look()
        seen = read(made.lives())
        assert len(seen) > 2
        made.look()
        whole = read(made.ended())
        assert whole[: len(seen)] == seen
        assert text(whole) == "one" + "x" * PIECE_BYTES * 3


def test_a_file_that_shrank_is_a_gap_and_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The warning once; what is written then is shown."""
    with attempt(tmp_path) as made:
        for round_ in range(3):
            made.write(b"a long line\n")
            made.look()
            os.ftruncate(made.files.stdout, 0)
            if round_ == 1:
                made.look()
            made.write(b"b\n")
            seen = made.stored
            made.look()
            found = read(made.lives(), seen)
            assert (kinds(found), text(found)) == ([(None, "gap"), (seen + 1, "output")], "b\n")
        assert [record.number for record in read(made.ended()) if record.number] == list(range(1, made.stored + 2))
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().endswith("ignoring")


def test_a_file_that_shrank_behind_the_last_look_is_a_gap_to_who_reads_later(tmp_path: Path) -> None:
    """Its numbers stand."""
    with attempt(tmp_path) as made:
        made.write(b"a long line\n")
        made.look()
        before = read(made.lives())
        os.ftruncate(made.files.stdout, 0)
        made.write(b"b\n")
        found = read(made.ended())
        assert kinds(found) == [(1, "state"), (None, "gap"), (2, "output"), (None, "gap"), (3, "output"), (4, "end")]
        assert (before[1].number, found[4].data["text"]) == (2, "b\n")


@pytest.mark.parametrize("made_of", ["nothing", "a directory", "a pipe", "a link"])
def test_files_that_somebody_replaced_are_gaps(tmp_path: Path, made_of: str) -> None:
    """Whatever is there instead: nothing of it is shown, and nobody waits for it."""
    with attempt(tmp_path) as made:
        made.write(b"one")
        made.look()
        for name in ("stdout", "records"):
            path = tmp_path / "1" / name
            path.unlink()
            if made_of == "a directory":
                path.mkdir()
            elif made_of == "a pipe":
                os.mkfifo(path)
            elif made_of == "a link":
                (tmp_path / "secret").write_text("secret")
                path.symlink_to(tmp_path / "secret")
        made.write(b"two")
        found = read(made.ended())
        assert kinds(found) == [(1, "state"), (None, "gap"), (2, "output"), (3, "end")]
        assert text(found) == ""


def test_an_id_past_the_end_is_a_gap_and_the_end(tmp_path: Path) -> None:
    """As after a power cut. While it runs the reader goes on with what comes."""
    with attempt(tmp_path) as made:
        made.write(b"one")
        made.look()
        page = pages.page(made.lives(), 50)
        assert (kinds(page.records), page.number, page.over) == ([(None, "gap")], 2, False)
        assert "50" in page.records[0].data["reason"]
        made.write(b"two")
        assert kinds(read(made.ended(), 50)) == [(None, "gap"), (4, "end")]
        assert kinds(read(made.ended(), 4)) == []
        assert kinds(read(made.ended(), 3)) == [(4, "end")]


@pytest.mark.parametrize("after", [0, 3, 10])
def test_an_index_that_is_deleted_under_a_slow_reader_is_a_gap(tmp_path: Path, after: int) -> None:
    """What it held is not passed by in silence; what follows keeps its number."""
    with attempt(tmp_path) as made:
        for _ in range(10):
            made.write(b"x")
            made.look()
        made.write(b"rest")
        source = made.ended()
        (made.directory / "records").unlink()
        found = read(source, after)
        assert kinds(found) == [(None, "gap"), (12, "output"), (13, "end")]
        assert found[0].data["reason"] == f"records {after + 1} to 11 are gone"
        assert kinds(read(source, 11)) == [(12, "output"), (13, "end")]


def test_what_an_earlier_life_of_the_attempt_left_is_not_its_index(tmp_path: Path) -> None:
    """A database that was brought back from a backup makes the same attempt again."""
    with attempt(tmp_path) as made:
        made.write(b"one")
        made.look()
    with attempt(tmp_path) as again:
        assert kinds(read(again.ended())) == [(1, "state"), (2, "end")]


def test_a_large_index_is_made_and_read_in_parts(tmp_path: Path) -> None:
    """One look appends a bounded number of entries."""
    with attempt(tmp_path) as made:
        os.ftruncate(made.files.stdout, index.AT_ONCE * PIECE_BYTES * 2 + 5)
        for look in (1, 2):
            assert made.look() >= index.AT_ONCE
            assert made.stored == look * index.AT_ONCE + 1
        source = made.ended()
        assert source.ended
        assert source.ended.last > made.stored
        assert kinds(pages.page(source, source.ended.last - 2).records)[-1] == (source.ended.last, "end")
        assert kinds(read(source, streams=["stderr"])) == [(1, "state"), (source.ended.last, "end")]
