# SPDX-License-Identifier: Apache-2.0
"""An OpenStack on one machine: real services that are out of reach of other machines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
import contextlib
import dataclasses
import functools
import itertools
import pathlib
from typing import Any

from keystoneauth1 import session as keystone_session
from keystoneauth1.identity import v3

from cloud import ceph
from cloud import commands
from cloud import directory
from cloud import hosts as compute_hosts
from cloud import losses
from cloud import processes
from cloud import shares
from cloud.hosts import services as hosts_services
from cloud.openstack import broker
from cloud.openstack import cinder
from cloud.openstack import compute
from cloud.openstack import contents
from cloud.openstack import credentials
from cloud.openstack import engine
from cloud.openstack import files as private
from cloud.openstack import keystone
from cloud.openstack import layout
from cloud.openstack import nova
from cloud.openstack import probes
from cloud.openstack import readiness
from cloud.openstack import reported
from cloud.openstack import services
from cloud.openstack import start

_READY_TIMEOUT = 240.0


class Cloud:
    """One cloud in one data directory.

    A parameter that is not given is taken from the cloud in the directory, or has its default if
    there is none.

    :param data_dir: directory of everything that the cloud keeps, its Ceph included
    :param port: first of the 200 ports that it uses (100 for OpenStack, 100 for Ceph)
    :param backends: number of back ends on the cloud's own Ceph
    :param hosts: number of compute hosts; with none (the default), there is only block storage
    :param cells: number of Nova's cells, 1 (the default) or 2
    :param firewall: the firewall driver of Neutron's agents on the hosts
    :param network: what connects servers: `ovs` (the default), `dvr` or `ovn`
    :param disks: where Nova keeps disks that are no volumes: `files` (the default) or `rbd`
    :param extra_backends: back ends elsewhere; may be changed by a later `up`
    :param clustered: one more back end on the cloud's own Ceph, with two volume services; may be
        changed by a later `up`
    :param plain: Cinder and Nova without the plug-in; may be changed by a later `up`
    :param engines: number of processes of specreds-engine, where there are compute hosts with the
        plug-in; may be changed by a later `up`
    :raises CloudError: a value is out of range, or differs from the cloud in the directory
    """

    def __init__(self, data_dir: str | pathlib.Path, port: int | None = None,
                 backends: int | None = None,
                 extra_backends: Sequence[layout.Backend] | None = None,
                 clustered: bool | None = None, plain: bool | None = None,
                 hosts: int | None = None, engines: int | None = None,
                 firewall: str | None = None, network: str | None = None,
                 disks: str | None = None, cachemodes: str | None = None,
                 cells: int | None = None, dedicated_cpus: bool | None = None) -> None:
        self.files = layout.Layout(pathlib.Path(data_dir))
        fixed: dict[str, Any] = {name: value for name, value in (
            ('port', port), ('backends', backends), ('hosts', hosts), ('cells', cells),
            ('firewall', firewall), ('network', network), ('disks', disks),
            ('cachemodes', cachemodes), ('dedicated_cpus', dedicated_cpus)) if value is not None}
        free: dict[str, Any] = {name: value for name, value in (
            ('extra_backends', extra_backends and tuple(extra_backends)),
            ('clustered', clustered), ('plain', plain), ('engines', engines)) if value is not None}
        saved = self.files.load()
        for name, value in fixed.items():
            if saved and getattr(saved, name) != value:
                raise commands.CloudError(
                    f'the cloud in {self.files.root} was created with {name} '
                    f'{getattr(saved, name)}: leave the option out, or wipe the cloud first')
        self.settings = dataclasses.replace(saved or layout.Settings(), **fixed, **free)
        self._own = self.files.own_backends(self.settings.backends, self.settings.clustered)
        self.settings.check(self._own)
        self.backends: list[layout.Backend] = [*self._own, *self.settings.extra_backends]
        self.ceph = ceph.Ceph(self.files.ceph, port=self.settings.ceph_port,
                              address=self.settings.storage_host if self.settings.hosts else None)
        self._supervisor = processes.Supervisor(self.files.run, self.files.log)

    @property
    def log_dir(self) -> pathlib.Path:
        """Where the services' logs are."""
        return self.files.log

    @property
    def rabbit_url(self) -> str:
        """oslo.messaging's URL of the broker; it has a password in it."""
        return broker.url(self.settings, self._passwords)

    def alone(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Limit everything but one compute host, the storage and the users to one processor.

        One machine runs the whole cloud here. In production the control plane and other hosts do
        not share the processors of a host.
        """
        others = [host for host in self.hosts if host.name != name]
        return shares.confined(lambda: itertools.chain(
            self._supervisor.members(), *(host.members() for host in others)))

    def openrc(self, persona: str = 'admin') -> pathlib.Path:
        """Return the file to source in a shell, for one of :data:`credentials.PERSONAS`."""
        return self.files.openrc(persona)

    def environment(self, persona: str = 'admin') -> dict[str, str]:
        """Return the environment of a program that acts as a persona, such as `openstack`."""
        return credentials.environment(self.settings, persona, self._passwords[persona])

    def session(self, persona: str = 'admin') -> keystone_session.Session:
        """Return a session of keystoneauth for HTTP requests as a persona."""
        return keystone_session.Session(auth=v3.Password(
            auth_url=self.settings.auth_url, username=persona,
            password=self._passwords[persona], user_domain_id='default',
            project_name=credentials.PERSONAS[persona].project, project_domain_id='default'))

    def provide(self, image: str, progress: commands.Progress = commands.silent) -> None:
        """Make the image of a guest that not every cloud has; do nothing if it is there.

        :raises CloudError: the image could not be built
        """
        compute.provide(self.session(), image, progress)

    @functools.cached_property
    def hosts(self) -> compute_hosts.Hosts:
        """The compute hosts and their networks.

        :raises CloudError: there is no cloud
        """
        return compute_hosts.Hosts(self.files, self.settings, self._passwords, self.backends)

    @property
    def tenant(self) -> compute_hosts.Tenant:
        """A client on the network of the servers."""
        return self.hosts.tenant

    def host(self, name: str) -> compute_hosts.Host:
        """:raises CloudError: there is no such compute host"""
        return self.hosts.host(name)

    def up(self, progress: commands.Progress = commands.silent) -> None:
        """Create the cloud if need be, start what is not running, wait until all of it works.

        :raises CloudError: it could not; the message names the log to read
        """
        directory.check_ours(self.files.settings, self.files.lock, 'cloud')
        self.files.root.mkdir(parents=True, exist_ok=True)
        with directory.locked(self.files.lock):
            self._prepare()
            starts = start.Start(self.files, self.settings, self._passwords, self.ceph,
                                 self._own, self._supervisor, self.session)
            with futures.ThreadPoolExecutor(max_workers=16) as pool:
                tasks = functools.partial(self._submit, pool, progress)
                store = tasks(starts.storage)
                queues = tasks(starts.broker)
                switching = tasks(starts.ovn)
                starts.database(progress)
                tables = tasks(starts.cinder_tables)
                identity = tasks(starts.keystone)
                others = [tasks(functools.partial(starts.compute, name,
                                                  [queues, identity, switching]))
                          for name in compute.tables(self.settings)
                          if self.settings.hosts]
                if self.settings.engine_numbers:
                    others.append(tasks(functools.partial(starts.engines,
                                                          [queues, identity])))
                start.wait([tables, queues])
                progress('starting Cinder')
                starts.programs(services.CINDER_API, services.CINDER_SCHEDULER)
                store.result()
                starts.programs(*self._volume_services)
                start.wait([identity, *others])
                if self.settings.hosts:
                    readiness.wait(self._readiness.silent, _READY_TIMEOUT)
                    seeds = tasks(starts.seed)
                    self.hosts.up(progress)
                    seeds.result()
            progress('waiting for all services')
            self.wait_ready()

    def down(self, progress: commands.Progress = commands.silent) -> None:
        """Stop everything and keep the data."""
        if not self.files.settings.exists():
            return
        with directory.locked(self.files.lock):
            self._stop(progress)

    def wipe(self, progress: commands.Progress = commands.silent) -> None:
        """Stop everything and remove the data directory.

        :raises CloudError: the directory holds something that is not a cloud
        """
        directory.wipe(self.files.settings, self.files.lock, 'cloud',
                       lambda: self._stop(progress))

    def status(self) -> list[probes.Check]:
        """Return the state of each service, in the order in which they start."""
        running = self._supervisor.processes()
        session = self.session()
        owners: dict[str, reported.Api] = {'Cinder': cinder.Api(session),
                                           'Nova': nova.Api(session)}
        prober = probes.Probes(self.files, self.settings, self._passwords, running,
                               self._supervisor.log_of, self._workers, owners)
        # No cloud has a cinder-backup unless somebody asks for one.
        names = [name for name in self.programs
                 if name != services.CINDER_BACKUP or name not in self._stopped()]
        return [self._ceph_check(), *map(prober.check, names),
                *(self.hosts.status() if self.settings.hosts else ())]

    def wait_ready(self, timeout: float = _READY_TIMEOUT) -> None:
        """Wait until a volume could be created on every back end, and a server on every host.

        :param timeout: seconds
        :raises CloudError: it could not by then
        """
        ready = self._readiness
        readiness.wait(ready.missing, timeout, ready.revival(
            lambda host: self.host(host).restart(hosts_services.agent(self.settings))))
        cinder.Api(self.session()).make_types(self.backends)

    def contents(self) -> list[str]:
        """Return a line for each server and superposition of all projects.

        :raises CloudError: an API does not answer
        """
        return contents.lines(self.session()) if self.settings.hosts else []

    @property
    def _workers(self) -> list[reported.Worker]:
        """Return the services that get their requests through a queue."""
        return [*cinder.workers(self.backends),
                *(compute.workers() if self.settings.hosts else ())]

    @property
    def _readiness(self) -> readiness.Readiness:
        return readiness.Readiness(self.settings, self._passwords, self._workers,
                                   list(map(cinder.pool, self.backends)), self.session,
                                   self.hosts.running if self.settings.hosts else list,
                                   self._stopped)

    def _stopped(self) -> list[str]:
        return [process.name for process in self._supervisor.processes()
                if process.state == 'STOPPED']

    @property
    def programs(self) -> list[str]:
        """The names of all services, in the order in which they start."""
        return list(services.programs(self.files, self.settings, self.backends))

    @property
    def logs(self) -> dict[str, pathlib.Path]:
        """The logs by service; one of a compute host is called HOST/SERVICE."""
        return {name: self._supervisor.log_of(name) for name in self.programs} | (
            self.hosts.logs if self.settings.hosts else {})

    def log_of(self, name: str) -> pathlib.Path:
        """The log of a service.

        :raises CloudError: there is no such service, or it has never been started
        """
        logs = self.logs
        if name not in logs:
            raise commands.CloudError(f'there is no service {name}; there are: '
                                      f'{", ".join(logs)}')
        log = logs[name]
        if not log.exists():
            raise commands.CloudError(f'{name} has never been started in {self.files.root}')
        return log

    def losses(self) -> losses.Losses:
        """Return what finds the services that end by themselves from this call on."""
        hosts = self.hosts if self.settings.hosts else ()
        return losses.Losses({
            '': losses.Logs(self.files.log), 'ceph/': losses.Logs(self.ceph.files.log),
            **{f'{host.name}/': losses.Logs(host.files.log, host.killed) for host in hosts}})

    def pid(self, name: str) -> int:
        """The process of a service; 0 if it does not run."""
        return self._supervisor.process(name).pid

    def start_daemon(self, name: str) -> None:
        """Start a service that was stopped or killed; it may need seconds until it works."""
        self._supervisor.start_daemon(name)

    def stop_daemon(self, name: str) -> None:
        """Stop a service with SIGTERM; it stays stopped."""
        self._supervisor.stop_daemon(name)

    def kill_daemon(self, name: str) -> None:
        """Kill a service with all of its processes at once (SIGKILL); it stays dead."""
        self._supervisor.kill_daemon(name)

    @contextlib.contextmanager
    def backups(self) -> Iterator[pathlib.Path]:
        """Run a cinder-backup, and yield the directory of what it writes."""
        self.start_daemon(services.CINDER_BACKUP)
        try:
            self.wait_ready()
            yield self.files.backups
        finally:
            self.stop_daemon(services.CINDER_BACKUP)

    def restart_daemon(self, name: str) -> None:
        """Restart a service."""
        self.stop_daemon(name)
        self.start_daemon(name)

    @functools.cached_property
    def _passwords(self) -> Mapping[str, str]:
        return credentials.load(self.files)

    @property
    def _volume_services(self) -> list[str]:
        return [services.cinder_volume(instance)
                for backend in self.backends for instance in backend.instances]

    def _prepare(self) -> None:
        """Save the settings, and make supervisord read its configuration."""
        if not self.files.settings.exists():
            # Check the loopback even if the services listen elsewhere: this finds a wildcard, too.
            directory.check_ports(
                layout.LOOPBACK, self.settings.ports, 'choose another base port '
                f'({layout.PORTS} ports from it on, and as many of Ceph, are used)')
        self.files.root.chmod(0o700)
        for path in (self.files.run, self.files.log, self.files.state):
            path.mkdir(exist_ok=True)
        self.files.save(self.settings)
        credentials.create(self.files)
        if self.settings.hosts:
            self.hosts.networks_up()
        credentials.write(self.files, self.settings, self._passwords)
        broker.prepare(self.files, self.settings, self._passwords)
        private.write(self.files.keystone_conf, private.ini(
            keystone.conf(self.files, self.settings, self._passwords)))
        changed = private.write(self.files.cinder_conf, private.ini(
            cinder.conf(self.files, self.settings, self._passwords, self.backends)))
        for backend in self.backends:
            for instance, conf in cinder.process_confs(backend).items():
                private.write(self.files.instance_conf(instance), private.ini(conf))
        stale = [services.CINDER_API, services.CINDER_SCHEDULER, services.CINDER_BACKUP,
                 *self._volume_services] if changed else []
        if self.settings.hosts:
            stale += compute.write(self.files, self.settings, self._passwords)
        if self.settings.engine_numbers:
            stale += engine.write(self.files, self.settings, self._passwords)
        self._supervisor.start(services.programs(self.files, self.settings, self.backends))
        self._supervisor.stop_daemons(stale)

    @staticmethod
    def _submit(pool: futures.Executor, progress: commands.Progress,
                task: Callable[[commands.Progress], None]) -> 'futures.Future[None]':
        return pool.submit(task, progress)

    def _ceph_check(self) -> probes.Check:
        log = self.ceph.files.log
        try:
            status = self.ceph.status()
        except commands.CloudError as exc:
            return probes.Check('ceph', False, str(exc), log)
        return probes.Check(
            'ceph', status.health != 'DOWN',
            f'{status.health}, {status.osds_up} of {self.ceph.settings.osds} OSDs up', log)

    def _stop(self, progress: commands.Progress) -> None:
        names = self.programs
        clients = names.index(services.KEYSTONE)
        # Without passwords, no service was ever started.
        hosts = self.hosts if self.settings.hosts and self.files.passwords.exists() else None
        if hosts:
            hosts.down(progress)
        progress('stopping the OpenStack services')
        self._supervisor.stop_daemons(names[clients:])
        with futures.ThreadPoolExecutor() as pool:
            store = pool.submit(self.ceph.down, lambda line: progress(f'ceph: {line}'))
            progress('stopping RabbitMQ and MariaDB')
            self._supervisor.stop_daemons([services.BROKER, services.DATABASE])
            self._supervisor.stop()
            store.result()
        if hosts:
            hosts.networks_down()
