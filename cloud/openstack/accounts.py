# SPDX-License-Identifier: Apache-2.0
"""The services' accounts in Keystone, and the options with which they log in and check tokens."""

from collections.abc import Iterable, Mapping

from cloud.openstack import files as private
from cloud.openstack import layout
from specreds_nova import deployment

PROJECT = 'service'
# The services act for users, and prove to each other that they are services: all of them as the
# engine does.
ROLES = deployment.ROLES
# Those that a cloud with compute hosts has beside Cinder.
COMPUTE = ('placement', 'nova', 'glance', 'neutron')
# And with engines.
ENGINE = deployment.USER
# The account of Masakari, while it recovers servers for a comparison.
MASAKARI = 'masakari'


def account(settings: layout.Settings, passwords: Mapping[str, str],
            user: str) -> dict[str, private.Value]:
    """The options with which a service logs in.

    :param user: of Keystone
    """
    return {'auth_type': 'password', 'auth_url': settings.auth_url, 'username': user,
            'password': passwords[user], 'project_name': PROJECT, 'user_domain_id': 'default',
            'project_domain_id': 'default', 'region_name': layout.REGION}


def sections(settings: layout.Settings, passwords: Mapping[str, str], user: str,
             peers: Iterable[str] = ()) -> private.Conf:
    """Return the sections of a service's configuration that concern its requests and its peers.

    :param user: its account in Keystone
    :param peers: sections of the services that it calls with its own account
    """
    own = account(settings, passwords, user)
    return {
        'keystone_authtoken': own | {'www_authenticate_uri': settings.auth_url,
                                     'service_token_roles': 'service',
                                     'service_token_roles_required': 'true'},
        'service_user': own | {'send_service_user_token': 'true'},
        **{peer: dict(own) for peer in peers},
    }
