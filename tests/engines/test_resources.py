"""The memory that may be taken, by the files of a system in a folder."""

from pathlib import Path

import pytest

from mr_dedup.engines.resources import available_bytes

GB = 1 << 30


@pytest.fixture
def system(tmp_path):
    """Return a function that writes the files of a system with 8 GB available."""

    def write(groups, files):
        for name, text in {"proc/meminfo": "MemTotal: 16777216 kB\nMemFree: 1048576 kB\n"
                           "MemAvailable: 8388608 kB\nHugePages_Total: 0\n",
                           "proc/self/cgroup": groups, **files}.items():  # fmt: skip
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def group(folder, limit, used, inactive=0, version=2):
    limit_name, used_name, field = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }[version]
    return {
        f"{folder}/{limit_name}": f"{limit}\n",
        f"{folder}/{used_name}": f"{used}\n",
        f"{folder}/memory.stat": f"anon 5\n{field} {inactive}\nactive_file 7\n",
    }


V1, V2 = "sys/fs/cgroup/memory", "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {}, 8 * GB),
        ("0::/\n", group(V2, "max", 3 * GB), 8 * GB),
        # a container, which sees its own group as the outermost
        ("0::/\n", group(V2, 4 * GB, 3 * GB), GB),
        ("0::/\n", group(V2, 4 * GB, 4 * GB, inactive=3 * GB), 3 * GB),
        ("0::/\n", group(V2, 4 * GB, 5 * GB), 0),
        # systemd-run -p MemoryMax=2G
        ("0::/user.slice/run.scope\n", group(f"{V2}/user.slice/run.scope", 2 * GB, 0), 2 * GB),
        # a limit of an outer group
        (
            "0::/a/b\n",
            group(f"{V2}/a/b", 6 * GB, 0) | group(f"{V2}/a", 5 * GB, 3 * GB),
            2 * GB,
        ),
        # version 1: no limit is a large number
        ("4:memory:/\n3:cpu:/\n", group(V1, 2**63 - 4096, 0, version=1), 8 * GB),
        ("4:memory:/pod/c1\n0::/\n", group(f"{V1}/pod/c1", 3 * GB, GB, version=1), 2 * GB),
        # a container with the name that its group has outside
        ("4:memory:/docker/c0ffee\n", group(V1, 3 * GB, 2 * GB, GB, version=1), 2 * GB),
        ("0::/../../c\n", group(f"{V2}/c", GB, 0), GB),
    ],
)
def test_the_smallest_of_what_is_left(system, groups, files, expected):
    assert available_bytes(system(groups, files)) == expected


def test_this_machine():
    meminfo = Path("/proc/meminfo").read_text().split()
    assert 0 < available_bytes() <= int(meminfo[meminfo.index("MemTotal:") + 1]) << 10
