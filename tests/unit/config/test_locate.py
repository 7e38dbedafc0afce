"""Every key of a TOML file is found on the line where it begins."""

import pytest

from questlined.config.locate import find_line

TEXT = '''# heartbeat = 1
lease_ttl = 120
text = """
heartbeat = 2
"""

[executor]
command = [
  "sh",  # timeout = 3
  "-c",
]
timeout = 5
env.set.A = "1"
env.set."B C" = "2"

[executors."a.b"]
env = { set = { X = "1" }, path = "/bin" }
[scheduler]
role_concurrency = { build = 1 }
heartbeat = 30'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (["lease_ttl"], 2),
        (["text"], 3),
        (["executor"], 7),
        (["executor", "command"], 8),
        (["executor", "timeout"], 12),
        (["executor", "env", "set", "A"], 13),
        (["executor", "env", "set", "B C"], 14),
        (["executors", "a.b"], 16),
        (["executors", "a.b", "env", "set", "X"], 17),
        (["scheduler", "role_concurrency", "build"], 19),
        (["scheduler", "heartbeat"], 20),
        (["heartbeat"], None),
        (["lease_ttl", "x"], None),
        (["command"], None),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_key_is_found_where_it_begins(key, line, ending):
    assert find_line(TEXT.replace("\n", ending), key) == line


@pytest.mark.parametrize("at", range(12))
def test_a_value_of_many_lines_is_stepped_over_wherever_it_stands(at):
    lines = [f"k{number} = {number}" for number in range(12)]
    lines[at] = f"k{at} = [\n1,\n\n2,\n3,\n4\n]"
    text = "\n".join(lines)
    for number in range(12):
        assert find_line(text, [f"k{number}"]) == number + 1 + (6 if number > at else 0)


def test_text_that_is_no_toml_has_no_lines():
    assert find_line("a = ", ["a"]) is None
    assert find_line("", ["a"]) is None


@pytest.mark.parametrize(
    ("opened", "line", "closed"),
    [("'''\n", "x", "''''"), ('"""\n', '\\"""]', '"""""'), ("[\n", '"x", # ]', "]"), ("[\n", "'[', [{}],", "]")],
)
def test_a_key_behind_a_value_of_very_many_lines_is_found_at_once(opened, line, closed):
    """In a few parses of the text: one for each line would take minutes."""
    text = f'a = "[" # "\nb = {opened}' + f"{line}\n" * 10_000 + f"{closed}\n[c] # {{\nd = 1\n"
    last = text.count("\n")
    assert [find_line(text, key) for key in (["a"], ["b"], ["c"], ["c", "d"])] == [1, 2, last - 1, last]
