# SPDX-License-Identifier: Apache-2.0
"""A real Ceph on one machine: monitors, manager and BlueStore OSDs, by default on the loopback."""

from collections.abc import Sequence
import dataclasses
import json
import pathlib
import shutil
import socket
import time
from typing import Any

from cloud import caps
from cloud import ceph_format
from cloud import commands
from cloud import deadline
from cloud import directory
from cloud import layout
from cloud import processes
from cloud import shares

VOLUMES = 'volumes'
_CLEAN_TIMEOUT = 180.0


@dataclasses.dataclass(frozen=True)
class Status:
    """The state of a cluster."""

    processes: list[processes.Process]
    health: str
    osds_up: int
    pgs: int
    pgs_clean: int


class Ceph:
    """One cluster in one data directory.

    A parameter that is not given is taken from the cluster in the directory, or has its default if
    there is none.

    :param data_dir: directory of everything that the cluster keeps
    :param port: first of the 100 ports that it uses
    :param osds: number of OSDs
    :param ipv6: listen on ::1 instead of 127.0.0.1
    :param pg_num: placement groups of a pool unless said otherwise
    :param osd_bytes: size of an OSD's (sparse) file in bytes
    :param address: listen on this IPv4 address of the machine instead of 127.0.0.1
    :param monitors: number of monitors, by default 1
    :raises CloudError: a value differs from the value of the cluster in the directory
    """

    def __init__(self, data_dir: str | pathlib.Path, port: int | None = None,
                 osds: int | None = None, ipv6: bool | None = None, pg_num: int | None = None,
                 osd_bytes: int | None = None, address: str | None = None,
                 monitors: int | None = None) -> None:
        self.files = layout.Layout(pathlib.Path(data_dir))
        options: dict[str, Any] = {name: value for name, value in (
            ('port', port), ('osds', osds), ('ipv6', ipv6), ('pg_num', pg_num),
            ('osd_bytes', osd_bytes), ('host', address), ('monitors', monitors))
            if value is not None}
        saved = self.files.load()
        self.settings = dataclasses.replace(saved or layout.Settings(), **options)
        self.settings.check()
        if saved and saved != self.settings:
            differing = ', '.join(f'{name} {getattr(saved, name)}' for name in options
                                  if getattr(saved, name) != options[name])
            raise commands.CloudError(
                f'the cluster in {self.files.root} was created with {differing}: leave the '
                'option out, or wipe the cluster first')
        self._supervisor = processes.Supervisor(self.files.run, self.files.log, shares.STORAGE)

    @property
    def conf(self) -> pathlib.Path:
        """The configuration file of `client.cinder`."""
        return self.files.client_conf

    @property
    def admin_conf(self) -> pathlib.Path:
        """The configuration file of `client.admin`."""
        return self.files.admin_conf

    def up(self, progress: commands.Progress = commands.silent) -> None:
        """Create the cluster if need be, start what is not running, wait until all is clean.

        :raises CloudError: it could not; the message names the log to read
        """
        directory.check_ours(self.files.settings, self.files.lock, 'cluster')
        self.files.root.mkdir(parents=True, exist_ok=True)
        with directory.locked(self.files.lock):
            if not self.files.formatted.exists():
                self._create(progress)
            self._supervisor.start({name: processes.Program(self._command(name))
                                    for name in self.settings.daemons})
            monitors = [f'mon.{name}' for name in self.settings.monitor_addresses]
            progress(f'starting {", ".join(monitors)}')
            for name in monitors:
                self._supervisor.start_daemon(name, wait=False)
            new = VOLUMES not in self.pools()
            if new:
                self._introduce()
            progress(f'starting the manager and {self.settings.osds} OSDs')
            for name in self.settings.daemons[len(monitors):]:
                self._supervisor.start_daemon(name, wait=False)
            if new:
                progress(f'creating pool {VOLUMES}')
                self.create_pool(VOLUMES, grant=False)
            progress('waiting for all placement groups to be clean')
            self.wait_clean()

    def down(self, progress: commands.Progress = commands.silent) -> None:
        """Stop all daemons and keep the data."""
        if not self.files.root.exists():
            return
        with directory.locked(self.files.lock):
            self._stop(progress)

    def wipe(self, progress: commands.Progress = commands.silent) -> None:
        """Stop all daemons and remove the data directory.

        :raises CloudError: the directory holds something that is not a cluster
        """
        directory.wipe(self.files.settings, self.files.lock, 'cluster',
                       lambda: self._stop(progress))

    def status(self) -> Status:
        """Return the state of the cluster; health is `DOWN` if its daemons do not run."""
        running = self._supervisor.processes()
        if not any(process.name.startswith('mon.') and process.pid for process in running):
            return Status(running, 'DOWN', 0, 0, 0)
        answer = self.admin_json(['status'])
        pgs = answer['pgmap']
        clean = sum(state['count'] for state in pgs.get('pgs_by_state', [])
                    if {'active', 'clean'} <= set(state['state_name'].split('+')))
        return Status(running, answer['health']['status'], answer['osdmap']['num_up_osds'],
                      pgs['num_pgs'], clean)

    def wait_clean(self, timeout: float = _CLEAN_TIMEOUT) -> None:
        """Wait until every OSD is up and every placement group is active and clean.

        :param timeout: seconds on a machine that has nothing else to do
        :raises CloudError: it was not by then
        """
        limit = deadline.Deadline(timeout)
        while True:
            status = self.status()
            if status.osds_up == self.settings.osds and 0 < status.pgs == status.pgs_clean:
                return
            if limit.passed:
                raise commands.CloudError(
                    f'after {limit.elapsed:.0f} s {status.osds_up} of '
                    f'{self.settings.osds} OSDs are up and {status.pgs_clean} of '
                    f'{status.pgs} placement groups are clean; '
                    f'see {self.files.log}')
            time.sleep(0.3)

    def start_daemon(self, name: str) -> None:
        """Start a daemon, such as `osd.0`, that was stopped or killed."""
        self._supervisor.start_daemon(name)

    def signal_daemon(self, name: str, number: int) -> None:
        """Send a signal to a daemon, such as SIGSTOP."""
        self._supervisor.signal_daemon(name, number)

    def kill_daemon(self, name: str) -> None:
        """Kill a daemon at once (SIGKILL); it stays dead."""
        self._supervisor.kill_daemon(name)

    def admin(self, args: Sequence[str], timeout: float = 60.0) -> str:
        """Run `ceph` as the administrator and return what it prints.

        :param args: words behind `ceph`
        :param timeout: seconds on a machine that has nothing else to do
        :raises CloudError: it failed or took too long
        """
        return commands.run(['ceph', '--conf', str(self.admin_conf), '--name', 'client.admin',
                             '--connect-timeout', str(int(timeout)), *args],
                            timeout=timeout + 5)

    def admin_json(self, args: Sequence[str], timeout: float = 60.0) -> Any:
        """Run :meth:`admin` for a command that prints JSON, and return the parsed answer."""
        return json.loads(self.admin([*args, '--format', 'json'], timeout))

    def blocklist(self) -> set[str]:
        """Return the addresses of the clients that are on the blocklist."""
        # The command writes its status as well, before or behind the JSON.
        listed = self.admin(['osd', 'blocklist', 'ls', '--format', 'json'])
        entries, _end = json.JSONDecoder().raw_decode(listed, listed.index('['))
        return {entry['addr'] for entry in entries}

    def pools(self) -> list[str]:
        """The names of all pools."""
        names: list[str] = self.admin_json(['osd', 'pool', 'ls'])
        return names

    def create_pool(self, name: str, pg_num: int | None = None, erasure: bool = False,
                    grant: bool = True) -> None:
        """Make a pool for RBD.

        :param pg_num: its placement groups; None for the cluster's default
        :param erasure: erasure-coded (k=2, m=1) with overwrites, to be used as a data pool
        :param grant: let `client.cinder` use it; only a connection made afterwards can
        :raises CloudError: it could not be created
        """
        count = str(pg_num or self.settings.pg_num)
        if erasure:
            profile = ['k=2', 'm=1', 'crush-failure-domain=osd']
            self.admin(['osd', 'erasure-code-profile', 'set', name, *profile])
            self.admin(['osd', 'pool', 'create', name, count, count, 'erasure', name])
            self.admin(['osd', 'pool', 'set', name, 'allow_ec_overwrites', 'true'])
            self.admin(['osd', 'pool', 'application', 'enable', name, 'rbd'])
        else:
            self.admin(['osd', 'pool', 'create', name, count, count, 'replicated'])
            commands.run(['rbd', '--conf', str(self.admin_conf), '--id', 'admin',
                          'pool', 'init', name])
        if grant:
            self._grant()

    def delete_pool(self, name: str) -> None:
        """Remove a pool with everything in it."""
        self.admin(['osd', 'pool', 'rm', name, name, '--yes-i-really-really-mean-it'])
        if name in self.admin_json(['osd', 'erasure-code-profile', 'ls']):
            self.admin(['osd', 'erasure-code-profile', 'rm', name])
        self._grant()

    def _grant(self) -> None:
        """Grant `client.cinder` access to exactly the existing pools."""
        grants = caps.cinder(self.pools())
        self.admin(['auth', 'caps', 'client.cinder',
                    *(word for item in grants.items() for word in item)])

    def _create(self, progress: commands.Progress) -> None:
        """Make the stores; whatever an interrupted attempt left holds no data and is removed."""
        self._check_address()
        self.files.save(self.settings)
        for path in self.files.root.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path not in (self.files.lock, self.files.settings):
                path.unlink()
        ceph_format.write_confs(self.files, self.settings)
        ceph_format.create(self.files, self.settings, progress)

    def _check_address(self) -> None:
        """:raises CloudError: there is no such address, or something else listens on the ports"""
        family = socket.AF_INET6 if self.settings.ipv6 else socket.AF_INET
        host = self.settings.address.strip('[]')
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
            with probe:
                probe.bind((host, 0))
        except OSError as exc:
            raise commands.CloudError(
                f'this kernel has no usable {host} ({exc.strerror})'
                + ('; IPv6 is disabled' if self.settings.ipv6 else '')) from exc
        directory.check_ports(host, (self.settings.port, self.settings.port + 1),
                              'choose another base port '
                              f'({layout.PORTS} ports from it on are used)')

    def _command(self, daemon: str) -> list[str]:
        kind, _, number = daemon.partition('.')
        return [f'ceph-{kind}', '-f', '--id', number, '--conf', str(self.files.daemon_conf)]

    def _introduce(self) -> None:
        """Set options at the monitor that a configuration file cannot hold."""
        for number in range(self.settings.osds):
            self.admin(['osd', 'new', self.settings.osd_uuid(number)])
        # Health metrics of disks that do not exist would make a pool of their own. Forced,
        # because the monitor knows the manager's options only after the manager's first start.
        self.admin(['config', 'set', 'mgr', 'mgr/devicehealth/enable_monitoring', 'false',
                    '--force'])
        self.admin(['osd', 'set-require-min-compat-client', 'mimic'])
        # A manager's module that is always on may need a Python package that the distribution
        # does not install beside it. No test uses one.
        self.admin(['health', 'mute', 'MGR_MODULE_DEPENDENCY', '--sticky'])

    def _stop(self, progress: commands.Progress) -> None:
        for process in reversed(self._supervisor.processes()):
            if process.pid:
                progress(f'stopping {process.name}')
                self._supervisor.stop_daemon(process.name)
        self._supervisor.stop()
