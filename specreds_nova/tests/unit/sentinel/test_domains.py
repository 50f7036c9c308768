# SPDX-License-Identifier: Apache-2.0
"""Parsing of a domain's XML."""

import testtools

from specreds_cinder.superposition.truth import record as records
from specreds_nova.sentinel import domains

_XML = """
<domain type="qemu" {id}>
  <name>instance-00000001</name>
  <uuid>6e1e5bd0-0000-4000-8000-000000000001</uuid>
  <metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"/>
    {mark}
  </metadata>
  <devices>
    <disk type="network" device="disk">
      <driver name="qemu" type="raw"/>
      <auth username="cinder"><secret type="ceph" uuid="x"/></auth>
      <source protocol="rbd" name="volumes/volume-1"><host name="a" port="6789"/></source>
      <target dev="vda" bus="virtio"/>
    </disk>
    <disk type="network" device="disk">
      <driver name="qemu" type="qcow2"/>
      <auth username="cinder"/>
      <source protocol="rbd" name="volumes/space/volume-2.super-abc"/>
      <backingStore type="network"><format type="raw"/>
        <source protocol="rbd" name="volumes/volume-2"/></backingStore>
      <mirror type="network" job="active-commit"><source protocol="rbd" name="volumes/volume-2"/>
      </mirror>
    </disk>
    <disk type="file" device="cdrom"><source file="/x.iso"/></disk>
    <disk type="file" device="cdrom"/>
    <disk type="network" device="disk">
      <source protocol="rbd" name="volumes/volume-3@snapshot"/></disk>
    <interface type="bridge"><target dev="tap1"/></interface>
    <interface type="vdpa"/>
  </devices>
</domain>
"""
_MARK = ('<specreds:backup xmlns:specreds="urn:specreds:backup:1" id="b" '
         'superposition="s"/>')


class ParseTestCase(testtools.TestCase):

    def test_running_domain_has_images_and_taps(self) -> None:
        domain = domains.parse(_XML.format(id='id="7"', mark=_MARK))
        self.assertEqual(domains.Domain(
            '6e1e5bd0-0000-4000-8000-000000000001', 'instance-00000001', 7, 's',
            (domains.Image(records.VolumeRef('volumes', '', 'volume-1'), 'cinder'),
             domains.Image(records.VolumeRef('volumes', 'space', 'volume-2.super-abc'),
                           'cinder')), ('tap1',)), domain)

    def test_cache_of_librbd_follows_the_mode(self) -> None:
        for attribute, cached in (('', True), ('cache="writeback"', True), ('cache="none"', False),
                                  ('cache="directsync"', False)):
            domain = domains.parse(_XML.format(id='id="7"', mark='').replace(
                'type="raw"', f'type="raw" {attribute}'))
            self.assertEqual(cached, domain and domain.images[0].cached)

    def test_domain_without_a_mark_is_no_backup(self) -> None:
        domain = domains.parse(_XML.format(id='id="7"', mark=''))
        self.assertIsNone(domain and domain.backup_of)

    def test_domain_that_is_shut_off_is_none(self) -> None:
        self.assertIsNone(domains.parse(_XML.format(id='', mark=_MARK)))
