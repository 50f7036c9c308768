# SPDX-License-Identifier: Apache-2.0
"""The files for kolla-ansible, without kolla-ansible; ``./run kolla check`` has the rest."""

import json
import pathlib
import re
from typing import Any

import ddt
import fixtures
import jinja2
import testtools
import yaml  # type: ignore[import-untyped]

from cloud.kolla import check
from cloud.kolla import configuration
from cloud.kolla import images
from specreds_nova import deployment
from specreds_nova.status import cinder
from specreds_nova.status import files
from specreds_nova.status import nova

_ROLE = check.SOURCES / 'ansible/roles/specreds'
_PAGE = check.SOURCES.parents[1] / 'doc/source/install.rst'
_FILTER = re.compile(r'privsep-rootwrap-specreds: .*/tmp/\.\*')


@ddt.ddt
class FilesTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def merged(self, name: str, before: str = '', **variables: Any) -> files.Files:
        """Return an override, behind what kolla-ansible writes itself."""
        text = jinja2.Template((check.SOURCES / 'config' / name).read_text()).render(**variables)
        (self.directory / 'plain').write_text(before)
        (self.directory / 'override').write_text(text)
        return files.read([str(self.directory / name) for name in ('plain', 'override')])

    def test_volume_service_has_all_of_the_plug_in(self) -> None:
        config = self.merged(
            'cinder.conf', service_name='cinder-volume',
            cinder_ceph_backends=[{'name': 'rbd-1'}, {'name': 'rbd-2'}],
            before='[DEFAULT]\nenabled_backends = rbd-1,rbd-2\n[coordination]\nbackend_url = x\n')
        self.assertEqual(['rbd-1', 'rbd-2'], cinder.backends(config))
        self.assertEqual([], list(cinder.settings(config)))

    def test_api_has_no_back_ends(self) -> None:
        config = self.merged('cinder.conf', service_name='cinder-api')
        for name, value in deployment.cinder()['DEFAULT'].items():
            wanted = [value] if isinstance(value, str) else value
            self.assertEqual(wanted, config.all('DEFAULT', name))

    @ddt.data(('cinder', ''), ('nova', 'cinder:nova'))
    @ddt.unpack
    def test_host_looks_as_the_user_whose_keyring_it_has(self, user: str, clients: str) -> None:
        config = self.merged('nova/nova-compute.conf', ceph_cluster='ceph',
                             ceph_cinder_user='cinder', ceph_nova_user=user)
        self.assertTrue(nova.in_use(config))
        self.assertEqual(clients, config.get('specreds', 'sentinel_clients'))

    def test_filter_of_rootwrap_is_the_documented_one(self) -> None:
        overrides = (check.SOURCES / 'template-overrides.j2').read_text()
        self.assertEqual(_FILTER.findall(_PAGE.read_text()), _FILTER.findall(overrides))

    def test_alerts_and_dashboard_are_the_projects_own(self) -> None:
        for name in ('prometheus/specreds.rules', 'grafana/dashboards/specreds-dashboard.json'):
            own = check.SOURCES.parents[1] / 'etc/prometheus' / pathlib.Path(name).name
            self.assertTrue((check.SOURCES / 'config' / name).samefile(own), name)

    def test_each_container_has_a_configuration_and_a_handler(self) -> None:
        services = yaml.safe_load((_ROLE / 'defaults/main.yml').read_text())['specreds_services']
        handlers = yaml.safe_load((_ROLE / 'handlers/main.yml').read_text())
        self.assertEqual([f'Restart {name} container' for name in services],
                         [handler['name'] for handler in handlers])
        for name in services:
            text = (_ROLE / 'templates' / f'{name}.json.j2').read_text()
            self.assertIn('command', json.loads(jinja2.Template(text).render()))


class FaultsTest(testtools.TestCase):
    """What the check finds."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def image(self, name: str, text: str, parent: str = 'base') -> None:
        self.write(f'docker/x/{name}/Dockerfile', f'FROM kolla/{parent}:1\n{text}\n')

    def images(self) -> None:
        """Write Dockerfiles that have everything."""
        everything = '\n'.join(
            each if isinstance(each, str) else each['deb']
            for wanted in images.WANTED.values() for each in wanted)
        self.write('docker/base/Dockerfile', f'FROM debian\n{everything}\n')
        for name in images.WANTED:
            self.image(name, 'USER root' if name == 'specreds-sentinel' else 'USER nova')

    def test_images_with_everything_are_fine(self) -> None:
        self.images()
        self.assertEqual([], list(images.faults(self.directory, 'debian')))

    def test_image_without_a_driver_is_reported(self) -> None:
        self.images()
        self.write('docker/empty/Dockerfile', 'FROM debian\n')
        self.image('nova-libvirt', '', parent='empty')
        self.assertEqual(['debian: the image nova-libvirt has no qemu-block-extra'],
                         list(images.faults(self.directory, 'debian')))

    def test_user_of_the_last_image_counts(self) -> None:
        self.images()
        self.image('specreds-sentinel', '', parent='nova-compute')
        self.assertEqual(['debian: the image specreds-sentinel does not run as root'],
                         list(images.faults(self.directory, 'debian')))

    def test_file_that_a_container_would_not_find_is_reported(self) -> None:
        sources = ['config_files/a', 'nova-compute/ceph.*', 'config_files/b']
        self.write('s/config.json', json.dumps({'config_files': [
            {'source': f'/var/lib/kolla/{source}', 'optional': source.endswith('b')}
            for source in sources]}))
        self.write('s/a', '')
        place = self.directory / 'nova-compute'
        self.assertEqual([f's: there is no {place}/ceph.*'],
                         list(configuration.missing_sources(self.directory, 's')))
