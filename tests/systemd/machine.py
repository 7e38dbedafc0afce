"""Run commands under a real systemd that is thrown away afterwards.

  systemd-lab run  [--bind HOST[:LAB]]... -- CMD...       boot, run CMD, power off
  systemd-lab hold [--bind HOST[:LAB]]... --name NAME     boot, say "up", power off when stdin ends
  systemd-lab exec --name NAME -- CMD...                  run CMD in a lab that is held
  systemd-lab check                                       see whether labs can run here

A lab is a systemd-nspawn container whose root is a copy-on-write view of this machine's
own root directory: the same programs and files, no image to build or download.  Changes
stay in memory, survive a reboot of the lab (which ends `run`), and are dropped with it.
A lab boots to the default target; whatever was enabled on this machine stays off, and
an installed questlined is not seen.

CMD runs as root in the lab's namespaces, outside any unit, with our environment,
terminal and capabilities; it starts in / (`env -C DIR CMD...` is a way out).  Its exit
status becomes ours, as a shell would tell it.  125 means that the lab itself failed.

/run and /tmp start empty in a lab, and file systems mounted below / (a separate /home,
say) are missing: bring in what is needed with --bind or --bind-ro.  The network is this
machine's.
"""

# Process tree: systemd-lab > unshare > sh > systemd-nspawn > the lab's systemd.  The sh is PID 1 of a PID and mount
# namespace, and tied to the life of the one who booted it: whichever of these is killed, the kernel ends the lab and
# drops its mounts.  Only the lab's cgroup can stay, empty, until the next boot sweeps it away.

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawTextHelpFormatter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

BOOT_S, STOP_S = 60.0, 20.0
TIED = ("setpriv", "--pdeathsig", "KILL")
UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
PROGRAMS = {"systemd-nspawn": "systemd-container", "dbus-daemon": "dbus", "unshare": "util-linux"}

# What a lab needs of the kernel: namespaces of its own and an overlay of the root directory.
TRIAL = """
mount -t tmpfs systemd-lab /run
cd /run
mkdir root upper work
mount -t overlay -o "lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work" systemd-lab root
"""

# Makes the root and boots it; arguments: cgroup, nspawn options.  The first mounts show nspawn only cgroup2, even next
# to v1, and keep its lock files off this machine.  The root loses what the administrator enabled, what generators
# would add, the state of this machine's systemd, and an installed questlined.
KEEPER = r"""
umask 022
mount --bind "${1%/*}" /sys/fs/cgroup
cgroup=/sys/fs/cgroup/${1##*/}; shift
mkdir -p /run/systemd/nspawn
mount -t tmpfs -o mode=755 systemd-lab /run/systemd/nspawn
cd /run/systemd/nspawn
mkdir root upper work
mount -t overlay -o "lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work" systemd-lab root
chroot root sh -ec '
    rm -rf /etc/systemd/system/*.wants /etc/systemd/system/*.requires /etc/systemd/user/*.wants
    for lib in /etc /lib /usr/lib; do rm -rf $lib/systemd/system-generators; done
    rm -rf /etc/questlined
    for lib in /etc /usr/lib /usr/share /usr/local/share; do rm -rf $lib/systemd/*/questline*; done
    rm -rf /var/lib/systemd/linger /var/lib/systemd/timers /var/lib/dbus/machine-id /var/log/journal
    : >/etc/machine-id  # empty: it gets a new one, without the ado of a first boot'
exec 9</sys/fs/cgroup; flock 9  # lest another boot sweeps our cgroup before we are in it
for lab in /sys/fs/cgroup/systemd-lab-*/; do
    ! grep -qs "populated 0" "$lab/cgroup.events" || find "$lab" -depth -type d -exec rmdir {} + || :
done 2>/dev/null  # its own end may be at the same work
mkdir "$cgroup" "$cgroup/keeper"
echo 0 >"$cgroup/keeper/cgroup.procs"  # populated also in the midst of a reboot
exec 9<&-
trap 'echo 0 >"${cgroup%/*}/cgroup.procs"; find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null' EXIT
nspawn() {
    echo 0 >"$cgroup/cgroup.procs" && exec systemd-nspawn --boot --quiet --directory=root --register=no --keep-unit \
        --link-journal=no --console=pipe --notify-ready=yes "$@" </dev/null
}
until (nspawn "$@"); [ $? != 133 ]; do :; done  # 133 is a reboot
"""


