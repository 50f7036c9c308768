# SPDX-License-Identifier: Apache-2.0
"""Start the services of a cloud, and make what they need before they start."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from importlib import metadata

from keystoneauth1 import session as keystone_session

from cloud import ceph
from cloud import commands
from cloud import processes
from cloud.openstack import accounts
from cloud.openstack import broker
from cloud.openstack import cinder
from cloud.openstack import compute
from cloud.openstack import database
from cloud.openstack import engine
from cloud.openstack import files as private
from cloud.openstack import glance
from cloud.openstack import keystone
from cloud.openstack import layout
from cloud.openstack import nova
from cloud.openstack import ovn
from cloud.openstack import services
from cloud.openstack import storage

# The distributions whose names differ from the names of the services in them.
_DISTRIBUTIONS = {'placement': 'openstack-placement'}


class Start:
    """Starts each kind of service of one cloud.

    :param own: back ends on the cloud's own Ceph
    :param session: returns a session of the administrator
    """

    def __init__(self, files: layout.Layout, settings: layout.Settings,
                 passwords: Mapping[str, str], store: ceph.Ceph, own: Sequence[layout.Backend],
                 supervisor: processes.Supervisor,
                 session: Callable[[], keystone_session.Session]) -> None:
        self.files = files
        self.settings = settings
        self.ceph = store
        self.session = session
        self._passwords = passwords
        self._own = own
        self._supervisor = supervisor

    def programs(self, *names: str) -> None:
        """Start programs, without waiting until they run."""
        for name in names:
            self._supervisor.start_daemon(name, wait=False)

    def storage(self, progress: commands.Progress) -> None:
        """Start Ceph, and make the pools and users."""
        self.ceph.up(lambda line: progress(f'ceph: {line}'))
        disks = [] if self.settings.disks == layout.FILES else [nova.POOL]
        storage.provision(self.ceph, self._own, disks)
        for user in {backend.user for backend in self._own}:
            private.write(self.files.keyrings / f'ceph.client.{user}.keyring',
                          self.ceph.files.keyring(f'client.{user}').read_text())
        if self.settings.hosts:
            storage.provision_images(self.ceph, self._own, glance.ceph_conf(self.files), disks)
        progress('ceph is up')

    def broker(self, progress: commands.Progress) -> None:
        """Start RabbitMQ, and wait until it answers."""
        progress('starting RabbitMQ')
        self.programs(services.PORT_MAPPER, services.BROKER)
        broker.wait(self.settings, self._passwords, self._supervisor.log_of(services.BROKER))
        progress('RabbitMQ is up')

    def ovn(self, progress: commands.Progress) -> None:
        """Start OVN's databases if it connects servers, and wait until they answer."""
        if self.settings.hosts and self.settings.ovn:
            progress('starting OVN')
            ovn.prepare(self.files)
            self.programs(*ovn.PROGRAMS)
            ovn.wait(self.settings, self._supervisor.log_of(ovn.NORTHBOUND))

    def database(self, progress: commands.Progress) -> None:
        """Start MariaDB, and make the databases."""
        progress('starting MariaDB')
        database.prepare(self.files, self.settings)
        self.programs(services.DATABASE)
        database.wait(self.files, self._supervisor.log_of(services.DATABASE))
        database.create(self.files, self.settings, self._passwords, [
            name for name in database.services(self.settings)
            if not self.files.done(name).exists()])

    def cinder_tables(self, progress: commands.Progress) -> None:
        """Make Cinder's tables unless they are there."""
        if self._new('cinder'):
            progress("making Cinder's tables")
            cinder.prepare(self.files)
            self._note('cinder')

    def compute(self, name: str, needed: Sequence['futures.Future[None]'],
                progress: commands.Progress) -> None:
        """Make the tables of one of the services around compute hosts, and start it.

        :param needed: services to wait for, the catalogue among them: Nova caches what it lacks
        """
        prepare, programs = compute.tables(self.settings)[name]
        if self._new(name):
            progress(f"making {name.capitalize()}'s tables")
            prepare(self.files)
            self._note(name)
        wait(needed)
        progress(f'starting {name.capitalize()}')
        self.programs(*programs)

    def engines(self, needed: Sequence['futures.Future[None]'],
                progress: commands.Progress) -> None:
        """Make the engines' tables, or bring them up to date, and start them.

        :param needed: what they need
        """
        progress("making the engine's tables")
        engine.prepare(self.files)
        self._note(accounts.ENGINE)
        wait(needed)
        progress('starting the engine')
        self.programs(*services.engines(self.settings))

    def seed(self, progress: commands.Progress) -> None:
        """Make the network, the flavours and the images that are missing."""
        compute.seed(self.session(), progress)

    def keystone(self, progress: commands.Progress) -> None:
        """Start Keystone, and make the users and the catalogue."""
        if self._new('keystone'):
            progress("making Keystone's tables and keys")
            keystone.prepare(self.files)
            keystone.bootstrap(self.files, self.settings, self._passwords)
            self._note('keystone')
        progress('starting Keystone')
        self.programs(services.KEYSTONE)
        keystone.wait(self.session(), self._supervisor.log_of(services.KEYSTONE))
        keystone.Seed(self.session(), self.settings, self._passwords).run()
        progress('Keystone is up')

    def _new(self, service: str) -> bool:
        """Whether a service's tables are missing, or belong to another release."""
        marker = self.files.done(service)
        return not marker.exists() or marker.read_text() != _version(service)

    def _note(self, service: str) -> None:
        private.write(self.files.done(service), _version(service))

def _version(service: str) -> str:
    return metadata.version(_DISTRIBUTIONS.get(service, service))


def wait(tasks: Iterable['futures.Future[None]']) -> None:
    """Wait until all tasks have ended, and raise the error of the first that failed."""
    for task in tasks:
        task.result()
