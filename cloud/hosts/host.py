# SPDX-License-Identifier: Apache-2.0
"""One compute host, and what may happen to it."""

from collections.abc import Callable, Sequence
import contextlib
import json
import pathlib
import signal
import subprocess
import time
from typing import Any

from cloud import commands
from cloud import deadline
from cloud import directory
from cloud import processes
from cloud.hosts import conf
from cloud.hosts import fabric as fabrics
from cloud.hosts import layout as hosts_layout
from cloud.hosts import namespaces
from cloud.hosts import packets
from cloud.hosts import services
from cloud.openstack import files as private

OFF = 'off'
RUNNING = 'running'
HUNG = 'hung'

_TIMEOUT = 30.0
_SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema'


class Host:
    """One host.

    :param fabric: the networks that it is connected with
    :param writer: of its configuration
    """

    def __init__(self, files: hosts_layout.Layout, fabric: fabrics.Fabric,
                 writer: Callable[[], conf.Writer]) -> None:
        self.files = files
        self.name = files.name
        self._fabric = fabric
        self._writer = writer
        self._machine = namespaces.Machine(f'{fabric.namespace}-{self.name}')
        # The services that were sent a signal on purpose.
        self.killed: set[str] = set()

    # State

    @property
    def pid(self) -> int:
        """Its first process, as the machine numbers it; 0 if it is off."""
        try:
            record: dict[str, Any] = json.loads(self.files.record.read_text())
        except FileNotFoundError:
            return 0
        # The number may have been given to another process since.
        pid = int(record['pid'])
        return pid if namespaces.started(pid) == record['started'] else 0

    @property
    def state(self) -> str:
        """:data:`OFF`, :data:`RUNNING` or :data:`HUNG`."""
        pid = self.pid
        if not pid:
            return OFF
        return HUNG if self._machine.frozen(pid) else RUNNING

    @property
    def cuts(self) -> list[str]:
        """The networks from which the host is cut off."""
        return self._fabric.cuts(self.name)

    @property
    def services(self) -> list[processes.Process]:
        """Its services with their process numbers inside the host, none if it is off."""
        return self._supervisor.processes() if self.state == RUNNING else []

    def members(self) -> list[int]:
        """All its processes, as the machine numbers them."""
        return namespaces.members(self.pid)

    def domains(self) -> list[str]:
        """The names of the guests that libvirt has here, running or not.

        :raises CloudError: libvirt does not answer
        """
        return self.virsh('list', '--all', '--name').split()

    def virsh(self, *words: str) -> str:
        """Run virsh in the host, and return its output.

        :raises CloudError: it fails
        """
        return self.run(['virsh', '-q', '-c', 'qemu:///system', *words])

    def path(self, inside: str | pathlib.Path) -> pathlib.Path:
        """Return the machine's path of a path in the host, such as a socket below /run.

        :raises CloudError: the host is off
        """
        return pathlib.Path(f'/proc/{self._running_pid()}/root') / str(inside).lstrip('/')

    @property
    def libvirt_uri(self) -> str:
        """The URI of its libvirtd for programs of the machine."""
        return f'qemu:///system?socket={self.path(services.LIBVIRT_SOCKET)}'

    # Programs

    def argv(self, argv: Sequence[str]) -> list[str]:
        """Return a command that runs in the host.

        :raises CloudError: the host is off or hung
        """
        return namespaces.entered(self._running_pid(), argv)

    def run(self, argv: Sequence[str], timeout: float = 60.0) -> str:
        """Run a program in the host and return its standard output.

        :param timeout: seconds
        :raises CloudError: the host is off or hung, or the program failed
        """
        return commands.run(self.argv(argv), timeout=timeout)

    def popen(self, argv: Sequence[str], **options: Any) -> 'subprocess.Popen[Any]':
        """Start a program in the host, like :class:`subprocess.Popen`.

        :raises CloudError: the host is off or hung
        """
        return subprocess.Popen(self.argv(argv), **options)

    def capture(self, device: str, file: pathlib.Path, expression: str = ''
                ) -> contextlib.AbstractContextManager[None]:
        """Record the packets of one of its network devices for as long as the context lasts.

        :param device: such as the interface of a guest, or `tenant`
        :param file: where the packets are kept
        :param expression: filter, in tcpdump's syntax
        :raises CloudError: the host is off or hung, or there is no such device
        """
        return packets.capture(self.argv(['tcpdump', '-i', device, expression]), file)

    def start(self, service: str) -> None:
        """Start a service that does not run."""
        self._supervisor.start_daemon(service)

    def stop(self, service: str) -> None:
        """Stop a service with SIGTERM; it stays stopped."""
        self._supervisor.stop_daemon(service)

    def restart(self, service: str) -> None:
        """Restart a service with its current configuration."""
        self._writer().write()
        self.stop(service)
        self.start(service)

    def kill_program(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a service.

        If it dies, it is not started again, except for the switch.

        :raises CloudError: it is not running
        """
        pid = self._supervisor.process(name).pid
        self.killed.add(name)
        self._supervisor.signal_daemon(name, number)
        if number == signal.SIGKILL:
            # Until supervisord has noticed the death, a start would find the service running.
            self._wait(name, lambda: all(service.pid != pid for service in self.services
                                         if service.name == name))

    # Faults

    def boot(self, progress: commands.Progress = commands.silent) -> list[str]:
        """Start the host if it is off, and the services that do not run.

        Services that read `nova.conf` are restarted if it has changed.

        :return: the services that were started, which may need seconds until they work
        :raises CloudError: it did not come up; the message says what to read
        """
        self.files.root.mkdir(parents=True, exist_ok=True)
        with directory.locked(self.files.lock):
            return self._boot(progress)

    def _boot(self, progress: commands.Progress) -> list[str]:
        if self.state == HUNG:
            raise commands.CloudError(f'{self.name} is hung: resume it, or kill it first')
        changed = self._writer().write()
        if self.state == OFF:
            progress(f'starting {self.name}')
            self._power_on()
        self._supervisor.reload()
        ready = {services.OVS_DATABASE: self._database_ready, services.OVS: self._switch_ready,
                 services.LIBVIRT: self._libvirt_ready}
        supervisor = self._supervisor
        if changed:
            supervisor.stop_daemons(services.CONFIGURED)
        missing = [name for name in services.programs(self.files)
                   if not supervisor.process(name).pid]
        for name in missing:
            supervisor.start_daemon(name, wait=False)
            self._wait(name, ready.get(name, lambda: True))
        return missing

    def kill(self) -> None:
        """Switch the host off at once, with everything that runs on it.

        :raises CloudError: some processes do not die
        """
        pid = self.pid
        if pid:
            self._machine.kill(pid)
        self._fabric.detach(self.name)
        self.files.record.unlink(missing_ok=True)

    def hang(self) -> None:
        """Freeze everything that runs on the host; the kernel still answers.

        :raises CloudError: the host is off, or some of it cannot be frozen
        """
        self._machine.freeze(self._running_pid())

    def resume(self) -> None:
        """Resume everything that runs on the host.

        :raises CloudError: the host is off
        """
        self._machine.thaw(self._alive())

    def cut(self, control: bool = False, storage: bool = False, tenant: bool = False) -> None:
        """Cut the host off from some networks.

        :raises CloudError: the host is off
        """
        self._alive()
        self._fabric.cut(self.name, _chosen(control, storage, tenant))

    def heal(self, control: bool = False, storage: bool = False, tenant: bool = False) -> None:
        """Connect the host with some networks again, or with all if none is named.

        A host that is off is connected to all when it boots.
        """
        if self.pid:
            self._fabric.heal(self.name,
                              _chosen(control, storage, tenant) or hosts_layout.NETWORKS)

    # Details

    @property
    def _supervisor(self) -> processes.Supervisor:
        return processes.Supervisor(self.path(hosts_layout.RUN), self.files.log)

    def _alive(self) -> int:
        pid = self.pid
        if not pid:
            raise commands.CloudError(f'{self.name} is off; start it with '
                                      f'./run cloud host boot {self.name}')
        return pid

    def _running_pid(self) -> int:
        """Return the host's first process.

        :raises CloudError: the host is off or hung
        """
        pid = self._alive()
        if self._machine.frozen(pid):
            raise commands.CloudError(f'{self.name} is hung; let it go on with '
                                      f'./run cloud host resume {self.name}')
        return pid

    def _power_on(self) -> None:
        database = self.files.etc / 'openvswitch' / services.DATABASE_FILE
        if not database.exists():
            commands.run(['ovsdb-tool', 'create', str(database), _SCHEMA])
        pid = self._machine.start(self.files.init_conf, self.files.log / 'init.out',
                                  lambda pid: self._fabric.attach(self.name, pid,
                                                                      self.files.ethernet))
        private.write(self.files.record, json.dumps(
            {'pid': pid, 'started': namespaces.started(pid)}) + '\n')
        self._wait('supervisord', lambda: self._supervisor.running())

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        limit = deadline.Deadline(_TIMEOUT)
        while not ready():
            if not self.pid:
                raise commands.CloudError(f'{self.name} ended as soon as it started; '
                                          f'see {self.files.log}/init.out')
            if limit.passed:
                raise commands.CloudError(f'{name} on {self.name} does not answer after '
                                          f'{limit.elapsed:.0f} s; '
                                          f'see {self.files.log}/{name}.out')
            time.sleep(0.05)

    def _vsctl(self, *words: str) -> None:
        self.run(['ovs-vsctl', '--timeout=10', *words])

    def _database_ready(self) -> bool:
        if not self.path(services.DATABASE_SOCKET).exists():
            return False
        self._vsctl('--no-wait', 'init', '--', 'set', 'Open_vSwitch', '.',
                    f'external_ids:hostname={self.name}',
                    f'external_ids:system-id={self.files.uuid}',
                    # The machine has few cores and runs many of these daemons.
                    'other_config:n-handler-threads=1', 'other_config:n-revalidator-threads=1',
                    *conf.ovn(self.files))
        return True

    def _switch_ready(self) -> bool:
        self._vsctl('--may-exist', 'add-br', conf.PHYSICAL_BRIDGE, '--', 'set', 'Bridge',
                    conf.PHYSICAL_BRIDGE, 'datapath_type=netdev', '--', '--may-exist',
                    'add-port', conf.PHYSICAL_BRIDGE, hosts_layout.TENANT)
        return not self.files.settings.tunnels or self._tunnels_ready()

    def _tunnels_ready(self) -> bool:
        """Set the address of the tunnels' end here, once the switch has made its device."""
        if not self.path(f'/sys/class/net/{conf.PHYSICAL_BRIDGE}').exists():
            return False
        self.run(['ip', 'address', 'replace', str(self.files.tunnel),
                  'dev', conf.PHYSICAL_BRIDGE])
        self.run(['ip', 'link', 'set', conf.PHYSICAL_BRIDGE, 'up'])
        return True

    def _libvirt_ready(self) -> bool:
        return self.path(services.LIBVIRT_SOCKET).exists()


def _chosen(control: bool, storage: bool, tenant: bool) -> list[str]:
    wanted = {hosts_layout.CONTROL: control, hosts_layout.STORAGE: storage,
              hosts_layout.TENANT: tenant}
    return [name for name in hosts_layout.NETWORKS if wanted[name]]
