"""A real Hadoop on this machine to test on: HDFS with two datanodes, YARN with two nodemanagers.

``python tests/engines/hadoop/cluster.py up|down|status [--folder DIR]``. All processes listen
on 127.0.0.1; the ports are chosen anew by each ``up`` and written to the configuration. Needs Java
17 and, for the first start, Maven, which brings the jars that pom.xml names into
``${XDG_CACHE_HOME:-~/.cache}/mr_dedup``.

The folder then holds ``home``, laid out as mrjob expects HADOOP_HOME to be (bin, lib, etc/hadoop,
logs with userlogs), ``data`` and ``cluster.json``. ``down`` removes it.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent

NODES = 2
"""How many datanodes, and how many nodemanagers."""

NODE_MEMORY_MB = 4096
NODE_VCORES = 4

START_SECONDS = 120
"""How long a daemon may take until it serves."""

_PORTS = (
    "namenode_port",
    "namenode_web_port",
    "resourcemanager_port",
    "resourcemanager_web_port",
    "scheduler_port",
    "tracker_port",
    "admin_port",
    "historyserver_port",
    "historyserver_admin_port",
    "historyserver_web_port",
)

_JVM = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
]


# Python warns of a process that nobody knows of any more; daemons outlive what started them
_STARTED: dict[str, subprocess.Popen[bytes]] = {}


class ClusterError(Exception):
    """The cluster cannot be had; the message says why."""


@dataclass(frozen=True)
class Daemon:
    """A process of the cluster: its name, main class and largest heap."""

    name: str
    main_class: str
    heap_mb: int


@dataclass(frozen=True)
class Work:
    """A process of a job: its id, the nodemanager it runs on, its command line."""

    pid: int
    node: str
    arguments: list[str]

    def is_task(self, kind: str) -> bool:
        """Return whether it is the Java of an attempt at a task, kind ``m`` or ``r``."""
        return any(re.match(rf"attempt_\d+_\d+_{kind}_", word) for word in self.arguments)


_NAMENODE = Daemon("namenode", "org.apache.hadoop.hdfs.server.namenode.NameNode", 256)

DAEMONS = (
    _NAMENODE,
    *(
        Daemon(f"datanode-{n}", "org.apache.hadoop.hdfs.server.datanode.DataNode", 256)
        for n in range(1, NODES + 1)
    ),
    Daemon(
        "resourcemanager",
        "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
        384,
    ),
    *(
        Daemon(f"nodemanager-{n}", "org.apache.hadoop.yarn.server.nodemanager.NodeManager", 256)
        for n in range(1, NODES + 1)
    ),
    Daemon("historyserver", "org.apache.hadoop.mapreduce.v2.hs.JobHistoryServer", 256),
)


def default_folder() -> Path:
    """Return the default folder of the cluster: one a user."""
    return Path(tempfile.gettempdir()) / f"mr_dedup-hadoop-{os.getuid()}"


class Cluster:
    """The cluster of one folder, running or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.home = self.folder / "home"
        self.logs = self.home / "logs"
        self._state = self.folder / "cluster.json"

    @property
    def environment(self) -> dict[str, str]:
        """What to export so that mrjob, and anyone, finds this cluster; PATH is extended."""
        return {
            "HADOOP_HOME": str(self.home),
            "HADOOP_CONF_DIR": str(self.home / "etc" / "hadoop"),
            "HADOOP_LOG_DIR": str(self.logs),
            "PATH": f"{self.home / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }

    @property
    def addresses(self) -> dict[str, str]:
        """The web pages of a cluster that is up, by what they show."""
        ports = self._read_state()
        return {
            "files (namenode)": f"http://127.0.0.1:{ports['namenode_web_port']}",
            "jobs (resourcemanager)": f"http://127.0.0.1:{ports['resourcemanager_web_port']}",
            "past jobs (historyserver)": f"http://127.0.0.1:{ports['historyserver_web_port']}",
        }

    def running(self) -> dict[str, int]:
        """Return the process id of each daemon that runs, by name."""
        marks = {self._mark(daemon.name).encode(): daemon.name for daemon in DAEMONS}
        return {
            marks[argument]: pid
            for pid, arguments, _ in _processes()
            for argument in arguments
            if argument in marks
        }

    def up(self) -> None:
        """Start the cluster unless it is up; return when it takes files and jobs.

        Raises ClusterError, with the last lines of the log that tells why, and leaves nothing
        running then.
        """
        if len(self.running()) == len(DAEMONS):
            return
        self.down()
        lib = fetch_jars()
        java = _java()
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = _free_ports(_PORTS)
        self._state.write_text(json.dumps(ports))
        try:
            self._lay_out(lib, ports)
            self._format(java)
            for daemon in DAEMONS:
                self._start(java, daemon)
            self._await_files(ports["namenode_web_port"])
            self._await_jobs(ports["resourcemanager_web_port"])
            self._await_history(ports["historyserver_web_port"])
        except BaseException:
            self._end_processes()
            raise

    def kill(self, name: str) -> None:
        """Kill a daemon, and what jobs run on a nodemanager, as a node that fails does."""
        pid = self.running()[name]
        on_node = [work for work in self.work() if work.node == name]
        _signal_all([pid, *(work.pid for work in on_node)], signal.SIGKILL)
        while name in self.running():
            time.sleep(0.05)
        started = _STARTED.pop(self._mark(name), None)
        if started is not None:
            started.wait()

    def restore(self, name: str) -> None:
        """Start a daemon that was killed; return when the cluster takes files and jobs again."""
        daemon = next(daemon for daemon in DAEMONS if daemon.name == name)
        ports = self._read_state()
        self._start(_java(), daemon)
        self._await_files(ports["namenode_web_port"])
        self._await_jobs(ports["resourcemanager_web_port"])

    def work(self) -> list[Work]:
        """Return the processes of jobs that run on the nodes now."""
        data = self.folder / "data"
        return [
            Work(pid, cwd.relative_to(data).parts[0], [part.decode() for part in arguments])
            for pid, arguments, cwd in _processes()
            if cwd is not None and data in cwd.parents
        ]

    def past_jobs(self) -> list[dict[str, Any]]:
        """Return the finished jobs, the latest first, as the history server tells of them."""
        base = f"{self.addresses['past jobs (historyserver)']}/ws/v1/history/mapreduce/jobs"
        listed = (_fetch(base)["jobs"] or {}).get("job", [])
        # it makes an object of a list of one
        jobs = listed if isinstance(listed, list) else [listed]
        jobs.sort(key=lambda job: job["submitTime"], reverse=True)
        return [_fetch(f"{base}/{job['id']}")["job"] for job in jobs]

    def properties(self, job_id: str) -> dict[str, str]:
        """Return the configuration that a finished job had."""
        base = f"{self.addresses['past jobs (historyserver)']}/ws/v1/history/mapreduce/jobs"
        listed = _fetch(f"{base}/{job_id}/conf")["conf"]["property"]
        # numbers come as such
        return {entry["name"]: str(entry["value"]) for entry in listed}

    def running_jobs(self) -> list[str]:
        """Return the ids of the applications that have not ended."""
        base = self.addresses["jobs (resourcemanager)"]
        states = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
        listed = (_fetch(f"{base}/ws/v1/cluster/apps?states={states}")["apps"] or {}).get("app", [])
        return [app["id"] for app in (listed if isinstance(listed, list) else [listed])]

    def down(self) -> None:
        """End all processes of the cluster, containers of jobs too, and remove its directory.

        Does nothing where there is no cluster. Raises ClusterError if the folder is not one.
        """
        self._end_processes()
        if not self.folder.exists() or not any(self.folder.iterdir()):
            return
        if not self._state.exists():
            raise ClusterError(f"{self.folder} is no cluster's folder: it holds no cluster.json")
        shutil.rmtree(self.folder)

    def _read_state(self) -> dict[str, int]:
        try:
            ports: dict[str, int] = json.loads(self._state.read_text())
        except FileNotFoundError as error:
            raise ClusterError(f"no cluster in {self.folder}") from error
        return ports

    def _lay_out(self, lib: Path, ports: Mapping[str, int]) -> None:
        conf = self.home / "etc" / "hadoop"
        for folder in (conf, self.home / "bin", self.logs / "userlogs", self.folder / "data/tmp"):
            folder.mkdir(parents=True)
        shutil.copy2(HERE / "bin" / "hadoop", self.home / "bin")
        (self.home / "lib").symlink_to(lib)
        values = {
            "folder": self.folder,
            "home": self.home,
            "nodes": NODES,
            "node_memory_mb": NODE_MEMORY_MB,
            "node_vcores": NODE_VCORES,
            **ports,
        }
        for path in (HERE / "conf").iterdir():
            text = path.read_text()
            # log4j has variables of its own
            filled = Template(text).substitute(values) if path.suffix == ".xml" else text
            (conf / path.name).write_text(filled)

    def _mark(self, name: str) -> str:
        """Return the argument by which a daemon's process is known to be ours."""
        return f"-Dmr_dedup.process={self.folder}:{name}"

    def _command(self, java: Path, daemon: Daemon) -> list[str]:
        return [
            str(java / "bin" / "java"),
            f"-Xmx{daemon.heap_mb}m",
            *_JVM,
            self._mark(daemon.name),
            f"-Dmr_dedup.node={daemon.name}",
            # their web servers unpack pages into it, and leave them there
            f"-Djava.io.tmpdir={self.folder}/data/tmp",
            f"-Dhadoop.home.dir={self.home}",
            f"-Dhadoop.log.dir={self.logs}",
            "-cp",
            f"{self.home}/etc/hadoop:{self.home}/lib/*",
            daemon.main_class,
        ]

    def _log(self, daemon: Daemon) -> Path:
        return self.logs / f"{daemon.name}.log"

    def _format(self, java: Path) -> None:
        with self._log(_NAMENODE).open("wb") as log:
            formatted = subprocess.run(
                [*self._command(java, _NAMENODE), "-format", "-nonInteractive"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._daemon_environment(java),
                check=False,
            )
        if formatted.returncode != 0:
            raise self._failure("the namenode could not be formatted", _NAMENODE)

    def _start(self, java: Path, daemon: Daemon) -> None:
        with self._log(daemon).open("ab") as log:
            process = subprocess.Popen(
                self._command(java, daemon),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._daemon_environment(java),
                # Ctrl-C at the terminal that started it is not for the cluster
                start_new_session=True,
            )
        _STARTED[self._mark(daemon.name)] = process

    def _daemon_environment(self, java: Path) -> dict[str, str]:
        # JAVA_HOME: containers start $JAVA_HOME/bin/java
        return {**os.environ, **self.environment, "JAVA_HOME": str(java)}

    def _await_files(self, port: int) -> None:
        """Wait until HDFS has all datanodes and is out of safe mode; make the user's folders."""
        base = f"http://127.0.0.1:{port}"

        def ready() -> bool:
            names = f"{base}/jmx?qry=Hadoop:service=NameNode,name="
            info = _fetch(f"{names}NameNodeInfo")["beans"][0]
            system = _fetch(f"{names}FSNamesystem")["beans"][0]
            return bool(info["Safemode"] == "" and system["NumLiveDataNodes"] == NODES)

        self._await("HDFS out of safe mode", ready, "namenode", "datanode")
        user = getpass.getuser()
        for folder, permission in (("/tmp", "1777"), (f"/user/{user}", "755")):
            query = f"op=MKDIRS&permission={permission}&user.name={user}"
            _fetch(f"{base}/webhdfs/v1{folder}?{query}", method="PUT")

    def _await_jobs(self, port: int) -> None:
        def ready() -> bool:
            metrics = _fetch(f"http://127.0.0.1:{port}/ws/v1/cluster/metrics")
            return bool(metrics["clusterMetrics"]["activeNodes"] == NODES)

        self._await("the nodemanagers registered", ready, "resourcemanager", "nodemanager")

    def _await_history(self, port: int) -> None:
        def ready() -> bool:
            return bool(_fetch(f"http://127.0.0.1:{port}/ws/v1/history/info"))

        self._await("the history server up", ready, "historyserver")

    def _await(self, what: str, ready: Callable[[], bool], *names: str) -> None:
        """Wait until ``ready``; blame the daemons whose names begin so if it never is."""
        daemons = [daemon for daemon in DAEMONS if daemon.name.startswith(names)]
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                if ready():
                    return
            except (OSError, ValueError, KeyError, IndexError):
                pass  # not serving yet
            for daemon in daemons:
                if self._has_ended(daemon):
                    raise self._failure(f"the {daemon.name} ended", daemon)
            if time.monotonic() > deadline:
                raise self._failure(f"not {what} in {START_SECONDS} s", *daemons)
            time.sleep(0.25)

    def _has_ended(self, daemon: Daemon) -> bool:
        started = _STARTED.get(self._mark(daemon.name))
        if started is not None:
            return started.poll() is not None
        return daemon.name not in self.running()

    def _failure(self, reason: str, *daemons: Daemon) -> ClusterError:
        lines = [reason]
        for daemon in daemons:
            log = self._log(daemon)
            if log.exists():
                tail = log.read_text(errors="replace").splitlines()[-15:]
                lines += [f"the last lines of {log}:", *(f"    {line}" for line in tail)]
        return ClusterError("\n".join(lines))

    def _end_processes(self) -> None:
        """TERM, then KILL, all daemons; then what jobs left running in the folder."""
        daemons = list(self.running().values())
        _signal_all(daemons, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.1)
        # containers may start more, and end by themselves: until none is left
        while remaining := [*self.running().values(), *(work.pid for work in self.work())]:
            _signal_all(remaining, signal.SIGKILL)
            time.sleep(0.1)


def fetch_jars() -> Path:
    """Return the folder of the jars; brings them by Maven unless an earlier call has.

    They appear whole or not at all, and anew when pom.xml changed.
    """
    pom = HERE / "pom.xml"
    namespace = "{http://maven.apache.org/POM/4.0.0}"
    version = ElementTree.parse(pom).findtext(f"{namespace}properties/{namespace}hadoop.version")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mr_dedup"
    jars = cache / f"hadoop-{version}"
    if (jars / "pom.xml").exists() and (jars / "pom.xml").read_bytes() == pom.read_bytes():
        return jars / "lib"
    if shutil.which("mvn") is None:
        raise ClusterError("no mvn command: Maven must bring Hadoop's jars once")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hadoop-", dir=cache) as new:
        command = ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={new}/jars/lib"]
        brought = subprocess.run(
            [*command, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if brought.returncode != 0:
            tail = "\n".join(brought.stdout.splitlines()[-15:])
            raise ClusterError(f"Maven did not bring Hadoop {version}:\n{tail}")
        shutil.copy(pom, f"{new}/jars")
        if jars.exists():
            jars.rename(f"{new}/outdated")
        Path(f"{new}/jars").rename(jars)
    return jars / "lib"


def _java() -> Path:
    """Return the Java home: JAVA_HOME, else that of the java command."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which(f"{home}/bin/java" if home else "java")
    if command is None:
        where = f" in JAVA_HOME, {home}" if home else ""
        raise ClusterError(f"no java command{where}: Hadoop needs Java 17")
    return Path(home) if home else Path(command).resolve().parent.parent


def _free_ports(names: tuple[str, ...]) -> dict[str, int]:
    """Return a port for each name that nobody listens on, below those given to connections."""
    ports: dict[str, int] = {}
    for port in random.sample(range(20000, 32000), 500):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports[names[len(ports)]] = port
        if len(ports) == len(names):
            return ports
    raise ClusterError("no free ports between 20000 and 32000")


def _fetch(url: str, method: str = "GET") -> Any:
    """Return the JSON at a URL of this machine, past any proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, method=method, headers={"Accept": "application/json"})
    with opener.open(request, timeout=10) as response:
        return json.load(response)


def _processes() -> Iterator[tuple[int, list[bytes], Path | None]]:
    """Yield the id, arguments and working folder of each process that is not a zombie."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        try:
            cwd = (entry / "cwd").readlink()
        except OSError:
            cwd = None
        if arguments != [b""]:
            yield int(entry.name), arguments, cwd


def _signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _print_status(cluster: Cluster) -> None:
    running = cluster.running()
    for daemon in DAEMONS:
        print(f"{daemon.name:16} {running.get(daemon.name, 'not running')}")


def _print_how_to_use(cluster: Cluster) -> None:
    for what, address in cluster.addresses.items():
        print(f"# {what}: {address}")
    print(f"# logs: {cluster.logs}")
    for name, value in cluster.environment.items():
        shown = f"{cluster.home / 'bin'}:$PATH" if name == "PATH" else value
        print(f'export {name}="{shown}"')


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=["up", "down", "status"])
    parser.add_argument("--folder", type=Path, default=default_folder(), help="(%(default)s)")
    options = parser.parse_args()
    cluster = Cluster(options.folder)
    try:
        if options.command == "up":
            cluster.up()
            _print_how_to_use(cluster)
        elif options.command == "down":
            cluster.down()
        else:
            _print_status(cluster)
            return 0 if len(cluster.running()) == len(DAEMONS) else 1
    except ClusterError as error:
        print(f"hadoop: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
