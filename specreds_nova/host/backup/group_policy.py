# SPDX-License-Identifier: Apache-2.0
"""Nova's late check of server groups, skipped for servers whose promoted backup runs here.

While several members of an affinity group are recovered from one host, Nova still has the others
on that host, and would refuse to adopt the first one elsewhere. A server that serves already
cannot be refused, and the engine has chosen the host with the group in mind.
"""

from collections.abc import Callable
import functools
from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from specreds_nova.host import signatures
from specreds_nova.host.backup import journal as journals

LOG = logging.getLogger(__name__)

_AFFINITY = 'Affinity'


def install(compute: Any, journal: journals.Journal) -> None:
    """Make nova-compute skip the check for promoted backups.

    :param compute: nova.compute.manager.ComputeManager
    """
    validate = compute._validate_instance_group_policy
    compute._validate_instance_group_policy = functools.partial(_validate, validate, journal)


def _validate(validate: Callable[..., Any], journal: journals.Journal, *args: Any,
              **kwargs: Any) -> Any:
    try:
        return validate(*args, **kwargs)
    except nova_exception.GroupAffinityViolation as exc:
        instance = signatures.arguments(validate, *args, **kwargs)['instance']
        record = journal.of_instance(instance.uuid)
        if (exc.kwargs.get('policy') != _AFFINITY or record is None
                or record.phase != journals.PROMOTED):
            raise
        LOG.warning('server %s is adopted on this host although other members of its affinity '
                    'group are elsewhere: its promoted backup runs here', instance.uuid)
        return None
