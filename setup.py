"""Compile the kernels into wheels, and write the manual pages; all else is in setup.cfg.

A wheel has the libraries of all processors of its platform. MR_DEDUP_TARGETS, names separated by
spaces, chooses others, so that a machine makes the wheel of another:

    MR_DEDUP_TARGETS=aarch64 python -m build --wheel \\
        -C--build-option=--plat-name=manylinux2014_aarch64
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from platform import machine

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class PlatformDistribution(Distribution):
    """Files of one platform: setuptools would call those of a package without extensions pure."""

    def has_ext_modules(self) -> bool:
        """Return that there is compiled code."""
        return True


class BuildWithKernels(build_py):
    """Copy the sources, compile the kernels and write the manual pages.

    An editable install compiles the kernels when they are used, and has no manual pages.
    """

    def run(self) -> None:
        """Run the command."""
        super().run()
        if not self.editable_mode:
            targets = os.environ.get("MR_DEDUP_TARGETS", machine().replace("_", "-"))
            folder = Path(self.build_lib) / "mr_dedup" / "kernels" / "libraries"
            # by the second, if there is one, pip offers what a build requires
            paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
            subprocess.run(
                [sys.executable, "-m", "mr_dedup.kernels.compiler", folder, *targets.split()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                check=True,
            )
            pages = Path(self.get_finalized_command("build").build_base) / "man1"
            script = ROOT / "tools" / "manual_pages.py"
            subprocess.run([sys.executable, script, pages], check=True)
            # where man looks for what is in the directory bin beside it
            files = [str(page) for page in sorted(pages.iterdir())]
            self.distribution.data_files = [("share/man/man1", files)]


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and any Python: its libraries do not use Python."""

    def finalize_options(self) -> None:
        """Name the platform, unless an option does: the libraries need glibc 2.14."""
        super().finalize_options()
        platform = self.plat_name.replace("-", "_")
        if platform.startswith("linux_"):
            platform = f"manylinux2014_{platform.removeprefix('linux_')}"
        self.plat_name = platform
        self.plat_name_supplied = True

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of interpreter, ABI and platform."""
        return "py3", "none", self.plat_name


setup(
    distclass=PlatformDistribution,
    cmdclass={"build_py": BuildWithKernels, "bdist_wheel": PlatformWheel},
)
