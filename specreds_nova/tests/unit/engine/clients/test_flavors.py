# SPDX-License-Identifier: Apache-2.0
"""The resources that a flavor needs of a host."""

from typing import Any

import ddt
import testtools

from specreds_nova.engine.clients import flavors


@ddt.ddt
class QueryTest(testtools.TestCase):
    """The query to Placement is the one that Nova sends."""

    @ddt.data(
        ({}, {}, True, {'resources': 'VCPU:2,MEMORY_MB:512'}),
        ({'disk': 10}, {}, True, {'resources': 'VCPU:2,MEMORY_MB:512'}),
        ({'disk': 10}, {}, False, {'resources': 'VCPU:2,MEMORY_MB:512,DISK_GB:10'}),
        ({'ephemeral': 3, 'swap': 1500}, {}, True,
         {'resources': 'VCPU:2,MEMORY_MB:512,DISK_GB:5'}),
        ({}, {'hw:cpu_policy': 'dedicated'}, True, {'resources': 'PCPU:2,MEMORY_MB:512'}),
        ({}, {'hw:cpu_policy': 'dedicated', 'hw:emulator_threads_policy': 'isolate',
              'hw:cpu_thread_policy': 'isolate'}, True,
         {'resources': 'PCPU:3,MEMORY_MB:512',
          'required': '!COMPUTE_STATUS_DISABLED,!HW_CPU_HYPERTHREADING'}),
        ({}, {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'require'}, True,
         {'resources': 'PCPU:2,MEMORY_MB:512',
          'required': '!COMPUTE_STATUS_DISABLED,HW_CPU_HYPERTHREADING'}),
        ({}, {'hw:cpu_policy': 'dedicated', 'hw:cpu_thread_policy': 'prefer'}, True,
         {'resources': 'PCPU:2,MEMORY_MB:512'}),
        ({}, {'resources:VCPU': '0', 'resources:CUSTOM_IT': '1'}, True,
         {'resources': 'MEMORY_MB:512,CUSTOM_IT:1'}),
        ({}, {'trait:HW_CPU_X86_AVX2': 'required', 'trait:COMPUTE_OLD': 'forbidden'}, True,
         {'resources': 'VCPU:2,MEMORY_MB:512',
          'required': '!COMPUTE_STATUS_DISABLED,!COMPUTE_OLD,HW_CPU_X86_AVX2'}),
        ({}, {'resources1:VGPU': '1', 'trait1:CUSTOM_FAST': 'required', 'resources2:VGPU': '1',
              'group_policy': 'isolate'}, True,
         {'resources': 'VCPU:2,MEMORY_MB:512', 'resources1': 'VGPU:1',
          'required1': 'CUSTOM_FAST', 'resources2': 'VGPU:1', 'group_policy': 'isolate'}))
    @ddt.unpack
    def test_query_has_resources_and_traits(
            self, flavor: dict[str, Any], specs: dict[str, str], from_volume: bool,
            wanted: dict[str, str]) -> None:
        query = flavors.query({'vcpus': 2, 'ram': 512, 'disk': 0, **flavor, 'extra_specs': specs},
                              boots_from_volume=from_volume)
        self.assertEqual({'required': '!COMPUTE_STATUS_DISABLED', **wanted}, query)

    def test_hosts_without_dedicated_cpus_are_asked_for_others(self) -> None:
        specs = {'hw:cpu_policy': 'dedicated', 'hw:emulator_threads_policy': 'isolate',
                 'hw:cpu_thread_policy': 'isolate'}
        self.assertEqual(
            {'resources': 'VCPU:2,MEMORY_MB:512', 'required': '!COMPUTE_STATUS_DISABLED'},
            flavors.query({'vcpus': 2, 'ram': 512, 'disk': 0, 'extra_specs': specs},
                          boots_from_volume=True, dedicated=False))
