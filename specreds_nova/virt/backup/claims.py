# SPDX-License-Identifier: Apache-2.0
"""What a backup takes of its host, claimed in Placement in the recovery's own name.

So nothing else is put where a backup runs. The evacuation that adopts it claims for the server
itself; the recovery's claim is released right before.
"""

from collections.abc import Callable
from typing import Any

from keystoneauth1 import exceptions
from nova.scheduler.client import report

from specreds_nova import exception
from specreds_nova import releases

# The first version in which a consumer has a type: the claim is no server's.
_VERSION = '1.38'
_CONSUMER_TYPE = 'SPECREDS_BACKUP'


class Claims:
    """The claims of one host.

    :param provider: gives the UUID of the host's resource provider
    """

    def __init__(self, provider: Callable[[], str]) -> None:
        self._provider = provider

    def warm_up(self, context: Any) -> None:
        """Get a token, and find Placement, before there is a hurry."""
        self._ask('get', context, self._provider())

    def claim(self, context: Any, recovery_id: str, instance: Any) -> None:
        """Claim what a server's flavour asks for. May be repeated.

        :raises ServerNotEligible: the host has not so much left
        :raises PlacementUnknown: Placement does not answer
        """
        # Only servers that boot from a volume have backups.
        resources = releases.resources_from_flavor_and_bfv(instance.flavor, is_bfv=True)
        payload = {
            'allocations': {self._provider(): {'resources': resources}},
            'project_id': instance.project_id,
            'user_id': instance.user_id,
            'consumer_generation': None,
            'consumer_type': _CONSUMER_TYPE,
        }
        answer = self._ask('put', context, recovery_id, payload)
        if answer.status_code == 204:
            return
        if answer.status_code == 409 and 'consumer generation' in answer.text:
            # It is there: an earlier start of the same recovery was cut off.
            return
        if answer.status_code == 409:
            raise exception.ServerNotEligible(
                f'this host has not enough left of {resources}: choose another one')
        raise exception.StartFailed(
            f'Placement refuses the claim of recovery {recovery_id}: {answer.text}')

    def release(self, context: Any, recovery_id: str) -> None:
        """Release what was claimed. Nothing happens if nothing is.

        :raises PlacementUnknown: Placement does not answer
        :raises UndoIncomplete: it refuses
        """
        answer = self._ask('delete', context, recovery_id)
        if answer.status_code not in (204, 404):
            raise exception.UndoIncomplete(
                f'Placement refuses to release the claim of recovery {recovery_id}: '
                f'{answer.text}')

    def withdraw(self, context: Any, instance_uuid: str) -> None:
        """Take back what an evacuation had claimed here for a server itself, as Nova does."""
        report.report_client_singleton().remove_provider_tree_from_instance_allocation(
            context, instance_uuid, self._provider())

    def _ask(self, method: str, context: Any, recovery_id: str, *body: Any) -> Any:
        client = report.report_client_singleton()
        try:
            return getattr(client, method)(f'/allocations/{recovery_id}', *body, version=_VERSION,
                                           global_request_id=context.global_id)
        except exceptions.ClientException as exc:
            raise exception.PlacementUnknown(
                f'Placement does not answer for recovery {recovery_id} ({exc}): ask again when '
                f'it does') from exc
