# SPDX-License-Identifier: Apache-2.0
"""The table: what a server has, the recovery that it gets, why, and the test that shows it."""

import dataclasses

SPECULATIVE = 'speculative'
EVACUATED = 'evacuated'
FAILED = 'failed'
NONE = 'none'
# From the best to the worst: a server gets the worst one of all that it has.
RECOVERIES = (SPECULATIVE, EVACUATED, FAILED, NONE)

_VIRT = 'specreds_nova.tests.unit.host.backup.test_eligibility.EligibilityTest'
_ENGINE = 'specreds_nova.tests.unit.engine'
_STORIES = 'specreds_nova.tests.stories'
_SHARED = ('specreds_nova.tests.engine_stories.test_shut_out.TestShutOut.'
           'test_server_with_a_shared_volume_is_evacuated_and_the_other_one_keeps_it')
_KINDS = 'specreds_nova.tests.engine_stories.test_kinds.TestKinds'
# One accident of a host that has all these servers.
_EVACUATED = f'{_KINDS}.test_servers_without_backups_are_evacuated'
_CINDER = 'specreds_cinder.tests.unit'
_DRAWN = 'specreds_nova.tests.simulation.test_half_done.HalfDoneTest.test_promise_is_kept'
_TWO = f'{_KINDS}.test_server_with_address_pairs_is_recovered_and_one_without_volumes_stays'


@dataclasses.dataclass(frozen=True)
class Row:
    """One thing that a server may have.

    :ivar key: name of the row for populations
    :ivar part: disks, network or machine
    :ivar what: the thing, as a user would say it
    :ivar recovery: the best recovery of a server with it
    :ivar why: the reason, or what is done about it
    :ivar test: id of a test that shows it
    """

    key: str
    part: str
    what: str
    recovery: str
    why: str
    test: str


_DISKS, _NETWORK, _MACHINE = 'disks', 'network', 'machine'

