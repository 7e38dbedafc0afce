"""README.md, as tests read it: its blocks are run, its lists are compared with the product."""

from __future__ import annotations

import re

from tests.support.daemon import REPOSITORY

README = (REPOSITORY / "README.md").read_text()


def blocks(text: str = README) -> list[str]:
    """The contents of the shell blocks, in order."""
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def marked(mark: str, text: str = README) -> str:
    """The block right below `<!-- mark -->`."""
    found = re.search(rf"^<!-- {mark} -->\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found, f"no block below <!-- {mark} -->"
    return found[1]
