# SPDX-License-Identifier: Apache-2.0
"""What a shut box answers its guest."""

from specreds_nova.tests.unit.virt.box import fakes
from specreds_nova.tests.unit.virt.box import sealing_base
from specreds_nova.virt.box import errors
from specreds_nova.virt.box import plan as plans


class TestServices(sealing_base.SealingTestCase):

    def test_guest_routes_to_metadata_as_outside_the_box(self) -> None:
        self.bind_by_ovn()
        self.bindings.metadata_hops.return_value = {'10.77.0.3': 'fa:16:3e:00:00:98'}
        self.bindings.neighbours.return_value = {fakes.GATEWAY: 'fa:16:3e:00:00:99'}
        self.sealed()
        [served] = self.privileged['start_services'].call_args.args
        self.assertEqual(('10.77.0.3',), plans.Plan.from_json(served).metadata_hops)
        assert self.mechanism.plan
        self.assertEqual(
            ('fa:16:3e:00:00:98', 'fa:16:3e:00:00:99'),
            tuple(self.mechanism.plan.answered[address] for address in ('10.77.0.3',
                                                                        fakes.GATEWAY)))

    def test_hardware_addresses_outside_are_learned(self) -> None:
        self.bindings.neighbours.return_value = {fakes.GATEWAY: 'fa:16:3e:00:00:99'}
        self.sealed()
        assert self.mechanism.plan
        self.assertEqual('fa:16:3e:00:00:99', self.mechanism.plan.answered[fakes.GATEWAY])

    def test_failed_dhcp_is_an_error_and_failed_metadata_is_not(self) -> None:
        self.write.side_effect = ValueError('no')
        self.sealed()
        self.privileged['start_services'].side_effect = OSError('no')
        self.assertRaises(errors.BoxFailed, self.sealed)
