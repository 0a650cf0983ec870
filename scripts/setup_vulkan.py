"""Gives this machine a software Vulkan driver that SAPIEN can render with, where it lacks one.

    sudo .venv/bin/python scripts/setup_vulkan.py [--dry-run] [--force]

ManiSkill loads a robot with its visual shapes, so it wants a Vulkan device even without cameras.
Debian 12's own driver is too old for SAPIEN; its backports have a newer one. Where nothing can be
done (no root, another system), this says what to do and ends well: all but ManiSkill works without.

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

from ebrl.runtime.machine import devices, vulkan

PACKAGES = ("mesa-vulkan-drivers", "libvulkan1")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Releases whose own driver is too old, and where a newer one is.
SUITES = {("debian", "bookworm"): "bookworm-backports"}


def os_release(text: str) -> dict[str, str]:
    """/etc/os-release: KEY=value lines, the value quoted or not."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
    return {key: value.strip("'\"") for key, value in pairs}


def obstacle(release: dict[str, str], *, root: bool, gpus: bool, apt: bool) -> str:
    """Why this program cannot install a driver here, or "" when it can."""
    if gpus:
        return "there is an NVIDIA GPU, whose driver brings Vulkan; install its graphics libraries"
    if release.get("ID") not in ("debian", "ubuntu") or not apt:
        return f"{release.get('PRETTY_NAME', 'this system')} is neither Debian nor Ubuntu"
    if not root:
        return "installing packages needs root"
    return ""


def advice(release: dict[str, str]) -> str:
    """What a person can do instead."""
    known = release.get("ID") in ("debian", "ubuntu")
    suite = SUITES.get((release.get("ID", ""), release.get("VERSION_CODENAME", "")))
    if suite:
        target = f"-t {suite} "
        return f"enable {suite}, then: sudo apt-get install {target}{' '.join(PACKAGES)}"
    if known:
        return f"sudo apt-get install {' '.join(PACKAGES)}"
    if sys.platform == "darwin":
        return "ManiSkill renders through MoltenVK on macOS: install the Vulkan SDK"
    return "install the Vulkan loader and Mesa's software driver (lavapipe), version 25 or newer"


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


def install(release: dict[str, str], *, dry_run: bool) -> bool:
    """Ask apt; False when it could not."""
    suite = SUITES.get((release["ID"], release.get("VERSION_CODENAME", "")))
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
                print(f"vulkan: apt knows no mirror of {codename}", file=sys.stderr)
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
        wanted = ["install", "-y", "-q", "--no-install-recommends", *target, *PACKAGES]
        for words in (["update", "-q"], [*wanted, "-s"] if dry_run else wanted):
            command = ["apt-get", *options, *words]
            print(f"vulkan: {' '.join(command)}", flush=True)
            if subprocess.run(command, check=False, env=quiet).returncode != 0:
                print("vulkan: apt-get failed, see above", file=sys.stderr)
                return False
    return True


def look() -> tuple[bool, str]:
    """Is there a device that SAPIEN can use, and what was found."""
    found = vulkan.check(vulkan.finish_probe(vulkan.start_probe()))
    return found.ok, found.detail


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="let apt only say what it would do")
    parser.add_argument("--force", action="store_true", help="install even if a driver is there")
    options = parser.parse_args(arguments)

    usable, detail = look()
    if usable and not options.force:
        print(f"vulkan: {detail}")
        return
    file = Path("/etc/os-release")
    release = os_release(file.read_text()) if file.exists() else {}
    reason = obstacle(
        release,
        root=os.geteuid() == 0,
        gpus=bool(devices.look().devices),
        apt=shutil.which("apt-get") is not None,
    )
    if not reason and install(release, dry_run=options.dry_run):
        if options.dry_run:
            return
        usable, detail = look()
        if usable:
            print(f"vulkan: {detail}")
            return
        reason = "what was installed is not enough"
    print(
        f"vulkan: {detail}. {reason or 'apt-get could not install it'}.\n"
        f"        To use ManiSkill here: {advice(release)}\n"
        "        Everything else works without.",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
