"""Archives of packages made in tests, as registries serve them."""

import gzip
import io
import subprocess
import tarfile
import zipfile


def tgz(path, files):
    """Write a .tgz of files, by path; a path may be in it twice."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def zipped(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return path


def deb(path, files, compression="xz"):
    """Write a .deb by the tool of Debian itself."""
    root = path.parent / f"{path.name}.root"
    control = root / "DEBIAN/control"
    control.parent.mkdir(parents=True)
    control.write_text(
        "Package: made\nVersion: 1\nArchitecture: all\nMaintainer: Tests <t@example.org>\n"
        "Description: made in a test\n"
    )
    for name, content in files:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    command = ["dpkg-deb", f"-Z{compression}", "--root-owner-group", "--build", root, path]
    subprocess.run(command, check=True, capture_output=True)
    return path


def gz(content):
    return gzip.compress(content, mtime=0)
