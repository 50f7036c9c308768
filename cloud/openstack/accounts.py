# SPDX-License-Identifier: Apache-2.0
"""The services' accounts in Keystone: how they log in there, and how they check who asks them."""

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
    """What a service has in its configuration to be asked, and to ask others.

    :param user: of Keystone, as which it acts
    :param peers: the sections of the services that it asks on its own behalf
    """
    own = account(settings, passwords, user)
    return {
        'keystone_authtoken': own | {'www_authenticate_uri': settings.auth_url,
                                     'service_token_roles': 'service',
                                     'service_token_roles_required': 'true'},
        'service_user': own | {'send_service_user_token': 'true'},
        **{peer: dict(own) for peer in peers},
    }
