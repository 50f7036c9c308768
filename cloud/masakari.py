# SPDX-License-Identifier: Apache-2.0
"""Masakari's own engine and API on a cloud for a while, to compare this project with.

No monitor of Masakari runs: the caller notifies Masakari of a death, at the moment of the death.
"""

from collections.abc import Iterator, Mapping
import contextlib
import datetime
import shutil
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_exceptions

from cloud import cloud as openstack_cloud
from cloud import commands
from cloud import processes
from cloud.openstack import accounts
from cloud.openstack import answers
from cloud.openstack import broker
from cloud.openstack import credentials
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import keystone
from cloud.openstack import layout
from cloud.openstack import services

SERVICE_TYPE = 'instance-ha'
# Shortest waits of Masakari: after it disables a service, and before it processes a notification.
SMALLEST: private.Conf = {'DEFAULT': {'wait_period_after_service_update': 0,
                                      'notification_delay_max': 0}}
# The task by which Masakari hands the host to the engine of this project.
HANDED_OVER: private.Conf = private.merged(SMALLEST, {'taskflow_driver_recovery_flows': {
    'host_auto_failure_recovery_tasks': "pre:['specreds_hand_over_host'],main:[],post:[]"}})
FINISHED = 'finished'
_OVER = (FINISHED, 'error', 'failed', 'ignored')
_API, _ENGINE = 'masakari-api', 'masakari-engine'
_API_VERSION = '1.3'
_TIMEOUT = 60.0


class Masakari:
    """The API of a running Masakari, which knows all hosts of its cloud.

    :param api: the administrator's
    """

    def __init__(self, api: adapter.Adapter, hosts: list[str]) -> None:
        self._api = api
        segment = api.post('/segments', json={'segment': {
            'name': 'all', 'recovery_method': 'auto', 'service_type': 'COMPUTE'}}).json()
        for host in hosts:
            api.post(f'/segments/{segment["segment"]["uuid"]}/hosts', json={'host': {
                'name': host, 'type': 'COMPUTE', 'control_attributes': 'SSH'}})

    def notify(self, host: str) -> str:
        """Report the death of a host as a host monitor does, and return the notification's id."""
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        answer = self._api.post('/notifications', json={'notification': {
            'type': 'COMPUTE_HOST', 'hostname': host,
            'generated_time': now.isoformat(timespec='seconds'),
            'payload': {'event': 'STOPPED', 'cluster_status': 'OFFLINE',
                        'host_status': 'NORMAL'}}})
        return str(answer.json()['notification']['notification_uuid'])

    def notification(self, notification_id: str) -> dict[str, Any]:
        """Return a notification, with what its flow has reported."""
        shown: dict[str, Any] = self._api.get(
            f'/notifications/{notification_id}').json()['notification']
        return shown

    def over(self, notification_id: str) -> str | None:
        """Return how a notification has ended; None if it has not."""
        status = str(self.notification(notification_id)['status'])
        return status if status in _OVER else None


@contextlib.contextmanager
def running(cloud: openstack_cloud.Cloud, options: private.Conf) -> Iterator[Masakari]:
    """Run Masakari on a cloud with compute hosts while the context lasts.

    Its database is a new one each time, because Masakari puts a host that dies into maintenance,
    and leaves it there.

    :param options: options other than Masakari's defaults, beside accounts and addresses
    :raises CloudError: it does not start
    """
    files, settings = cloud.files, cloud.settings
    passwords = credentials.load(files)
    database.create_anew(files, settings, passwords, accounts.MASAKARI)
    _write(files, settings, passwords, options)
    commands.run([str(layout.BIN / 'masakari-manage'), '--config-file', str(files.masakari_conf),
                  'db', 'sync'], timeout=180)
    seed = keystone.Seed(cloud.session(), settings, passwords)
    seed.account(accounts.MASAKARI)
    seed.publish(SERVICE_TYPE, 'masakari', settings.url(settings.masakari_port, '/v1'))
    state = files.state / 'masakari'
    state.mkdir(parents=True, exist_ok=True)
    supervisor = processes.Supervisor(state, files.log)
    try:
        supervisor.start(_programs(files, settings))
        for name in (_API, _ENGINE):
            supervisor.start_daemon(name)
        api = adapter.Adapter(cloud.session(), service_type=SERVICE_TYPE, interface='public',
                              additional_headers={
                                  'OpenStack-API-Version': f'instance-ha {_API_VERSION}'})
        answers.wait('Masakari', lambda: api.get('/segments'),
                     (keystone_exceptions.ClientException,), supervisor.log_of(_API), _TIMEOUT)
        yield Masakari(api, settings.host_names)
    finally:
        supervisor.stop()


def conf(files: layout.Layout, settings: layout.Settings, passwords: Mapping[str, str],
         options: private.Conf) -> private.Conf:
    """Return the contents of `masakari.conf`."""
    connection = database.url(settings, accounts.MASAKARI, passwords)
    account = accounts.account(settings, passwords, accounts.MASAKARI)
    return private.merged(
        {'DEFAULT': {
            'transport_url': broker.url(settings, passwords), 'debug': 'false',
            'os_region_name': layout.REGION, 'os_privileged_user_auth_url': settings.auth_url,
            'os_privileged_user_name': accounts.MASAKARI,
            'os_privileged_user_password': passwords[accounts.MASAKARI],
            'os_privileged_user_tenant': accounts.PROJECT},
         'database': {'connection': connection}, 'taskflow': {'connection': connection},
         'keystone_authtoken': {**account, 'www_authenticate_uri': settings.auth_url},
         # Without it Masakari evacuates only servers with the metadata HA_Enabled.
         'host_failure': {'evacuate_all_instances': 'true'},
         'oslo_concurrency': {'lock_path': files.state / 'masakari' / 'lock'}}, options)


def _write(files: layout.Layout, settings: layout.Settings, passwords: Mapping[str, str],
           options: private.Conf) -> None:
    private.write(files.masakari_conf, private.ini(conf(files, settings, passwords, options)))
    # Its API looks for both in one directory.
    shutil.copy(layout.SHARE / 'masakari' / 'api-paste.ini', files.masakari_conf.parent)


def _programs(files: layout.Layout,
              settings: layout.Settings) -> dict[str, processes.Program]:
    return {
        _API: services.wsgi('masakari.wsgi.api', settings, settings.masakari_port,
                            ['--config-file', str(files.masakari_conf)],
                            {'OS_MASAKARI_CONFIG_DIR': str(files.masakari_conf.parent)}),
        _ENGINE: services.service('masakari-engine', files.masakari_conf),
    }
