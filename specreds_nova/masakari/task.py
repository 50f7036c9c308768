# SPDX-License-Identifier: Apache-2.0
"""A task for Masakari's recovery flows that lets the engine recover a host.

Masakari loads it if its configuration names it. Nothing else imports this module, so that nothing
else needs Masakari.
"""

from typing import Any

from keystoneauth1 import loading
from keystoneauth1 import session
from masakari import exception
import masakari.conf
from masakari.engine.drivers.taskflow import base
from oslo_log import log as logging

from specreds_nova.masakari import hand_over
from specreds_nova.osc import client as engine_client

LOG = logging.getLogger(__name__)
CONF = masakari.conf.CONF

# Timeout of a request, in seconds.
_TIMEOUT = 60.0


class HandOverHost(base.MasakariTask):
    """Have the engine recover the servers of a host, and wait until it has.

    :param context: Masakari's
    :param novaclient: not used
    """

    def __init__(self, context: Any, novaclient: Any, **kwargs: Any) -> None:
        kwargs['requires'] = ['host_name', 'notification_uuid']
        super().__init__(context, novaclient, **kwargs)

    def execute(self, host_name: str, notification_uuid: str) -> None:
        """Hand the host over.

        :raises HostRecoveryFailureException: the engine cannot be reached, does not act on the
            host, or could not recover a server; the recoveries that it has started continue
        """
        try:
            hand_over.hand_over(engine_client.Client(_session()), host_name, notification_uuid,
                                self.update_details)
        except hand_over.HandOverFailedError as exc:
            LOG.error('notification %s: %s', notification_uuid, exc)
            self.update_details(str(exc), 1.0)
            raise exception.HostRecoveryFailureException(message=str(exc)) from exc


def _session() -> session.Session:
    """Return a session of the account with which Masakari uses Nova."""
    auth: Any = loading.get_plugin_loader('password').load_from_options(
        auth_url=CONF.os_privileged_user_auth_url, username=CONF.os_privileged_user_name,
        password=CONF.os_privileged_user_password, project_name=CONF.os_privileged_user_tenant,
        user_domain_name=CONF.os_user_domain_name,
        project_domain_name=CONF.os_project_domain_name, system_scope=CONF.os_system_scope)
    return session.Session(auth, verify=not CONF.nova_api_insecure
                           and (CONF.nova_ca_certificates_file or True),
                           timeout=_TIMEOUT)
