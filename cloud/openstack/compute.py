# SPDX-License-Identifier: Apache-2.0
"""The services of a cloud with compute hosts: Placement, Nova, Glance, Neutron."""

from collections.abc import Callable, Collection, Mapping

from keystoneauth1 import exceptions as keystone_exceptions
from keystoneauth1 import session as keystone_session

from cloud import commands
from cloud.guests import images as guests
from cloud.openstack import files as private
from cloud.openstack import glance
from cloud.openstack import layout
from cloud.openstack import neutron
from cloud.openstack import nova
from cloud.openstack import placement
from cloud.openstack import reported
from cloud.openstack import services


def tables(settings: layout.Settings
           ) -> Mapping[str, tuple[Callable[[layout.Layout], None], tuple[str, ...]]]:
    """Return, for each service, what makes its tables and the programs that use them."""
    return {
        'neutron': (neutron.prepare, services.neutron(settings)),
        'nova': (nova.prepare, services.nova(settings)),
        'glance': (glance.prepare, (services.GLANCE,)),
        'placement': (placement.prepare, (services.PLACEMENT,)),
    }


def write(files: layout.Layout, settings: layout.Settings,
          passwords: Mapping[str, str]) -> list[str]:
    """Write the configurations.

    :return: the services of which it has changed
    """
    changed: list[str] = []
    for path, conf, names in (
            (files.placement_conf, placement.conf, (services.PLACEMENT,)),
            (files.nova_conf, nova.conf, services.nova(settings)),
            (files.glance_conf, glance.conf, (services.GLANCE,)),
            (files.neutron_conf, neutron.conf, services.neutron(settings))):
        if private.write(path, private.ini(conf(files, settings, passwords))):
            changed += names
    if settings.cells > 1 and private.write(
            files.second_cell_conf, private.ini(nova.second_cell(settings, passwords))):
        changed.append(services.SECOND_CONDUCTOR)
    return changed


def workers() -> list[reported.Worker]:
    """The services without an API."""
    return [*nova.workers(), *neutron.workers()]


def seed(session: keystone_session.Session, progress: commands.Progress) -> None:
    """Make the network, the flavours and the images that are missing.

    :param session: the administrator's
    :raises CloudError: one of them was refused, or an image could not be built
    """
    try:
        neutron.Api(session).make_network()
        nova.Api(session).make_flavours()
        for name, guest in guests.GUESTS.items():
            if guest.everywhere:
                provide(session, name, progress)
    except keystone_exceptions.ClientException as exc:
        raise commands.CloudError(f'the cloud could not be furnished: {exc}') from exc


def provide(session: keystone_session.Session, name: str, progress: commands.Progress) -> None:
    """Make the image of a guest, unless it is there.

    :param session: the administrator's
    :raises CloudError: the image could not be built
    """
    glance.Api(session).provide(name, guests.image(name, progress), progress)


def missing(session: keystone_session.Session, hosts: Collection[str]) -> str:
    """Return the reasons why a server cannot be started on each host, empty if there are none.

    :param session: the administrator's
    """
    absent = set(hosts) - set(nova.Api(session).hypervisors())
    if absent:
        return f'Nova has not heard of {", ".join(sorted(absent))}'
    absent = mute(session, hosts)
    return f'Neutron has not heard of {", ".join(sorted(absent))}' if absent else ''


def mute(session: keystone_session.Session, hosts: Collection[str]) -> set[str]:
    """Return the hosts whose Neutron agent has not reported for a while.

    :param session: the administrator's
    """
    return set(hosts) - {agent.host for agent in neutron.Api(session).services()
                         if agent.up and agent.binary in neutron.AGENTS}
