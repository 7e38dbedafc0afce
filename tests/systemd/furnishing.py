"""What a lab is given of this machine: the code under test, its packages, and a Python environment around them."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.daemon import REPOSITORY

INSIDE = "/opt/questline"  # not below /tmp or /home: a unit with PrivateTmp or ProtectHome sees it, too
PATH = f"{INSIDE}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHON, QUESTLINED, QLCTL = (f"{INSIDE}/bin/{name}" for name in ("python", "questlined", "qlctl"))


def mounts() -> dict[str, str]:
    """What a lab is given of this machine, wherever it is here: directory → its place there."""
    paths = {sysconfig.get_path("purelib"): f"{INSIDE}/site", str(REPOSITORY): f"{INSIDE}/checkout"}
    if sysconfig.get_path("platlib") not in paths:
        paths[sysconfig.get_path("platlib")] = f"{INSIDE}/platform"
    if sys.base_prefix != "/usr":
        paths[sys.base_prefix] = f"{INSIDE}/base"
    return {host.replace(":", "\\:"): lab for host, lab in paths.items()}


def compile_once() -> None:
    """The lab cannot write byte code beside the sources: without any, every start there would compile them all."""
    packages = [str(REPOSITORY / name) for name in ("questlined", "qlctl")]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *packages], check=False, stdout=subprocess.DEVNULL)


def furnish(root: Path) -> None:
    """Make the environment below a lab's root, around what is mounted there. ldconfig has to run there then."""
    base = "/usr" if sys.base_prefix == "/usr" else f"{INSIDE}/base"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = f"{INSIDE}/lib/{version}/site-packages"
    files = {
        f"{INSIDE}/pyvenv.cfg": f"home = {base}/bin\ninclude-system-site-packages = false\n",
        f"{site}/questline.pth": "".join(f"{INSIDE}/{name}\n" for name in ("checkout", "site", "platform")),
        QLCTL: (REPOSITORY / "qlctl/start/qlctl").read_text().replace("#!python", f"#!{PYTHON}"),
        QUESTLINED: f"#!{PYTHON}\nimport sys\n\nfrom questlined.main import main\n\nsys.exit(main())\n",
        "/etc/ld.so.conf.d/questline.conf": f"{base}/lib\n",
    }
    for path, text in files.items():
        there = Path(f"{root}{path}")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
        there.chmod(0o755 if "/bin/" in path else 0o644)
    Path(f"{root}{PYTHON}").symlink_to(f"{base}/bin/{version}")


def packaged(kind: str) -> dict[str, str]:
    """The units of `user` or `system` by name, with the lab's programs in place of those of /usr/bin."""
    folder = REPOSITORY / "units" / kind
    return {path.name: rendered(path.read_text()) for path in sorted(folder.iterdir()) if path.is_file()}


def rendered(unit: str) -> str:
    """A packaged unit's text as it stands in a lab."""
    return unit.replace("/usr/bin/questlined", QUESTLINED).replace("/usr/bin/qlctl", QLCTL)