class LabError(Exception):
    """No lab can run here, or this one does not; the text says why and, where there is one, the remedy."""


def check() -> None:
    """Raises LabError where no lab can run."""
    if os.geteuid() != 0:
        raise LabError("a lab must be run by root")
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            raise LabError(f"{program} not found (Debian package: {package})")
    if not os.access(cgroup_of("any").parent, os.W_OK):
        raise LabError("the cgroup2 file system is read-only")
    trial = subprocess.run([*UNSHARE, "sh", "-euc", TRIAL], capture_output=True, text=True, check=False)
    if trial.returncode:
        raise LabError(f"no mount namespace with an overlay of / can be made here: {trial.stderr.strip()}")


def cgroup_of(name: str) -> Path:
    """The lab's cgroup, whether it is up or not. Raises LabError without cgroup2."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(target, f"systemd-lab-{name}")
    raise LabError("no cgroup2 file system is mounted")


def is_up(name: str) -> bool:
    """Whether anything of the lab lives."""
    try:
        return "populated 1" in (cgroup_of(name) / "cgroup.events").read_text()
    except OSError:
        return False


def leader_of(name: str) -> int:
    """The pid of the lab's systemd. Raises LabError where it is not up."""
    try:
        return int((cgroup_of(name) / "payload/init.scope/cgroup.procs").read_text().split()[0])
    except (OSError, IndexError):
        raise LabError(f"lab {name!r} is not up") from None


