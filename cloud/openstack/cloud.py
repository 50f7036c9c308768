# SPDX-License-Identifier: Apache-2.0
"""An OpenStack with block storage on one machine: real services, all on the loopback interface."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
import dataclasses
import functools
from importlib import metadata
import pathlib
import time
from typing import Any

import amqp
from keystoneauth1 import exceptions as keystone_exceptions
from keystoneauth1 import session as keystone_session
from keystoneauth1.identity import v3

from cloud import ceph
from cloud import commands
from cloud import directory
from cloud import processes
from cloud.openstack import broker
from cloud.openstack import cinder
from cloud.openstack import credentials
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import keystone
from cloud.openstack import layout
from cloud.openstack import probes
from cloud.openstack import services
from cloud.openstack import storage

_READY_TIMEOUT = 120.0


class Cloud:
    """One cloud in one data directory.

    What is not given is taken from the cloud that is in the directory already, or has its default
    when there is none.

    :param data_dir: everything of the cloud is in it, also its Ceph
    :param port: first of the 200 ports that it uses (100 for OpenStack, 100 for Ceph)
    :param backends: number of back ends on the cloud's own Ceph
    :param extra_backends: back ends elsewhere; may be changed by a later `up`
    :param clustered: one more back end on the cloud's own Ceph, with two volume services; may be
        changed by a later `up`
    :param plain: Cinder without the plug-in; may be changed by a later `up`
    :raises CloudError: a value is out of range, or differs from the cloud in the directory
    """

    def __init__(self, data_dir: str | pathlib.Path, port: int | None = None,
                 backends: int | None = None,
                 extra_backends: Sequence[layout.Backend] | None = None,
                 clustered: bool | None = None, plain: bool | None = None) -> None:
        self.files = layout.Layout(pathlib.Path(data_dir))
        fixed: dict[str, Any] = {name: value for name, value in (
            ('port', port), ('backends', backends)) if value is not None}
        free: dict[str, Any] = {name: value for name, value in (
            ('extra_backends', extra_backends and tuple(extra_backends)),
            ('clustered', clustered), ('plain', plain)) if value is not None}
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
        self.ceph = ceph.Ceph(self.files.ceph, port=self.settings.ceph_port)
        self._supervisor = processes.Supervisor(self.files.run, self.files.log)

    @property
    def log_dir(self) -> pathlib.Path:
        """Where the services' logs are."""
        return self.files.log

    @property
    def rabbit_url(self) -> str:
        """oslo.messaging's URL of the broker; it has a password in it."""
        return broker.url(self.settings, self._passwords)

    def openrc(self, persona: str = 'admin') -> pathlib.Path:
        """The file to source in a shell, for one of :data:`credentials.PERSONAS`."""
        return self.files.openrc(persona)

    def environment(self, persona: str = 'admin') -> dict[str, str]:
        """The environment of a program that acts as a persona, such as `openstack`."""
        return credentials.environment(self.settings, persona, self._passwords[persona])

    def session(self, persona: str = 'admin') -> keystone_session.Session:
        """A session of keystoneauth for HTTP requests as a persona."""
        return keystone_session.Session(auth=v3.Password(
            auth_url=self.settings.auth_url, username=persona,
            password=self._passwords[persona], user_domain_id='default',
            project_name=credentials.PERSONAS[persona].project, project_domain_id='default'))

    def up(self, progress: commands.Progress = commands.silent) -> None:
        """Create the cloud if need be, start what is not running, wait until all of it works.

        :raises CloudError: it could not; the message names the log to read
        """
        directory.check_ours(self.files.settings, self.files.lock, 'cloud')
        self.files.root.mkdir(parents=True, exist_ok=True)
        with directory.locked(self.files.lock):
            self._prepare()
            with futures.ThreadPoolExecutor() as pool:
                tasks = functools.partial(self._submit, pool, progress)
                store = tasks(self._start_storage)
                queues = tasks(self._start_broker)
                self._start_database(progress)
                tables = tasks(self._prepare_cinder)
                identity = tasks(self._start_keystone)
                _all([tables, queues])
                progress('starting Cinder')
                self._start(services.CINDER_API, services.CINDER_SCHEDULER)
                store.result()
                self._start(*self._volume_services)
                identity.result()
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
        """What each service is doing, in the order in which they start."""
        running = self._supervisor.processes()
        found = probes.Probes(self.files, self.settings, self._passwords, running,
                              self._supervisor.log_of, cinder.Api(self.session()),
                              cinder.queues(self.backends))
        return [self._ceph_check(), *map(found.check, self.programs)]

    def wait_ready(self, timeout: float = _READY_TIMEOUT) -> None:
        """Wait until a volume could be created on every back end.

        :param timeout: seconds
        :raises CloudError: it could not by then
        """
        deadline = time.monotonic() + timeout
        while missing := self._missing():
            if time.monotonic() > deadline:
                raise commands.CloudError(f'after {timeout:g} s: {missing}; '
                                          '`./run cloud status` says more')
            time.sleep(0.2)
        cinder.Api(self.session()).make_types(self.backends)

    def _missing(self) -> str:
        """What is in the way of creating a volume; empty if nothing is."""
        pools = set(map(cinder.pool, self.backends))
        try:
            idle = broker.idle(self.settings, self._passwords,
                               cinder.queues(self.backends).values())
            if idle:
                return f'nobody listens to {", ".join(idle)}'
            absent = pools - set(cinder.Api(self.session()).pools())
        except (OSError, amqp.AMQPError, keystone_exceptions.ClientException) as error:
            return str(error).split('\n')[0]
        return f'the scheduler has not heard of {", ".join(sorted(absent))}' if absent else ''

    @property
    def programs(self) -> list[str]:
        """The names of all services, in the order in which they start."""
        return list(services.programs(self.files, self.settings, self.backends))

    def log_of(self, name: str) -> pathlib.Path:
        """The log of a service.

        :raises CloudError: there is no such service, or it has never been started
        """
        if name not in self.programs:
            raise commands.CloudError(f'there is no service {name}; there are: '
                                      f'{", ".join(self.programs)}')
        log = self._supervisor.log_of(name)
        if not log.exists():
            raise commands.CloudError(f'{name} has never been started in {self.files.root}')
        return log

    def start_daemon(self, name: str) -> None:
        """Start a service that was stopped or killed; it may need seconds until it works."""
        self._supervisor.start_daemon(name)

    def stop_daemon(self, name: str) -> None:
        """Stop a service in good order; it stays stopped."""
        self._supervisor.stop_daemon(name)

    def kill_daemon(self, name: str) -> None:
        """Kill a service with all of its processes at once (SIGKILL); it stays dead."""
        self._supervisor.kill_daemon(name)

    def restart_daemon(self, name: str) -> None:
        """Stop a service in good order and start it again."""
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
        """Write down what was chosen, and let supervisord know of it."""
        if not self.files.settings.exists():
            directory.check_ports(
                layout.HOST, self.settings.ports, 'choose another base port '
                f'({layout.PORTS} ports from it on, and as many of Ceph, are used)')
        self.files.root.chmod(0o700)
        for path in (self.files.run, self.files.log, self.files.state):
            path.mkdir(exist_ok=True)
        self.files.save(self.settings)
        credentials.create(self.files)
        credentials.write(self.files, self.settings, self._passwords)
        broker.prepare(self.files, self.settings, self._passwords)
        private.write(self.files.keystone_conf, private.ini(
            keystone.conf(self.files, self.settings, self._passwords)))
        changed = private.write(self.files.cinder_conf, private.ini(
            cinder.conf(self.files, self.settings, self._passwords, self.backends)))
        for backend in self.backends:
            for instance, conf in cinder.process_confs(backend).items():
                private.write(self.files.instance_conf(instance), private.ini(conf))
        self._supervisor.start(services.programs(self.files, self.settings, self.backends))
        if changed:
            self._supervisor.stop_daemons([services.CINDER_API, services.CINDER_SCHEDULER,
                                           *self._volume_services])

    @staticmethod
    def _submit(pool: futures.Executor, progress: commands.Progress,
                task: Callable[[commands.Progress], None]) -> 'futures.Future[None]':
        return pool.submit(task, progress)

    def _start(self, *names: str) -> None:
        for name in names:
            self._supervisor.start_daemon(name, wait=False)

    def _start_storage(self, progress: commands.Progress) -> None:
        self.ceph.up(lambda line: progress(f'ceph: {line}'))
        storage.provision(self.ceph, self._own)
        progress('ceph is up')

    def _start_broker(self, progress: commands.Progress) -> None:
        progress('starting RabbitMQ')
        self._start(services.PORT_MAPPER, services.BROKER)
        broker.wait(self.settings, self._passwords, self._supervisor.log_of(services.BROKER))
        progress('RabbitMQ is up')

    def _start_database(self, progress: commands.Progress) -> None:
        progress('starting MariaDB')
        database.prepare(self.files, self.settings)
        self._start(services.DATABASE)
        database.wait(self.files, self._supervisor.log_of(services.DATABASE))
        database.create(self.files, self._passwords, [
            name for name in database.NAMES if not self.files.done(name).exists()])

    def _prepare_cinder(self, progress: commands.Progress) -> None:
        if self._new('cinder'):
            progress("making Cinder's tables")
            cinder.prepare(self.files)
            self._note('cinder')

    def _start_keystone(self, progress: commands.Progress) -> None:
        if self._new('keystone'):
            progress("making Keystone's tables and keys")
            keystone.prepare(self.files)
            keystone.bootstrap(self.files, self.settings, self._passwords)
            self._note('keystone')
        progress('starting Keystone')
        self._start(services.KEYSTONE)
        self._wait_keystone()
        keystone.Seed(self.session(), self.settings, self._passwords).run()
        progress('Keystone is up')

    def _wait_keystone(self, timeout: float = _READY_TIMEOUT) -> None:
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.session().get_token()
                return
            except keystone_exceptions.ClientException as error:
                if time.monotonic() > deadline:
                    raise commands.CloudError(
                        f'Keystone does not answer ({error}); '
                        f'see {self._supervisor.log_of(services.KEYSTONE)}') from error
                time.sleep(0.2)

    def _new(self, package: str) -> bool:
        """Whether a service's tables are missing, or are those of another release."""
        marker = self.files.done(package)
        return not marker.exists() or marker.read_text() != metadata.version(package)

    def _note(self, package: str) -> None:
        private.write(self.files.done(package), metadata.version(package))

    def _ceph_check(self) -> probes.Check:
        log = self.ceph.files.log
        try:
            status = self.ceph.status()
        except commands.CloudError as error:
            return probes.Check('ceph', False, str(error), log)
        return probes.Check(
            'ceph', status.health != 'DOWN',
            f'{status.health}, {status.osds_up} of {self.ceph.settings.osds} OSDs up', log)

    def _stop(self, progress: commands.Progress) -> None:
        names = self.programs
        clients = names.index(services.KEYSTONE)
        progress('stopping the OpenStack services')
        self._supervisor.stop_daemons(names[clients:])
        with futures.ThreadPoolExecutor() as pool:
            store = pool.submit(self.ceph.down, lambda line: progress(f'ceph: {line}'))
            progress('stopping RabbitMQ and MariaDB')
            self._supervisor.stop_daemons([services.BROKER, services.DATABASE])
            self._supervisor.stop()
            store.result()


def _all(tasks: Iterable['futures.Future[None]']) -> None:
    for task in tasks:
        task.result()
