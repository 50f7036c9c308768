# SPDX-License-Identifier: Apache-2.0
"""Glance's configuration, its tables, and the images of the guests."""

from collections.abc import Mapping
import pathlib
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_exceptions
from keystoneauth1 import session as keystone_session

from cloud import commands
from cloud.openstack import accounts
from cloud.openstack import broker
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import layout

# Cinder clones a volume from an image that is in a pool of the same Ceph: that takes no time.
POOL = 'images'
CEPH_USER = 'glance'

_STORE = 'rbd'
_TIMEOUT = 60.0
_UPLOAD_TIMEOUT = 600.0
# Property of an image that names its source.
_VERSION = 'specreds_version'


def ceph_conf(files: layout.Layout) -> pathlib.Path:
    """The configuration file of Glance's Ceph user."""
    return files.ceph / f'{CEPH_USER}.conf'


def conf(files: layout.Layout, settings: layout.Settings,
         passwords: Mapping[str, str]) -> private.Conf:
    """Return the contents of `glance-api.conf`."""
    state = files.state / 'glance'
    return private.merged({
        'DEFAULT': {
            'transport_url': broker.url(settings, passwords),
            'enabled_backends': f'{_STORE}:rbd',
            'show_image_direct_url': 'true',
            'node_staging_uri': f'file://{state}/staging',
            'worker_self_reference_url': settings.url(settings.glance_port),
            'debug': 'false',
        },
        'paste_deploy': {
            'flavor': 'keystone',
            'config_file': layout.SHARE / 'glance' / 'glance-api-paste.ini',
        },
        'database': {'connection': database.url(settings, 'glance', passwords)},
        'glance_store': {'default_backend': _STORE},
        _STORE: {'rbd_store_pool': POOL, 'rbd_store_user': CEPH_USER,
                 'rbd_store_ceph_conf': ceph_conf(files),
                 # A hole in the file becomes a hole in the image.
                 'rbd_thin_provisioning': 'true'},
        'os_glance_staging_store': {'filesystem_store_datadir': state / 'staging'},
        'os_glance_tasks_store': {'filesystem_store_datadir': state / 'tasks'},
        'oslo_concurrency': {'lock_path': state / 'lock'},
        'oslo_messaging_notifications': {'driver': 'messagingv2', 'topics': 'notifications'},
    }, accounts.sections(settings, passwords, 'glance'))


def prepare(files: layout.Layout) -> None:
    """Make or update the tables.

    :raises CloudError: `glance-manage` failed
    """
    for directory in ('lock', 'staging', 'tasks'):
        (files.state / 'glance' / directory).mkdir(parents=True, exist_ok=True)
    commands.run([str(layout.BIN / 'glance-manage'), '--config-file', str(files.glance_conf),
                  'db', 'sync'], timeout=180)


class Api:
    """The requests to Glance that are needed to provide the images.

    :param session: the administrator's
    """

    def __init__(self, session: keystone_session.Session) -> None:
        self._api = adapter.Adapter(session, service_type='image', interface='public')

    def provide(self, name: str, file: pathlib.Path, progress: commands.Progress) -> None:
        """Make a public image from a raw file, unless it is there.

        :param file: in a directory whose name tells one version of the image from another
        """
        version = file.parent.name
        known = self._api.get('/v2/images', params={'name': name},
                              timeout=_TIMEOUT).json()['images']
        if any(image.get(_VERSION) == version and image['status'] == 'active'
               for image in known):
            return
        for image in known:
            self._retire(image)
        progress(f'uploading image {name}')
        self._upload(name, version, file)

    def _retire(self, image: dict[str, Any]) -> None:
        """Remove the older image of a name, or rename it if it has clones."""
        path = f'/v2/images/{image["id"]}'
        try:
            self._api.delete(path, timeout=_TIMEOUT)
        except keystone_exceptions.Conflict:
            self._api.patch(path, timeout=_TIMEOUT, json=[
                {'op': 'replace', 'path': '/name', 'value': f'{image["name"]}-old'}],
                headers={'Content-Type': 'application/openstack-images-v2.1-json-patch'})

    def _upload(self, name: str, version: str, file: pathlib.Path) -> None:
        image = self._api.post('/v2/images', json={
            'name': name, 'disk_format': 'raw', 'container_format': 'bare',
            'visibility': 'public', _VERSION: version}).json()
        with file.open('rb') as data:
            self._api.put(f'/v2/images/{image["id"]}/file', data=data, timeout=_UPLOAD_TIMEOUT,
                          headers={'Content-Type': 'application/octet-stream'})
