"""The manual pages are clean mdoc, refer to each other rightly, and are installed with the programs."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.daemon import REPOSITORY
from tests.support.pages import PAGES, page, section

OURS = {(path.stem, path.suffix[1:]) for path in PAGES}
# By these tests make the daemon fail at a certain point, and a daemon speaks to its successor: people set none of them.
INTERNAL = re.compile(r"QUESTLINED_(CRASH_AT|HANG_AT|HANDOVER)")
each_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)


@each_page
@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_a_page_is_clean_mdoc(path: Path) -> None:
    lint = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", str(path)], capture_output=True, text=True, check=False
    )
    assert (lint.returncode, lint.stdout) == (0, "")


@each_page
def test_a_page_is_named_as_its_file(path: Path) -> None:
    titles = re.findall(r"^\.Dt (\S+) (\d)$", path.read_text(), re.MULTILINE)
    assert titles == [(path.stem.upper(), path.suffix[1:])]


@each_page
def test_a_page_refers_to_pages_that_there_are(path: Path) -> None:
    """And to each of ours from its last section, save itself."""
    references = set(re.findall(r"\bXr (\S+) (\d)", path.read_text()))
    assert {reference for reference in references if reference[0].startswith("q")} <= OURS
    also = set(re.findall(r"^\.Xr (\S+) (\d)", section(path.read_text(), "SEE ALSO"), re.MULTILINE))
    assert also >= OURS - {(path.stem, path.suffix[1:])}


@each_page
def test_a_page_refers_to_sections_that_it_has(path: Path) -> None:
    text = path.read_text()
    titles = re.findall(r"^\.S[hs] (.*)$", text, re.MULTILINE)
    assert set(re.findall(r"\bSx ([A-Z][\w ]*\w)", text)) <= set(titles)


def test_every_page_is_installed() -> None:
    """Below share/man, where man looks for those of programs in the bin beside it."""
    built = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    installed = {source: target for source, target in built["shared-data"].items() if source.startswith("man/")}
    assert installed == {f"man/{path.name}": f"share/man/man{path.suffix[1:]}/{path.name}" for path in PAGES}


def test_every_variable_of_ours_is_in_a_page() -> None:
    """And no page has one that the programs do not know."""
    name = re.compile(r"\bQUESTLINED?_[A-Z]+(?:_[A-Z]+)*\b")
    sources = [path for package in ("questlined", "qlctl") for path in (REPOSITORY / package).rglob("*.py")]
    known = {found for path in sources for found in name.findall(path.read_text()) if not INTERNAL.fullmatch(found)}
    assert {found for path in PAGES for found in name.findall(page(path.name))} == known
