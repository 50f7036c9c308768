# SPDX-License-Identifier: Apache-2.0
"""The servers that get no backup, and the reasons."""

import json
import types
from typing import Any
from unittest import mock

from nova import objects
from nova.network import model

from specreds_nova.host.backup import eligibility
from specreds_nova.tests.unit.host import base


class EligibilityTest(base.TestCase):
    """An eligible server, and changes that make it ineligible."""

    def setUp(self) -> None:
        super().setUp()
        self.migrations = self.replace('nova.objects.MigrationList.get_by_filters',
                                     mock.Mock(return_value=[]))
        self.shares = self.replace('nova.objects.ShareMappingList.get_by_instance_uuid',
                                 mock.Mock(return_value=[]))
        self.replace('nova.virt.configdrive.required_by', lambda instance: False)
        self.mounts = self.replace('psutil.disk_partitions', mock.Mock(return_value=[
            types.SimpleNamespace(mountpoint='/', fstype='ext4')]))
        domain = types.SimpleNamespace(machines={'pc-q35-7.2': {}}, aliases={'pc': {}, 'q35': {}})
        self.driver._host.get_capabilities.return_value = types.SimpleNamespace(
            host=types.SimpleNamespace(cpu=types.SimpleNamespace(arch='x86_64')),
            guests=[types.SimpleNamespace(arch='x86_64', default_domain=domain, domains={})])
        self.driver._host.get_cpu_model_names.return_value = ['Nehalem']
        self.conf.config(instances_path='/var/lib/nova/instances')
        self.vif = model.VIF(id='p1', vnic_type='normal', type='ovs', details={})
        self.connection: dict[str, Any] = {'driver_volume_type': 'rbd', 'data': {}}
        self.bdm = types.SimpleNamespace(
            destination_type='volume', volume_id=base.VOLUME, device_name='/dev/vda',
            guest_format=None, source_type='volume', encrypted=False)
        self.server = types.SimpleNamespace(
            uuid=base.SERVER, host=base.PRIMARY, vm_state='active', task_state=None,
            deleted=False, kernel_id='', ramdisk_id='', numa_topology=None, vcpu_model=None,
            pci_requests=objects.InstancePCIRequests(requests=[]),
            flavor=objects.Flavor(extra_specs={}), system_metadata={},
            image_meta=objects.ImageMeta.from_dict({'properties': {
                'hw_architecture': 'x86_64', 'hw_machine_type': 'pc'}}),
            get_network_info=lambda: model.NetworkInfo([self.vif]))
        self.box = mock.Mock()
        self.box.refusals.return_value = []
        self.cinder = mock.Mock()
        self.topologies.reasons.return_value = []
        self.found = eligibility.Eligibility(self.driver, self.launcher, base.HOST, self.box,
                                             self.cinder, self.topologies)

    def reasons(self, *bdms: Any) -> list[str]:
        self.bdm.connection_info = json.dumps(self.connection)
        return self.found.reasons(mock.Mock(), self.server, bdms or [self.bdm])

    def refused(self, *words: str) -> None:
        reasons = self.reasons()
        self.assertEqual(len(words), len(reasons), '; '.join(reasons))
        for word, reason in zip(words, reasons, strict=True):
            self.assertIn(word, reason)

    def test_usual_server_is_eligible(self) -> None:
        self.assertEqual([], self.reasons())

    def test_state_of_the_server_is_checked(self) -> None:
        for state in ('stopped', 'paused', 'suspended', 'resized', 'rescued', 'error',
                      'shelved_offloaded', 'building'):
            self.server.vm_state = state
            self.refused(f'it is {state}')
        self.server.vm_state = 'active'
        for task in ('migrating', 'resize_migrating', 'powering-off', 'rebuilding', 'deleting'):
            self.server.task_state = task
            self.refused(task)
        for task in ('rebooting', 'reboot_pending', 'reboot_started_hard'):
            self.server.task_state = task
            self.assertEqual([], self.reasons())

    def test_server_of_this_host_is_not_eligible(self) -> None:
        self.server.host = base.HOST
        self.refused('choose another host')
        self.server.host = None
        self.refused('on no host')

    def test_existing_domain_and_files_are_checked(self) -> None:
        self.launcher.find.return_value = mock.Mock()
        self.refused('has a domain')
        self.launcher.find.return_value = None
        self.migrations.return_value = [mock.Mock()]
        self.refused('restart nova-compute first')
        self.assertEqual(base.HOST, self.migrations.call_args.args[1]['source_compute'])

    def test_local_disks_are_not_eligible(self) -> None:
        for guest_format, source in (('swap', 'blank'), (None, 'blank'), (None, 'image')):
            self.bdm.destination_type, self.bdm.source_type = 'local', source
            self.bdm.guest_format = guest_format
            self.refused('local to its host')

    def test_disks_that_nova_keeps_in_rbd_are_eligible(self) -> None:
        self.bdm.destination_type, self.bdm.source_type = 'local', 'image'
        self.conf.config(group='libvirt', images_type='rbd')
        self.refused()
        self.bdm.encrypted = True
        self.refused('encrypted')
        self.bdm.encrypted = False
        self.conf.config(group='libvirt', images_type='qcow2')
        self.refused('local to its host')

    def test_volumes_are_checked(self) -> None:
        for kind in ('iscsi', 'nfs', None):
            self.connection['driver_volume_type'] = kind
            self.refused('not by RBD')
        # Cinder decides whether one that is not merged can be superposed.
        for kind in ('rbd', 'rbd_super'):
            self.connection['driver_volume_type'] = kind
            self.assertEqual([], self.reasons())
        self.connection = {'driver_volume_type': 'rbd', 'data': {}, 'multiattach': True}
        self.refused('several times')
        self.connection = {'driver_volume_type': 'rbd', 'data': {'encrypted': True}}
        self.assertEqual([], self.reasons())

    def test_server_without_volumes_is_not_eligible(self) -> None:
        self.assertEqual(['it has no volumes'],
                         self.found.reasons(mock.Mock(), self.server, []))

    def test_ports_are_checked_by_the_box(self) -> None:
        self.box.refusals.return_value = ['port p1: it is the parent of a trunk']
        self.refused('trunk')
        self.box.refusals.assert_called_once_with(self.server)

    def test_all_reasons_are_those_of_neutron_and_cinder_too(self) -> None:
        self.bdm.connection_info = json.dumps(self.connection)
        self.server.vm_state = 'paused'
        self.box.reasons.return_value = ['it has a limit of bandwidth']
        self.cinder.reasons.return_value = ['it is journaled']
        self.topologies.reasons.return_value = ['its topology does not fit']
        context = mock.Mock()
        state, *others = self.found.all_reasons(context, self.server, [self.bdm])
        self.assertIn('paused', state)
        self.assertEqual(['it has a limit of bandwidth', 'it is journaled',
                          'its topology does not fit'], others)
        self.topologies.reasons.assert_called_once_with(self.server)
        self.box.reasons.assert_called_once_with(context, self.server)
        self.cinder.reasons.assert_called_once_with([base.VOLUME])

    def test_numa_topologies_are_eligible_unless_the_host_cannot_keep_them(self) -> None:
        self.server.flavor = objects.Flavor(extra_specs={
            'hw:cpu_policy': 'dedicated', 'resources:PCPU': '2'})
        cell = objects.InstanceNUMACell(
            id=0, cpuset=set(), pcpuset={0, 1}, memory=64, pagesize=2048, cpu_policy='dedicated')
        self.server.numa_topology = objects.InstanceNUMATopology(cells=[cell])
        self.refused()
        self.server.flavor.extra_specs['hw:cpu_realtime'] = 'yes'
        self.refused('realtime')
        del self.server.flavor.extra_specs['hw:cpu_realtime']
        self.conf.config(group='libvirt', cpu_power_management=True)
        self.refused('cpu_power_management')
        self.conf.config(group='libvirt', cpu_power_management=False, file_backed_memory=1024)
        self.refused('backed by files')
        cell.pagesize = None
        self.refused()

    def test_passed_through_devices_are_not_eligible(self) -> None:
        self.server.pci_requests.requests = [objects.InstancePCIRequest(count=1)]
        self.shares.return_value = [mock.Mock()]
        self.server.kernel_id = 'k1'
        self.refused('PCI', 'kernel', 'shares')

    def immovable(self) -> str:
        """Return why Nova would refuse to evacuate the server; empty if it would not."""
        return self.found.immovable(mock.Mock(), self.server) or ''

    def test_nova_evacuates_servers_with_devices_of_their_host(self) -> None:
        self.server.pci_requests.requests = [objects.InstancePCIRequest(count=1)]
        self.server.flavor.extra_specs = {'accel:device_profile': 'fpga', 'resources:VGPU': '1'}
        self.refused('PCI', 'accelerators', 'VGPU')
        self.assertEqual('', self.immovable())

    def test_nova_evacuates_servers_with_ports_of_sriov_or_vdpa(self) -> None:
        for kind in ('direct', 'direct-physical', 'macvtap', 'vdpa'):
            self.vif['vnic_type'] = kind
            self.assertEqual('', self.immovable())

    def test_server_with_mounted_shares_is_immovable(self) -> None:
        self.shares.return_value = [mock.Mock()]
        self.assertIn('mounted shares', self.immovable())
        self.assertEqual(base.SERVER, self.shares.call_args.args[1])

    def test_server_with_accelerators_of_its_ports_is_immovable(self) -> None:
        for kind in ('accelerator-direct', 'accelerator-direct-physical'):
            self.vif['vnic_type'] = kind
            self.assertIn('accelerators of its ports', self.immovable())

    def test_server_with_a_virtual_tpm_is_immovable_by_flavor_or_image(self) -> None:
        self.image(hw_tpm_version='2.0')
        self.assertIn('virtual TPM', self.immovable())
        self.image()
        self.server.flavor.extra_specs = {'hw:tpm_version': '2.0'}
        self.assertIn('virtual TPM', self.immovable())
        self.image(hw_tpm_version='1.2')
        self.assertIn('contradictory', self.immovable())

    def test_server_in_a_state_that_nova_does_not_evacuate_is_immovable(self) -> None:
        for state in ('active', 'stopped', 'error', 'paused', 'suspended', 'rescued', 'resized',
                      'shelved'):
            self.server.vm_state = state
            self.assertEqual('', self.immovable())
        for state in ('building', 'soft-delete', 'shelved_offloaded'):
            self.server.vm_state = state
            self.assertIn(state, self.immovable())

    def test_flavor_is_checked(self) -> None:
        for specs, word in (({'hw:tpm_version': '2.0'}, 'TPM'),
                            ({'accel:device_profile': 'fpga'}, 'accelerators'),
                            ({'hw:pmem': '6GB'}, 'persistent memory'),
                            ({'resources:VGPU': '1'}, 'VGPU'),
                            ({'resources1:CUSTOM_NIC': '1'}, 'CUSTOM_NIC')):
            self.server.flavor.extra_specs = specs
            self.refused(word)
        self.server.flavor.extra_specs = {'resources:VCPU': '1', 'resources:VGPU': '0',
                                          'hw:cpu_sockets': '1'}
        self.refused()

    def image(self, **properties: str) -> None:
        self.server.image_meta = objects.ImageMeta.from_dict({'properties': {
            'hw_architecture': 'x86_64', **properties}})

    def test_uefi_needs_a_firmware_on_this_host(self) -> None:
        host = self.driver._host
        host.supports_uefi, host.supports_secure_boot = True, False
        self.image(hw_firmware_type='uefi')
        self.refused()
        self.image(hw_firmware_type='uefi', os_secure_boot='optional')
        self.refused()
        self.image(hw_firmware_type='uefi', os_secure_boot='required', hw_machine_type='q35')
        self.refused('no secure boot')
        host.supports_secure_boot = True
        self.refused()
        host.supports_uefi = False
        self.refused('no firmware for UEFI')
        self.image(hw_firmware_type='bios')
        self.refused()

    def test_aarch64_boots_by_uefi_unless_its_image_says_otherwise(self) -> None:
        host = self.driver._host
        host.get_capabilities.return_value.guests[0].arch = 'aarch64'
        host.supports_uefi = False
        self.image(hw_architecture='aarch64', hw_machine_type='pc')
        self.refused('no firmware for UEFI')
        self.image(hw_architecture='aarch64', hw_machine_type='pc', hw_firmware_type='bios')
        self.refused()

    def test_image_properties_are_checked(self) -> None:
        self.image(hw_machine_type='pc-q35-9.9')
        self.refused('no machine type pc-q35-9.9')
        self.image(hw_machine_type='pc-q35-7.2')
        self.refused()
        self.image(hw_architecture='aarch64')
        self.refused('architecture aarch64')

    def test_cpu_of_the_host_is_checked(self) -> None:
        self.server.vcpu_model = types.SimpleNamespace(mode='custom', model='Nehalem')
        self.refused()
        self.server.vcpu_model.model = 'Sapphire'
        self.refused('Sapphire')
        self.server.vcpu_model.mode = 'host-model'
        self.refused()

    def test_shared_instances_path_is_not_eligible(self) -> None:
        self.mounts.return_value.append(
            types.SimpleNamespace(mountpoint='/var/lib/nova/instances', fstype='nfs4'))
        self.refused('shared among hosts (nfs4)')
        self.mounts.return_value[1].mountpoint = '/var/lib/nova/instances2'
        self.refused()

    def test_config_drive_in_a_shared_pool_is_not_eligible(self) -> None:
        self.replace('nova.virt.configdrive.required_by', lambda instance: True)
        self.conf.config(group='libvirt', images_type='rbd')
        self.refused()
        self.driver.image_backend.by_name.assert_called_once_with(
            self.server, 'disk.config', 'rbd')
        self.driver.image_backend.by_name.return_value.exists.return_value = False
        self.refused('config drive is in a file of its host')
        self.conf.config(config_drive_format='vfat')
        self.refused('config drive is writable')
