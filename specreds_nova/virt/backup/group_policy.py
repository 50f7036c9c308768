# SPDX-License-Identifier: Apache-2.0
"""Nova's late check of server groups, for servers whose promoted backup runs here already.

While several members of an affinity group are recovered from one host, Nova knows the others on
that host, and would refuse the first one on the host that all of them go to. It is too late to
refuse a server that serves; where backups run the engine has chosen with the group in mind.
"""

from collections.abc import Callable
import functools
import inspect
from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from specreds_nova.virt.backup import journal as journals

LOG = logging.getLogger(__name__)

_AFFINITY = 'Affinity'


def install(compute: Any, journal: journals.Journal) -> None:
    """Have nova-compute pass the check for promoted backups.

    :param compute: nova.compute.manager.ComputeManager
    """
    validate = compute._validate_instance_group_policy
    compute._validate_instance_group_policy = functools.partial(_validate, validate, journal)


def _validate(validate: Callable[..., Any], journal: journals.Journal, *args: Any,
              **kwargs: Any) -> Any:
    try:
        return validate(*args, **kwargs)
    except nova_exception.GroupAffinityViolation as exc:
        instance = inspect.signature(validate).bind(*args, **kwargs).arguments['instance']
        record = journal.of_instance(instance.uuid)
        if (exc.kwargs.get('policy') != _AFFINITY or record is None
                or record.phase != journals.PROMOTED):
            raise
        LOG.warning('server %s is adopted on this host although other members of its affinity '
                    'group are elsewhere: its promoted backup runs here', instance.uuid)
        return None