def boot(name: str, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a lab with more options for nspawn; its keeper, once it is up. It does not outlive the calling thread."""
    if is_up(name):
        raise LabError(f"lab {name!r} is up already")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, tempfile.TemporaryFile() as console:
        notify.bind("")  # the kernel picks a name: a null byte, then text
        notify.settimeout(0.1)
        keeper = subprocess.Popen(
            [*TIED, *UNSHARE, "sh", "-euc", KEEPER, "sh", str(cgroup_of(name)), f"--machine={name}", *options],
            env=os.environ | {"NOTIFY_SOCKET": "@" + notify.getsockname()[1:].decode()},
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + BOOT_S
            while keeper.poll() is None and time.monotonic() < deadline:
                with suppress(TimeoutError):
                    if b"READY=1" in notify.recv(4096).split(b"\n"):
                        return keeper
            console.seek(0)
            said = console.read()[-4000:].decode(errors="replace").rstrip()
            raise LabError(f"lab {name!r} did not come up:\n{said}")
        except BaseException:
            keeper.kill()
            keeper.wait()
            raise


def inside(name: str, command: Sequence[str]) -> list[str]:
    """The command line that runs a command in the lab. Raises LabError where it is not up."""
    procs = cgroup_of(name) / "payload/systemd-lab/cgroup.procs"
    enter = ["nsenter", f"--target={leader_of(name)}", "--all", "--no-fork", "--"]
    procs.parent.mkdir(exist_ok=True)
    # A cgroup of the lab is joined from out here. The command is sh's child and not nsenter's, which would stop for
    # good when a shutdown stops it.
    joined = ["sh", "-c", 'echo 0 >"$0" && exec "$@"', str(procs), *enter]
    return [*joined, "sh", "-c", '"$@"; exit $?', "sh", *command]


def down(name: str, keeper: subprocess.Popen[bytes]) -> None:
    """Power the lab off; kill it if that takes too long. Nothing of it is left when this returns."""
    cgroup, told, deadline = cgroup_of(name), None, time.monotonic() + STOP_S
    _end_guests(name)
    while keeper.poll() is None and time.monotonic() < deadline:
        with suppress(LabError, ProcessLookupError):  # in the midst of a reboot
            if told != (leader := leader_of(name)):
                os.kill(leader, signal.SIGRTMIN + 4)
                told = leader
        with suppress(subprocess.TimeoutExpired):
            keeper.wait(0.02)
    keeper.kill()
    keeper.wait()
    _sweep(cgroup, deadline + STOP_S)


def _end_guests(name: str) -> None:
    """Kill what was run in the lab from out here: it belongs to no unit, and would hold up the shutdown.

    Each has a parent outside that has to reap it and then ends by itself: killed first, it would leave a zombie.
    """
    with suppress(LabError, OSError):
        inside = os.stat(f"/proc/{leader_of(name)}/ns/pid").st_ino
        for pid in (cgroup_of(name) / "payload/systemd-lab/cgroup.procs").read_text().split():
            with suppress(OSError):
                if os.stat(f"/proc/{pid}/ns/pid").st_ino == inside:
                    os.kill(int(pid), signal.SIGKILL)


def _sweep(cgroup: Path, deadline: float) -> None:
    """Remove the cgroup of a keeper that could not: what was killed in it has perhaps not quite gone."""
    while cgroup.exists() and time.monotonic() < deadline:
        for directory, _, _ in os.walk(cgroup, topdown=False):
            with suppress(OSError):
                os.rmdir(directory)


def traces(leader: int) -> frozenset[str]:
    """The namespaces of the lab's systemd and of its nspawn, by which all that belongs to them is found."""
    stat = Path(f"/proc/{leader}/stat").read_text()
    nspawn = stat.rpartition(")")[2].split()[1]
    return frozenset(os.readlink(f"/proc/{pid}/ns/{kind}") for pid in (leader, nspawn) for kind in ("pid", "mnt"))


def left(name: str, namespaces: frozenset[str]) -> list[str]:
    """What there is on this machine of a lab: its cgroup, mounts that name it, processes in its namespaces."""
    found = []
    cgroup = cgroup_of(name)
    if cgroup.exists():
        found.append(f"cgroup {cgroup}")
    found += [
        f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if "systemd-lab" in line
    ]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = {os.readlink(process / "ns" / kind) for kind in ("pid", "mnt")}
        except OSError:  # it has gone
            continue
        if links & namespaces:
            found.append(f"process {process.name}")
    return found


def hold(name: str, options: Sequence[str]) -> int:
    """Boot, say so, and power off when stdin ends: it does even when its writer is killed."""
    keeper = boot(name, options)
    try:
        print("up", flush=True)
        ended = os.pidfd_open(keeper.pid)
        while ended not in select.select([0, ended], [], [])[0] and os.read(0, 4096):
            pass
    finally:
        down(name, keeper)
    return 0


def run(options: Sequence[str], command: Sequence[str]) -> int:
    """Boot, run a command, power off; the command's exit status."""
    name = f"run-{os.getpid()}-{os.urandom(3).hex()}"
    keeper = boot(name, options)
    try:
        return subprocess.call(inside(name, command))
    finally:
        down(name, keeper)


def main(argv: Sequence[str]) -> int:
    """The command line: see above."""
    end = list(argv).index("--") if "--" in argv else len(argv)
    command = argv[end + 1 :]
    parser = ArgumentParser(prog="systemd-lab", description=__doc__, formatter_class=RawTextHelpFormatter)
    parser.add_argument("verb", choices=["run", "hold", "exec", "check"])
    parser.add_argument("--bind", action="append", default=[])
    parser.add_argument("--bind-ro", action="append", default=[])
    parser.add_argument("--name", default="lab")
    given = parser.parse_args(argv[:end])
    if (given.verb in ("run", "exec")) != bool(command):
        parser.error("CMD is missing or out of place")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        check()
        options = [f"--bind={bind}" for bind in given.bind] + [f"--bind-ro={bind}" for bind in given.bind_ro]
        if given.verb == "run":
            return run(options, command)
        if given.verb == "hold":
            return hold(given.name, options)
        return subprocess.call(inside(given.name, command)) if given.verb == "exec" else 0
    except LabError as error:
        print(f"systemd-lab: {error}", file=sys.stderr)
        return 125
