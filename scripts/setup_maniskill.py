"""Gives this machine what ManiSkill needs of the system, where it lacks it: the libraries that its
OpenCV loads, and for camera observations a Vulkan driver that SAPIEN can render with.

    sudo .venv/bin/python scripts/setup_maniskill.py [--dry-run] [--force]

Debian 12's own driver is too old for SAPIEN; its backports have a newer one. Where nothing can be
done (no root, another system), this says what to do and ends well: the rest works without.

Invariant: the package sources of the machine stay as they are. What is needed beyond them is in a
temporary folder, with the address of the mirror that the machine already uses.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ebrl.runtime.machine import devices, software, vulkan

VULKAN = ("mesa-vulkan-drivers", "libvulkan1")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Releases whose own driver is too old, and where a newer one is.
SUITES = {("debian", "bookworm"): "bookworm-backports"}
NVIDIA = (
    "its NVIDIA GPU needs the driver's graphics libraries (containers: "
    "NVIDIA_DRIVER_CAPABILITIES=all)"
)


class Need(NamedTuple):
    """Is everything there, what was found, and the packages (maybe none) that bring the rest."""

    met: bool
    found: str
    packages: tuple[str, ...]


def look(*, gpus: bool) -> Need:
    """Ask the system. Where there is a GPU, its own driver has to bring Vulkan, not Mesa."""
    device = vulkan.check(vulkan.finish_probe(vulkan.start_probe()))
    libraries = software.missing_libraries()
    found = f"{', '.join(libraries)} not found; {device.detail}" if libraries else device.detail
    packages = tuple(software.OPENCV_LIBRARIES[each] for each in libraries)
    if not device.ok and not gpus:
        packages += VULKAN
    return Need(device.ok and not libraries, found, packages)


def suite_of(release: dict[str, str], packages: Sequence[str]) -> str:
    """The suite to take the packages from, "" for the release's own."""
    name = release.get("ID", ""), release.get("VERSION_CODENAME", "")
    return SUITES.get(name, "") if set(VULKAN) <= set(packages) else ""


def os_release(text: str) -> dict[str, str]:
    """/etc/os-release: KEY=value lines, the value quoted or not."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
    return {key: value.strip("'\"") for key, value in pairs}


def obstacle(release: dict[str, str], packages: Sequence[str], *, root: bool, apt: bool) -> str:
    """Why this program cannot install the packages here, or "" when it can."""
    if not packages:
        return "no package brings that"
    if release.get("ID") not in ("debian", "ubuntu") or not apt:
        return f"{release.get('PRETTY_NAME', 'this system')} is neither Debian nor Ubuntu"
    if not root:
        return "installing packages needs root"
    return ""


def advice(release: dict[str, str], packages: Sequence[str]) -> str:
    """What a person can do instead."""
    if not packages:
        return NVIDIA
    suite = suite_of(release, packages)
    if suite:
        return f"enable {suite}, then: sudo apt-get install -t {suite} {' '.join(packages)}"
    if release.get("ID") in ("debian", "ubuntu"):
        return f"sudo apt-get install {' '.join(packages)}"
    if sys.platform == "darwin":
        return "ManiSkill renders through MoltenVK on macOS: install the Vulkan SDK"
    return "install libGL, glib, the Vulkan loader, and a Vulkan driver (Mesa 25 brings lavapipe)"


def mirror(targets: str, codename: str) -> str:
    """The mirror of the release, from lines of `SITE RELEASE CODENAME COMPONENT`; "" if none."""
    for line in targets.splitlines():
        site, suite, code, component = line.split(" ")
        if component == "main" and codename in (suite, code):
            return site
    return ""


def sources(site: str, suites: Sequence[str], keyring: Path) -> str:
    """One deb822 stanza."""
    signed = f"Signed-By: {keyring}\n" if keyring.exists() else ""
    return f"Types: deb\nURIs: {site}\nSuites: {' '.join(suites)}\nComponents: main\n{signed}"


def install(release: dict[str, str], packages: Sequence[str], *, dry_run: bool) -> bool:
    """Ask apt; False when it could not."""
    suite = suite_of(release, packages)
    with tempfile.TemporaryDirectory(prefix="ebrl-apt-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # apt fetches as a user of its own
        (folder / "lists/partial").mkdir(parents=True)
        options = ["-o", f"Dir::State::lists={folder}/lists"]
        target: list[str] = []
        if suite:
            codename = release["VERSION_CODENAME"]
            fields = "$(SITE) $(RELEASE) $(CODENAME) $(COMPONENT)"
            targets = subprocess.run(
                ["apt-get", "indextargets", "--format", fields, "Created-By: Packages"],
                check=False,
                capture_output=True,
                text=True,
            ).stdout
            site = mirror(targets, codename)
            if not site:
                print(f"maniskill: apt knows no mirror of {codename}", file=sys.stderr)
                return False
            file = folder / "backports.sources"
            file.write_text(sources(site, (codename, suite), KEYRING))
            options += [
                "-o",
                f"Dir::Etc::sourcelist={file}",
                "-o",
                "Dir::Etc::sourceparts=/dev/null",
            ]
            target = ["-t", suite]
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        wanted = ["install", "-y", "-q", "--no-install-recommends", *target, *packages]
        for words in (["update", "-q"], [*wanted, "-s"] if dry_run else wanted):
            command = ["apt-get", *options, *words]
            print(f"maniskill: {' '.join(command)}", flush=True)
            if subprocess.run(command, check=False, env=quiet).returncode != 0:
                print("maniskill: apt-get failed, see above", file=sys.stderr)
                return False
    return True


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="let apt only say what it would do")
    parser.add_argument("--force", action="store_true", help="install even if a driver is there")
    options = parser.parse_args(arguments)

    gpus = bool(devices.look().devices)
    need = look(gpus=gpus)
    if need.met and not options.force:
        print(f"maniskill: {need.found}")
        return
    packages = (*VULKAN, *software.OPENCV_LIBRARIES.values()) if options.force else need.packages
    file = Path("/etc/os-release")
    release = os_release(file.read_text()) if file.exists() else {}
    reason = obstacle(
        release, packages, root=os.geteuid() == 0, apt=shutil.which("apt-get") is not None
    )
    if not reason:
        reason = "apt-get could not install it"
        if install(release, packages, dry_run=options.dry_run):
            need = look(gpus=gpus)
            reason = "what was installed is not enough"
            if need.met or options.dry_run:
                print(f"maniskill: {need.found}")
                return
    print(
        f"maniskill: {need.found}; {reason}.\n"
        f"           What to do: {advice(release, packages)}.\n"
        "           Without Vulkan, all but cameras works; without libGL, all but ManiSkill.",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