ROWS = (
    Row('volume', _DISKS, 'volumes on RBD', SPECULATIVE, 'superposed together',
        'specreds_nova.tests.cloud.test_shapes.TestShapes.'
        'test_backup_with_two_ports_a_scsi_disk_and_a_config_drive'),
    Row('multi-attach', _DISKS, 'a multi-attach volume', EVACUATED,
        'more than one server writes to it; the failed host is shut out of it', _SHARED),
    Row('encrypted', _DISKS, 'an encrypted volume (LUKS version 1)', SPECULATIVE,
        'the overlay is encrypted with the keys of the volume',
        f'{_STORIES}.test_encrypted.TestEncrypted.test_encrypted_server_is_adopted_and_merged'),
    Row('encrypted-otherwise', _DISKS, 'a volume encrypted otherwise than with LUKS version 1',
        EVACUATED, 'its overlay would have no key; the failed host is shut out of it',
        'specreds_cinder.tests.functional.test_encrypted.EncryptedTest.'
        'test_volumes_with_another_or_no_luks_header_are_refused'),
    Row('limited', _DISKS,
        'a volume with limits (QoS specs), a read-only volume, or a volume as a CD-ROM',
        SPECULATIVE, 'the connection and the overlay have the limits and the access of the volume',
        f'{_STORIES}.test_same.TestSame.test_limits_and_access_of_volumes_are_kept'),
    Row('mirrored', _DISKS, 'a mirrored or journaled volume', EVACUATED,
        'its writes are replayed elsewhere; the failed host is shut out of it',
        _EVACUATED),
    Row('clusters', _DISKS, 'volumes in several Ceph clusters, or with several ``rbd_user``',
        EVACUATED,
        'one user of one cluster superposes; the failed host is shut out of each volume',
        f'{_ENGINE}.clients.test_volumes.VolumesTest.'
        'test_volume_in_another_ceph_cluster_than_the_first_one_has_no_backup'),
    Row('foreign', _DISKS, 'a volume of another driver than RBD', FAILED,
        'Cinder cannot shut a host out of it; evacuated with evacuate_unfenced',
        f'{_KINDS}.test_server_with_a_volume_of_another_driver_is_not_fenced'),
    Row('read', _DISKS,
        'a volume that is backing-up or uploading, or a snapshot that is backing-up', SPECULATIVE,
        'the client of the job is fenced with the primary: repeat the job',
        'specreds_nova.tests.engine_stories.test_read.TestRead.'
        'test_server_whose_volume_is_backed_up_is_recovered'),
    Row('left', _DISKS, 'a volume that its host left attaching, detaching or error_extending',
        SPECULATIVE, 'the attachment is completed, and the detachment cancelled',
        f'{_CINDER}.service.test_hints.RestTest.test_status_that_a_dead_host_left_is_restored'),
    Row('leftover', _DISKS, 'a volume with an attachment that a failed live migration has left',
        SPECULATIVE, 'the host of the backup deletes attachments that no block device names',
        'specreds_nova.tests.unit.host.backup.test_adoption.AdoptionTest.'
        'test_attachments_that_no_block_device_names_are_deleted'),
    Row('reserved', _DISKS, 'a volume that is reserved, or whose snapshot, clone or migration is '
        'under way', EVACUATED, 'Cinder works on it; Nova can attach it to another host', _DRAWN),
    Row('busy', _DISKS, 'a volume that is extending, retyping, reverting, in maintenance or in '
        'error', FAILED, 'Cinder lets Nova attach it nowhere; nothing is fenced, and the recovery '
        'is repeated', _DRAWN),
    Row('rbd-root', _DISKS, 'a root disk that Nova keeps in RBD (images_type = rbd)', SPECULATIVE,
        'superposed with the volumes, where server_disks_backend of cinder.conf is set; '
        'without that option nothing is done for it',
        'specreds_nova.tests.disk_backups_stories.test_recovered.TestRecovered.'
        'test_backup_has_what_was_written_and_keeps_what_it_writes'),
    Row('rbd-disk', _DISKS, 'an ephemeral or swap disk that Nova keeps in RBD', SPECULATIVE,
        'superposed and evacuated like such a root disk',
        'specreds_nova.tests.disk_backups_stories.test_recovered.TestRecovered.'
        'test_backup_has_all_disks_that_nova_keeps_in_rbd'),
    Row('local', _DISKS, 'a disk in a file of its host beside its volumes', EVACUATED,
        'its disk died with its host, and is made anew by Nova',
        _EVACUATED),
    Row('local-root', _DISKS, 'a root disk in a file of its host', NONE,
        'it does not boot from a volume; nothing fences it, and the lease of its host does not '
        'hide it, so that it could be seen twice; an evacuation would make its disk anew',
        _TWO),
    Row('ovs', _NETWORK, 'ports of Open vSwitch with the firewall openvswitch', SPECULATIVE,
        'sealed in a box',
        'specreds_nova.tests.cloud.test_box.TestShut.'
        'test_sealed_guest_has_its_network_and_passes_no_frame'),
    Row('hybrid', _NETWORK, 'ports of Open vSwitch with the firewall iptables_hybrid', SPECULATIVE,
        'the Linux bridge is connected to the box',
        'specreds_nova.tests.hybrid_stories.test_hybrid.TestHybrid.'
        'test_promoted_backup_is_behind_the_rules_of_its_device'),
    Row('ovn', _NETWORK, 'ports of OVN', SPECULATIVE,
        "OVN's databases name the backup's host only after its promotion",
        'specreds_nova.tests.ovn_stories.test_ovn.TestOvn.test_promoted_backup_has_the_port'),
    Row('unsecured', _NETWORK, 'ports without port security', SPECULATIVE,
        'sealed as others: the box itself drops every frame, whatever its source; tested with '
        'ML2/OVS',
        'specreds_nova.tests.dvr_stories.test_tunnels.TestTunnels.'
        'test_users_of_other_hosts_reach_a_promoted_server'),
    Row('address-pairs', _NETWORK, 'ports with allowed address pairs, as for VRRP', SPECULATIVE,
        'the pairs stay as they are; the promotion announces the fixed addresses only, since '
        'another server may hold those of the pairs; keepalived in the guest announces what it '
        'holds',
        _TWO),
    Row('distributed-router', _NETWORK, 'ports behind a distributed router (DVR)', SPECULATIVE,
        'wired only after the promotion, so that a suspicion does not move the floating IP',
        'specreds_nova.tests.dvr_stories.test_routers.TestRouters.'
        'test_promoted_server_takes_its_floating_ip_along'),
    Row('router', _NETWORK, 'ports behind a highly available router (VRRP)', SPECULATIVE,
        'the box answers for the gateway with the hardware address that Neutron shows; the '
        "failover of a router whose active instance was on the failed host is keepalived's",
        'specreds_nova.tests.dvr_stories.test_available.TestAvailable.'
        'test_promoted_server_is_reached_at_its_floating_ip'),
    Row('ovn-router', _NETWORK, 'ports behind a router of OVN', SPECULATIVE,
        'the box answers for the gateway with the hardware address that Neutron shows; the '
        "failover of a gateway that was on the failed host is OVN's; a floating IP that the host "
        'translates moves with the server',
        'specreds_nova.tests.ovn_stories.test_routers.TestRouters.'
        'test_promoted_server_is_reached_at_its_floating_ip'),
    Row('ipv6', _NETWORK, 'addresses of IPv6, alone or beside IPv4', SPECULATIVE,
        'answered in the box if its host has what that needs; otherwise only after the promotion',
        'specreds_nova.tests.dvr_stories.test_ipv6.TestIpv6.test_server_with_ipv6_only'),
    Row('trunk', _NETWORK, 'a trunk, or a port with limits or guarantees of bandwidth', EVACUATED,
        'a box would lose them',
        _EVACUATED),
    Row('passthrough', _NETWORK, 'a port of SR-IOV or vDPA', EVACUATED,
        'a device of its host; Nova claims one elsewhere, or finds no host, and nothing is fenced',
        f'{_VIRT}.test_nova_evacuates_servers_with_ports_of_sriov_or_vdpa'),
    Row('port-accelerator', _NETWORK, 'a port with an accelerator (Cyborg)', FAILED,
        'Nova evacuates no such server; nothing is fenced',
        f'{_VIRT}.test_server_with_accelerators_of_its_ports_is_immovable'),
    Row('bios', _MACHINE, 'BIOS', SPECULATIVE, '',
        'specreds_nova.tests.engine.test_deaths.TestDeaths.'
        'test_dead_host_has_its_servers_recovered'),
    Row('uefi', _MACHINE, 'UEFI, with or without secure boot', SPECULATIVE,
        'its variables begin anew from the template',
        f'{_STORIES}.test_firmware.TestFirmware.test_server_with_secure_boot'),
    Row('pinned', _MACHINE, 'a NUMA topology, pinned CPUs or huge pages', SPECULATIVE,
        'claimed on the host of the backup, and taken over by the adoption; evacuated if no host '
        'has them free',
        'specreds_nova.tests.pinned_stories.test_pinned.TestPinned.'
        'test_adopted_server_keeps_the_cpus_of_its_backup'),
    Row('realtime', _MACHINE, 'realtime CPUs', EVACUATED,
        'a backup has no guarantee of time while it boots beside others',
        f'{_VIRT}.test_numa_topologies_are_eligible_unless_the_host_cannot_keep_them'),
    Row('vtpm', _MACHINE, 'a virtual TPM, of the flavor or the image', FAILED,
        'its state is on its host; Nova evacuates no such server; nothing is fenced',
        f'{_VIRT}.test_server_with_a_virtual_tpm_is_immovable_by_flavor_or_image'),
    Row('devices', _MACHINE, 'PCI devices, or accelerators or other resources of the flavor',
        EVACUATED,
        'devices of its host; Nova claims others elsewhere, or finds no host, and nothing is '
        'fenced', _EVACUATED),
    Row('shares', _MACHINE, 'mounted shares (Manila)', FAILED,
        'Nova evacuates no such server; nothing is fenced',
        f'{_ENGINE}.recovery.steps.test_fence.FenceTest.'
        'test_server_that_nova_would_refuse_is_not_fenced'),
)
BY_KEY = {row.key: row for row in ROWS}


def recovery(*keys: str) -> str:
    """Return the recovery of a server that has several things."""
    return max((BY_KEY[key].recovery for key in keys), key=RECOVERIES.index)
