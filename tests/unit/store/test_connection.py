"""Which filesystem a path is on, from the kernel's text alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from questlined.store.sqlite.connection import NETWORK_FILESYSTEMS, filesystem_of

MOUNTS = r"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 21 0:25 / /home rw,relatime shared:2 master:3 - nfs4 server:/home rw,vers=4.2
31 30 0:26 / /home/ann/local rw,relatime - xfs /dev/sdb1 rw
32 21 0:27 / /mnt/with\040space\134and\011tab rw - cifs //server/share rw
33 21 0:28 / /mnt/b rw - 9p host rw
34 21 0:29 / /stacked rw - nfs server:/x rw
35 34 0:30 / /stacked rw - tmpfs tmpfs rw
36 21 0:31 / /mnt/größe rw - fuse.sshfs host: rw
37 21 0:32 /deep/er /mnt/bind rw,relatime - btrfs /dev/sdc rw
38 21 0:33 / /odd rw optional:1 fields:2 here:3 - ext4 /dev/with - dash rw
""".strip()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib/q", "ext4"),
        ("/home", "nfs4"),
        ("/home/ann/state", "nfs4"),
        ("/home/ann/local/state", "xfs"),
        ("/homeless", "ext4"),
        ("/mnt/with space\\and\ttab/state", "cifs"),
        ("/mnt/b/x", "9p"),
        ("/mnt/bind/x", "btrfs"),
        ("/mnt/bigger", "ext4"),
        ("/stacked/x", "tmpfs"),
        ("/mnt/größe/x", "fuse.sshfs"),
        ("/odd/x", "ext4"),
    ],
)
def test_the_deepest_and_latest_mount_above_a_path_is_its_filesystem(path: str, kind: str) -> None:
    """Compared by whole names, with the kernel's escapes undone."""
    assert filesystem_of(Path(path), MOUNTS) == kind


def test_a_name_of_no_encoding_is_compared_by_its_bytes() -> None:
    """As the file system has them."""
    raw = b"21 1 8:1 / / rw - ext4 a rw\n22 21 0:1 / /mnt/\xff rw - nfs s:/ rw"
    path = Path(b"/mnt/\xff/x".decode("utf-8", "surrogateescape"))
    assert filesystem_of(path, raw.decode("utf-8", "surrogateescape")) == "nfs"


def test_network_filesystems_are_refused_and_local_ones_are_not() -> None:
    """Those of the list; an unknown kind is given the benefit of the doubt."""
    assert {"nfs", "nfs4", "cifs", "9p", "fuse.sshfs"} <= NETWORK_FILESYSTEMS
    assert not {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "fuse.mergerfs"} & NETWORK_FILESYSTEMS
