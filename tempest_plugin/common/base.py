# SPDX-License-Identifier: Apache-2.0
"""Base class of all tests: credentials, waiting, volumes and superpositions."""

from collections.abc import Callable
import functools
import time
from typing import Any

from tempest import config
from tempest.lib import exceptions
from tempest.lib.common.utils import data_utils

from tempest_plugin.common import microversions

CONF = config.CONF

# States in which only a merge may end a superposition.
DECIDED = ('promoted', 'merging', 'merged')


class BaseTest(microversions.MicroversionTest):
    """A test on a cloud with SpecREDS, which removes its volumes and superpositions at its end.

    Volumes belong to ``owner``; superpositions are created by an administrator.
    """

    credentials: list[str | list[str]] = ['primary', 'admin']
    # Required features, by the names of their options.
    features: tuple[str, ...] = ('superpositions',)

    @classmethod
    def skip_checks(cls) -> None:
        """Skip all tests of the class if the cloud lacks a service or feature."""
        super().skip_checks()
        for service in ('specreds', 'cinder'):
            if not getattr(CONF.service_available, service):
                raise cls.skipException(f'[service_available] {service} is not set')
        for feature in cls.features:
            if not CONF.specreds[feature]:
                raise cls.skipException(f'[specreds] {feature} is not set')

    @classmethod
    def setup_credentials(cls) -> None:
        """Create projects without networks, unless the tests make servers."""
        if not cls.network_resources_wanted():
            cls.set_network_resources()
        super().setup_credentials()

    @classmethod
    def network_resources_wanted(cls) -> bool:
        """Report whether the tests make servers."""
        return False

    @classmethod
    def owner(cls) -> Any:
        """Return the clients of the volumes' owner."""
        return cls.os_primary

    @classmethod
    def setup_clients(cls) -> None:
        """Name the clients that most tests use."""
        super().setup_clients()
        cls.superpositions = cls.os_admin.superpositions.SuperpositionsClient()
        cls.volumes = cls.owner().volumes_client_latest

    # Waiting

    def wait(self, what: str, condition: Callable[[], Any], seconds: float | None = None) -> Any:
        """Wait until a function returns a true value, and return that value.

        :param what: the name of the condition, for the failure
        :param seconds: by default [specreds] build_timeout
        """
        seconds = CONF.specreds.build_timeout if seconds is None else seconds
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline:
                self.fail(f'waited {seconds:g} s for {what}')
            time.sleep(CONF.specreds.build_interval)
        return value

    def gone(self, show: Callable[..., Any], *names: str) -> bool:
        """Report whether a request for an object returns 404."""
        try:
            show(*names)
        except exceptions.NotFound:
            return True
        return False

    # Volumes

    def make_volume(self, **more: Any) -> str:
        """Create a volume, and return its id."""
        volume_type = CONF.specreds.volume_type or CONF.volume.volume_type
        if volume_type:
            more.setdefault('volume_type', volume_type)
        volume_id: str = self.volumes.create_volume(
            name=data_utils.rand_name(self.__class__.__name__, prefix=CONF.resource_name_prefix),
            size=CONF.volume.volume_size, **more)['volume']['id']
        self.addCleanup(self.remove_volume, volume_id)
        self.wait_volume(volume_id, 'available')
        return volume_id

    def volume(self, volume_id: str) -> dict[str, Any]:
        """Show a volume."""
        shown: dict[str, Any] = self.volumes.show_volume(volume_id)['volume']
        return shown

    def wait_volume(self, volume_id: str, status: str) -> None:
        """Wait until a volume has a status."""
        def found() -> bool:
            now: str = self.volume(volume_id)['status']
            self.assertFalse('error' in now and now != status, f'volume {volume_id} is {now}')
            return now == status
        self.wait(f'volume {volume_id} to be {status}', found)

    def remove_volume(self, volume_id: str) -> None:
        """End the superpositions of a volume, and delete the volume."""
        for superposition in self.superpositions.list_superpositions(
                all_tenants=1, volume_id=volume_id)['superpositions']:
            self.end(superposition['id'])
        self.wait(f'volume {volume_id} to be gone', functools.partial(self._removed, volume_id))

    def _removed(self, volume_id: str) -> bool:
        """Report whether a volume is gone, and delete it if its status permits.

        The deletion fails as long as Ceph considers a client that has died as alive; the caller
        tries again.
        """
        try:
            if self.volume(volume_id)['status'] in ('available', 'error', 'error_deleting'):
                self.volumes.delete_volume(volume_id)
        except exceptions.NotFound:
            return True
        except exceptions.BadRequest:
            return False
        return False

    # Superpositions

    def superpose(self, *volume_ids: str, **more: Any) -> dict[str, Any]:
        """Put volumes into superposition."""
        arguments = {'volume_ids': list(volume_ids)} if volume_ids else {}
        made: dict[str, Any] = self.superpositions.create_superposition(
            **arguments, **more)['superposition']
        self.addCleanup(self.end, made['id'])
        return made

    def end(self, superposition_id: str) -> None:
        """End a superposition in any state; one that has ended is ignored."""
        try:
            state = self.superpositions.show_superposition(
                superposition_id)['superposition']['state']
            if state not in DECIDED:
                self.superpositions.delete_superposition(superposition_id)
        except exceptions.NotFound:
            return
        (self.wait_merged if state in DECIDED else self.wait_ended)(superposition_id)

    def wait_ended(self, superposition_id: str) -> None:
        """Wait until a superposition has ended."""
        self.wait(f'superposition {superposition_id} to end', functools.partial(
            self.gone, self.superpositions.show_superposition, superposition_id))

    def wait_merged(self, superposition_id: str) -> None:
        """Start the merge of a promoted superposition without a server, and wait for its end."""
        def merged() -> bool:
            try:
                self.superpositions.merge_superposition(superposition_id, 'offline')
            except exceptions.NotFound:
                return True
            except exceptions.Conflict:
                return False
            return False
        self.wait(f'superposition {superposition_id} to be merged', merged)
