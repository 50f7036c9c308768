# SPDX-License-Identifier: Apache-2.0
"""The resources of a backup in Placement."""

from typing import Any
from unittest import mock

from keystoneauth1 import exceptions
from nova import objects

from specreds_nova import exception
from specreds_nova.host.backup import claims
from specreds_nova.tests.unit.host import base


class ClaimsTest(base.TestCase):
    """Claim and release."""

    def setUp(self) -> None:
        super().setUp()
        self.client = mock.Mock()
        self.replace('nova.scheduler.client.report.report_client_singleton', lambda: self.client)
        self.resources = self.replace(
            'specreds_nova.host.releases.resources_from_flavor_and_bfv',
            mock.Mock(return_value={'VCPU': 1, 'MEMORY_MB': 128}))
        self.found = claims.Claims(lambda: 'provider')
        self.instance.flavor, self.instance.image_ref = mock.sentinel.flavor, ''
        self.instance.project_id, self.instance.user_id = 'project', 'user'

    def claim(self, status: int, text: str = '') -> Any:
        self.client.put.return_value = mock.Mock(status_code=status, text=text)
        return self.found.claim(mock.Mock(), base.BACKUP_ID, self.instance)

    def test_claim_belongs_to_the_recovery(self) -> None:
        self.claim(204)
        path, payload = self.client.put.call_args.args
        self.assertEqual(f'/allocations/{base.BACKUP_ID}', path)
        self.assertEqual({'provider': {'resources': {'VCPU': 1, 'MEMORY_MB': 128}}},
                         payload['allocations'])
        self.assertEqual(('project', 'user', None), tuple(
            payload[name] for name in ('project_id', 'user_id', 'consumer_generation')))
        self.resources.assert_called_once_with(mock.sentinel.flavor, is_bfv=True)

    def test_claim_of_a_server_with_a_root_disk_of_its_own_has_the_disk(self) -> None:
        self.instance.image_ref = 'image'
        self.claim(204)
        self.resources.assert_called_once_with(mock.sentinel.flavor, is_bfv=False)

    def test_pinned_cpus_are_claimed_as_nova_claims_them(self) -> None:
        def claimed(dedicated: str | None, image: dict[str, str], **specs: str) -> Any:
            self.conf.config(group='compute', cpu_dedicated_set=dedicated)
            self.instance.flavor = objects.Flavor(
                vcpus=2, memory_mb=128, root_gb=1, ephemeral_gb=0, swap=0,
                extra_specs={f'hw:{name}': value for name, value in specs.items()})
            self.instance.image_meta = objects.ImageMeta.from_dict({'properties': image})
            self.claim(204)
            return self.client.put.call_args.args[1]['allocations']['provider']['resources']

        self.instance.numa_topology = mock.sentinel.topology
        memory = {'MEMORY_MB': 128}
        by_image = {'hw_cpu_policy': 'dedicated'}
        self.assertEqual(memory | {'PCPU': 2}, claimed('0-3', {}, cpu_policy='dedicated'))
        self.assertEqual(memory | {'PCPU': 2}, claimed('0-3', by_image))
        self.assertEqual(memory | {'PCPU': 3}, claimed(
            '0-3', by_image, emulator_threads_policy='isolate'))
        self.assertEqual(memory | {'PCPU': 1, 'VCPU': 1}, claimed(
            '0-3', {}, cpu_policy='mixed', cpu_dedicated_mask='^0'))
        self.assertEqual(memory | {'VCPU': 2}, claimed('0-3', {}, mem_page_size='large'))
        # Nova runs pinned servers on hosts without dedicated CPUs, too, if there are no others.
        self.assertEqual(memory | {'VCPU': 2}, claimed(None, by_image))
        self.resources.assert_not_called()

    def test_claim_on_a_full_host_fails(self) -> None:
        self.assertRaises(exception.ServerNotEligible, self.claim, 409, 'Unable to allocate')

    def test_claim_may_be_repeated(self) -> None:
        self.claim(409, 'consumer generation conflict - expected 1 but got null')
        # An existing claim is kept.
        self.client.put.assert_called_once()
        self.client.delete.assert_not_called()

    def test_refused_claim_raises(self) -> None:
        self.assertRaises(exception.StartFailed, self.claim, 400, 'Malformed')

    def test_silent_placement_raises(self) -> None:
        self.client.put.side_effect = exceptions.ConnectFailure('refused')
        self.assertRaises(exception.PlacementUnknown, self.found.claim, mock.Mock(),
                          base.BACKUP_ID, self.instance)

    def test_release_deletes_the_claim(self) -> None:
        for status in (204, 404):
            self.client.delete.return_value = mock.Mock(status_code=status)
            self.found.release(mock.Mock(), base.BACKUP_ID)
        self.client.delete.return_value = mock.Mock(status_code=409, text='conflict')
        self.assertRaises(exception.UndoIncomplete, self.found.release, mock.Mock(),
                          base.BACKUP_ID)

    def test_withdraw_removes_this_host_from_the_allocation(self) -> None:
        self.found.withdraw(mock.sentinel.context, base.SERVER)
        self.client.remove_provider_tree_from_instance_allocation.assert_called_once_with(
            mock.sentinel.context, base.SERVER, 'provider')
