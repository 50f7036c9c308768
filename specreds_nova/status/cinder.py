# SPDX-License-Identifier: Apache-2.0
"""Checks that Cinder's services on this host use all parts of the plug-in, or none."""

from collections.abc import Iterator

from specreds_cinder import conf as cinder_conf
from specreds_nova import deployment
from specreds_nova.status import files
from specreds_nova.status import findings

DRIVER = deployment.VOLUME_DRIVER
_WANTED = deployment.cinder()['DEFAULT']
_EXTENSIONS = 'osapi_volume_extension'
# The volume manager and the other classes that have to be the plug-in's.
_CLASSES = {name: str(value) for name, value in _WANTED.items() if name != _EXTENSIONS}
_OURS = 'specreds_cinder.'


def backends(config: files.Files) -> list[str]:
    """Return the back ends that use the driver."""
    return [name for name in config.words('DEFAULT', 'enabled_backends')
            if config.get(name, 'volume_driver') == DRIVER]


def in_use(config: files.Files) -> bool:
    """Report whether any part of the plug-in is enabled."""
    return bool(backends(config)) or any(
        value.startswith(_OURS) for name in _WANTED for value in config.all('DEFAULT', name))


def settings(config: files.Files) -> Iterator[findings.Finding]:
    """Check that all parts of the plug-in are enabled, or none."""
    if not in_use(config):
        return
    for name, wanted in _CLASSES.items():
        if config.get('DEFAULT', name) != wanted:
            yield findings.failure(f'{config}: set [DEFAULT] {name} = {wanted}: without it, '
                                   'other operations can change superposed volumes')
    for wanted in _WANTED[_EXTENSIONS]:
        if wanted not in config.all('DEFAULT', _EXTENSIONS):
            yield findings.failure(f'{config}: set [DEFAULT] {_EXTENSIONS} = {wanted}')
    if not backends(config):
        yield findings.warning(f'{config}: no enabled back end has volume_driver = {DRIVER}, so '
                               'no volume can be superposed; correct on a host with only the API')
    if not config.get('coordination', 'backend_url'):
        yield findings.warning(f'{config}: [coordination] backend_url is not set: set it if '
                               "Cinder's services run on more than one host")
    yield from files.judge(config, cinder_conf.GROUP.name, cinder_conf.OPTIONS)
