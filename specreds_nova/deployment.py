# SPDX-License-Identifier: Apache-2.0
"""The configuration that enables SpecREDS in an OpenStack, in one place.

The development cloud imports it. Others, such as the DevStack plug-in, read the output of ``python
-m specreds_nova.deployment KIND [NAME=VALUE…]``: a line for each option with its section, its name
and its values, separated by tabs. It needs no package outside of this project.
"""

from collections.abc import Callable, Mapping, Sequence
import inspect
import sys

from specreds_cinder import capabilities
from specreds_nova import cache_policy

# A list is an option that is given several times.
Value = str | Sequence[str]
Conf = Mapping[str, Mapping[str, Value]]

# The engine's API in the catalogue, and the engine in Keystone. It acts for users, and proves to
# other services that it is a service.
SERVICE_TYPE = 'speculative-recovery'
SERVICE_NAME = 'specreds'
USER = 'specreds'
ROLES = ('admin', 'service')

# The driver of a back end without and with SpecREDS.
PLAIN_VOLUME_DRIVER = 'cinder.volume.drivers.rbd.RBDDriver'
VOLUME_DRIVER = 'specreds_cinder.driver.SuperRBDDriver'

_CINDER: Conf = {
    'DEFAULT': {
        'volume_manager': 'specreds_cinder.manager.SuperVolumeManager',
        'volume_api_class': 'specreds_cinder.api.guards.VolumeAPI',
        'backup_api_class': 'specreds_cinder.api.guards.BackupAPI',
        'transfer_api_class': 'specreds_cinder.api.guards.TransferAPI',
        'group_api_class': 'specreds_cinder.api.guards.GroupAPI',
        'osapi_volume_extension': ['cinder.api.contrib.standard_extensions',
                                   'specreds_cinder.api.extension.Superpositions'],
    },
}


def cinder() -> Conf:
    """Return the options in ``cinder.conf`` of all services of Cinder."""
    return _CINDER


def backend(name: str) -> Conf:
    """Return the options in ``cinder.conf`` of each back end that superposes.

    :param name: of its section
    """
    return {name: {'volume_driver': VOLUME_DRIVER}}


def compute() -> Conf:
    """Return the options in ``nova.conf`` of ``nova-compute`` on every host."""
    return {'DEFAULT': {'compute_driver': 'specreds.SpeculativeLibvirtDriver'}}


def engine(lock_path: str) -> Conf:
    """Return the options in ``specreds-engine.conf`` beside broker, database and account.

    :param lock_path: directory for the engine's locks
    """
    return {
        'keystone_authtoken': {'service_token_roles': 'service',
                               'service_token_roles_required': 'true'},
        'oslo_concurrency': {'lock_path': lock_path},
        'oslo_messaging_notifications': {'driver': 'messagingv2',
                                         'topics': 'versioned_notifications'},
    }


def clients() -> Conf:
    """Return the options in ``ceph.conf`` of compute hosts.

    They count with Nova's ``disk_cachemodes = network=writeback``
    (:mod:`specreds_nova.cache_policy`).
    """
    return {'client': {cache_policy.OPTION: cache_policy.SAFE}}


def monitors() -> Conf:
    """Return the options of Ceph's monitors.

    A fence waits for their commit, which they delay by up to a second (the default) after the last
    one.
    """
    return {'mon': {'paxos propose interval': '0.1', 'paxos min wait': '0.02'}}


def facts() -> Conf:
    """Return the facts that are in no file, of Keystone, Ceph and plain Cinder."""
    return {'facts': {'service_type': SERVICE_TYPE, 'service_name': SERVICE_NAME, 'user': USER,
                      'roles': ROLES, 'plain_volume_driver': PLAIN_VOLUME_DRIVER,
                      'ceph_mon_caps': capabilities.MON}}


_KINDS: Mapping[str, Callable[..., Conf]] = {
    function.__name__: function
    for function in (cinder, backend, compute, engine, clients, monitors, facts)}


def lines(conf: Conf) -> list[str]:
    """Return a configuration as lines for programs: section, option and values, tab-separated."""
    return ['\t'.join((section, name, *([value] if isinstance(value, str) else value)))
            for section, options in conf.items() for name, value in options.items()]


def main(argv: Sequence[str]) -> int:
    """Print a configuration.

    :param argv: kind of configuration, and its parameters
    :return: the exit status
    """
    kind, *words = argv or ['']
    try:
        function = _KINDS[kind]
        parameters = inspect.signature(function).bind(
            **dict(word.split('=', 1) for word in words))
    except (KeyError, TypeError, ValueError):
        usage = [' '.join((name, *(f'{parameter}=…' for parameter
                                   in inspect.signature(function).parameters)))
                 for name, function in _KINDS.items()]
        print('usage: python -m specreds_nova.deployment', ' | '.join(usage), file=sys.stderr)
        return 2
    print('\n'.join(lines(function(**parameters.arguments))))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
