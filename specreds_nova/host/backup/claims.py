# SPDX-License-Identifier: Apache-2.0
"""Claims in Placement for the resources of backups, with the backup's id as consumer.

A claim keeps the scheduler from using what a backup needs. The evacuation that adopts the backup
claims for the server itself; the backup's claim is released right before.
"""

from collections.abc import Callable
from typing import Any

from keystoneauth1 import exceptions
from nova import objects
import nova.conf
from nova.scheduler import utils as scheduler_utils
from nova.scheduler.client import report

from specreds_nova import exception
from specreds_nova.host import releases

CONF = nova.conf.CONF

# The first version in which a consumer has a type: the claim is not a server's.
_VERSION = '1.38'
_CONSUMER_TYPE = 'SPECREDS_BACKUP'


class Claims:
    """The claims on one host.

    :param provider: returns the UUID of the host's resource provider
    """

    def __init__(self, provider: Callable[[], str]) -> None:
        self._provider = provider

    def warm_up(self, context: Any) -> None:
        """Get a token and find Placement, before the first claim needs them."""
        self._ask('get', context, self._provider())

    def claim(self, context: Any, backup_id: str, instance: Any) -> None:
        """Claim the resources of a server. May be repeated.

        :raises ServerNotEligible: the host has not enough resources left
        :raises PlacementUnknown: Placement does not answer
        """
        resources = _resources(instance)
        payload = {
            'allocations': {self._provider(): {'resources': resources}},
            'project_id': instance.project_id,
            'user_id': instance.user_id,
            'consumer_generation': None,
            'consumer_type': _CONSUMER_TYPE,
        }
        answer = self._ask('put', context, backup_id, payload)
        if answer.status_code == 204:
            return
        if answer.status_code == 409 and 'consumer generation' in answer.text:
            # An earlier start of the same backup claimed them, and was cut off.
            return
        if answer.status_code == 409:
            raise exception.ServerNotEligible(
                f'this host has not enough of {resources} left: choose another host')
        raise exception.StartFailed(
            f'Placement refuses the claim of backup {backup_id}: {answer.text}')

    def release(self, context: Any, backup_id: str) -> None:
        """Release a claim. Do nothing if there is none.

        :raises PlacementUnknown: Placement does not answer
        :raises UndoIncomplete: Placement refuses
        """
        answer = self._ask('delete', context, backup_id)
        if answer.status_code not in (204, 404):
            raise exception.UndoIncomplete(
                f'Placement refuses to release the claim of backup {backup_id}: {answer.text}')

    def withdraw(self, context: Any, instance_uuid: str) -> None:
        """Remove the claim that an evacuation made on this host for a server, as Nova does."""
        report.report_client_singleton().remove_provider_tree_from_instance_allocation(
            context, instance_uuid, self._provider())

    def _ask(self, method: str, context: Any, backup_id: str, *body: Any) -> Any:
        client = report.report_client_singleton()
        try:
            return getattr(client, method)(f'/allocations/{backup_id}', *body, version=_VERSION,
                                           global_request_id=context.global_id)
        except exceptions.ClientException as exc:
            raise exception.PlacementUnknown(
                f'Placement does not answer for backup {backup_id} ({exc}): try again when it '
                f'does') from exc


def _resources(instance: Any) -> Any:
    """Return what Nova would claim on this host for a server.

    Pinned CPUs, which the image may demand, are PCPU on a host with dedicated CPUs, and VCPU on
    one without: Nova's scheduler chooses that if no host has enough PCPU.
    """
    is_bfv = not instance.image_ref
    if instance.numa_topology is None:
        return releases.resources_from_flavor_and_bfv(instance.flavor, is_bfv=is_bfv)
    return scheduler_utils.ResourceRequest.from_request_spec(
        objects.RequestSpec(flavor=instance.flavor, image=instance.image_meta, is_bfv=is_bfv),
        enable_pinning_translate=bool(CONF.compute.cpu_dedicated_set)).merged_resources()
