"""``python -m bench.field.choose``: write a new manifest from what the registries have today.

Packages are those named here, in as many releases as stated, spread evenly from the oldest to the
newest. They are ordered by a hash of their names, so that the packages at the beginning are a
sample of all; releases of one package follow each other. Missing SHA-256 are added by ``lock``.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bench.field.packages import Package, read_manifest, write_manifest

# documentation in many languages, and of one program for several architectures
_MANUALS = re.compile(
    r"-docs?$|-doc-(?:[a-z]{2}(?:-[a-z]{2})?|html|common)$|^(?:aptitude-doc|debian-faq"
    r"|debian-reference|developers-reference|gimp-help|installation-guide|libreoffice-help"
    r"|maint-guide|manpages)\b"
)
_SECTIONS = frozenset(
    {"doc", "golang", "javascript", "lisp", "perl", "php", "python", "ruby", "rust", "tex"}
)
"""Of the main section: that of others has a slash, as in non-free/doc."""

_MIN_INSTALLED_BYTES = 1 << 20
"""Smaller ones take as long to fetch, for little text."""

_MAX_DEBIAN_BYTES = 50 << 20
"""Of an archive: larger ones are the reference of one library, or mostly not text."""

_RELEASES = {"go": 8, "npm": 10, "pypi": 10}
_NEWEST = 40
"""Releases are spread over this many: older ones have little in common with the newest."""

_NAMES = {
    "go": (
        "github.com/aws/aws-sdk-go",
        "github.com/Azure/azure-sdk-for-go",
        "github.com/gohugoio/hugo",
        "github.com/grafana/loki",
        "github.com/hashicorp/terraform-provider-aws",
        "github.com/hashicorp/terraform-provider-google",
        "github.com/influxdata/telegraf",
        "github.com/moby/moby",
        "github.com/oracle/oci-go-sdk/v65",
        "github.com/prometheus/prometheus",
        "github.com/pulumi/pulumi-aws/sdk/v6",
        "github.com/tencentcloud/tencentcloud-sdk-go",
        "google.golang.org/api",
        "k8s.io/api",
        "k8s.io/kubernetes",
    ),
    "npm": (
        "@angular/core",
        "@ant-design/pro-components",
        "@aws-sdk/client-ec2",
        "@babel/standalone",
        "@docusaurus/core",
        "@fluentui/react",
        "@mui/material",
        "@types/node",
        "ant-design-vue",
        "antd",
        "aws-sdk",
        "bootstrap",
        "ckeditor5",
        "core-js",
        "date-fns",
        "echarts",
        "element-plus",
        "eslint",
        "googleapis",
        "highlight.js",
        "lodash",
        "mathjs",
        "mermaid",
        "monaco-editor",
        "next",
        "npm",
        "playwright-core",
        "primeng",
        "prisma",
        "react-native",
        "rxjs",
        "svelte",
        "swagger-ui",
        "tdesign-vue-next",
        "three",
        "tinymce",
        "typescript",
        "vant",
        "vuetify",
        "webpack",
    ),
    "pypi": (
        "Django",
        "ansible",
        "ansible-core",
        "apache-airflow",
        "azure-mgmt-compute",
        "azure-mgmt-network",
        "boto3",
        "botocore",
        "dask",
        "faker",
        "google-cloud-aiplatform",
        "homeassistant",
        "jupyterlab",
        "kubernetes",
        "langchain-community",
        "matplotlib",
        "nltk",
        "notebook",
        "numpy",
        "pandas",
        "plotly",
        "pulumi-azure-native",
        "salt",
        "scikit-learn",
        "scipy",
        "sphinx",
        "sympy",
        "transformers",
    ),
}


class _Listed(NamedTuple):
    """Releases of a package, oldest first."""

    registry: str
    name: str
    releases: Sequence[Package]


def chosen(known: Sequence[Package]) -> list[Package]:
    """Return the packages of a new manifest.

    Releases that are ``known`` stay as they are. A registry is asked only about packages that are
    not, and Debian's own list is read, which has the SHA-256.
    """
    listed = list(_of_debian())
    for registry, names in _NAMES.items():
        for name in names:
            releases = [each for each in known if each[:2] == (registry, name)]
            listed.append(_Listed(registry, name, releases or _newly_listed(registry, name)))
    for missing in (package for package in listed if not package.releases):
        print(f"{missing.registry}:{missing.name}: no releases", file=sys.stderr)
    return [release for package in sorted(listed, key=_position) for release in package.releases]


def evenly(versions: Sequence[str], count: int) -> Sequence[str]:
    """Return ``count`` of the versions, spread evenly, the last one among them.

    >>> evenly(["1", "2", "3", "4", "5"], 2)
    ['2', '5']
    """
    if len(versions) <= count:
        return versions
    return [versions[(i + 1) * len(versions) // count - 1] for i in range(count)]


def _position(listed: _Listed) -> bytes:
    return hashlib.sha256(f"{listed.registry}:{listed.name}".encode()).digest()


def _newly_listed(registry: str, name: str) -> Sequence[Package]:
    versions = [version for version in _VERSIONS[registry](name) if _RELEASE.fullmatch(version)]
    few = evenly(versions[-_NEWEST:], _RELEASES[registry])
    return [Package(registry, name, version, "") for version in few]


_RELEASE = re.compile(r"v?\d+(?:\.\d+)*(?:\+incompatible)?")


def _output(*command: str) -> str:
    """Return what a client prints; nothing if its registry does not have the package."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _of_go(name: str) -> Sequence[str]:
    return _output("go", "list", "-m", "-versions", name).split()[1:]


def _of_npm(name: str) -> Sequence[str]:
    versions: list[str] = json.loads(_output("npm", "view", name, "versions", "--json") or "[]")
    return versions


def _of_pypi(name: str) -> Sequence[str]:
    options = ("--only-binary", ":all:")
    for line in _output("pip3", "index", "versions", name, *options).splitlines():
        if line.startswith("Available versions: "):
            return line.removeprefix("Available versions: ").split(", ")[::-1]
    return []


_VERSIONS = {"go": _of_go, "npm": _of_npm, "pypi": _of_pypi}


def _of_debian() -> Iterator[_Listed]:
    newest: dict[str, Package] = {}
    for paragraph in _output("apt-cache", "dumpavail").split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if "SHA256" in fields and _is_text(fields):
            name = fields["Package"]
            newest.setdefault(name, Package("debian", name, fields["Version"], fields["SHA256"]))
    return (_Listed("debian", name, [package]) for name, package in newest.items())


def _is_text(fields: Mapping[str, str]) -> bool:
    section = fields.get("Section", "")
    named = "/" not in section and _MANUALS.search(fields["Package"]) is not None
    installed_bytes = int(fields.get("Installed-Size", 0)) << 10
    return (
        (named or section in _SECTIONS)
        and installed_bytes >= _MIN_INSTALLED_BYTES
        and int(fields["Size"]) <= _MAX_DEBIAN_BYTES
    )


if __name__ == "__main__":
    write_manifest(chosen(read_manifest()))
