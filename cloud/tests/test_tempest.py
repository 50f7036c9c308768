# SPDX-License-Identifier: Apache-2.0
"""Results of Tempest, and Tempest's configuration for a cloud."""

import argparse
import contextlib
import io
import pathlib
import re
import shlex
import sys

import ddt
import fixtures
from lxml import etree
from oslo_config import cfg
import subunit
import testtools

from cloud import cloud
from cloud import commands
from cloud import tempest
from cloud import tempest_conf
from cloud import tempest_page
from cloud import tempest_results as results
from cloud.openstack import credentials
from cloud.openstack import files as private
from tempest_plugin import config


class ReadTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.written = io.BytesIO()
        self.stream = subunit.StreamResultToBytes(self.written)

    def ran(self, name: str, status: str, **details: str) -> None:
        self.stream.status(test_id=name, test_status='inprogress')
        for detail, text in details.items():
            self.stream.status(test_id=name, file_name=detail, file_bytes=text.encode(),
                               mime_type='text/plain; charset=utf8', eof=True)
        self.stream.status(test_id=name, test_status=status)

    def read(self) -> list[results.Result]:
        reported: list[results.Result] = []
        self.written.seek(0)
        read = results.read(self.written, self.data / 'copy', reported.append)
        self.assertEqual(reported, read)
        return read

    def test_each_status_is_read(self) -> None:
        self.stream.status(test_id='a', test_status='exists')
        self.ran('a', 'success')
        self.ran('b', 'fail', traceback='Traceback:\n  line\nValueError: no')
        self.ran('c', 'skip', reason='no Nova')
        self.ran('d', 'xfail')
        self.ran('e', 'uxsuccess')
        self.assertEqual(
            [('a', results.PASSED, ''), ('b', results.FAILED, 'ValueError: no'),
             ('c', results.SKIPPED, 'no Nova'), ('d', results.PASSED, ''),
             ('e', results.FAILED, '')],
            [(result.name, result.status, result.reason) for result in self.read()])

    def test_copy_has_the_same_results(self) -> None:
        self.ran('a', 'success')
        self.ran('b', 'fail', traceback='why')
        first = self.read()
        self.written = io.BytesIO((self.data / 'copy').read_bytes())
        (self.data / 'copy').rename(self.data / 'first')
        self.assertEqual(first, self.read())

    def test_unfinished_test_has_failed(self) -> None:
        self.stream.status(test_id='a', test_status='inprogress')
        self.assertEqual([('a', results.FAILED)],
                         [(result.name, result.status) for result in self.read()])

    def test_listed_test_without_a_result_has_failed(self) -> None:
        for name in ('m.A.a[id-1]', 'm.A.b[id-2]', 'm.B.c[id-3]', 'm.C.d[id-4]'):
            self.stream.status(test_id=name, test_status='exists')
        self.ran('m.A.a[id-1]', 'success')
        self.ran('setUpClass (m.B)', 'skip', reason='no Nova')
        read = self.read()
        self.assertEqual(
            [('m.A.a[id-1]', results.PASSED), ('setUpClass (m.B)', results.SKIPPED),
             ('m.A.b[id-2]', results.FAILED)],
            [(result.name, result.status) for result in read])
        # Thousands of them would hide all else.
        self.assertIn('like 1 more: m.C.d[id-4]', read[-1].words)

    def test_text_that_is_no_utf8_is_read(self) -> None:
        self.stream.status(test_id='a', test_status='fail', file_name='traceback', eof=True,
                           file_bytes=b'no \xff', mime_type='text/plain; charset=utf8')
        self.assertEqual(['no \N{REPLACEMENT CHARACTER}'],
                         [result.reason for result in self.read()])

    def test_other_output_is_ignored(self) -> None:
        self.written.write(b'a warning\n')
        self.ran('a', 'success')
        self.assertEqual(['a'], [result.name for result in self.read()])


class StatusTest(testtools.TestCase):
    """Tempest's own exit status."""

    # A stand-in for Tempest: one test passes.
    _PROGRAM = """\
#!{python}
import sys, subunit
stream = subunit.StreamResultToBytes(sys.stdout.buffer)
stream.status(test_id='a', test_status='inprogress')
stream.status(test_id='a', test_status='success')
sys.exit({status})
"""

    def run_tempest(self, status: int) -> int:
        data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        program = data / 'tempest'
        program.write_text(self._PROGRAM.format(python=sys.executable, status=status))
        program.chmod(0o755)
        for name, value in (('cloud.openstack.layout.BIN', data),
                            ('cloud.tempest_conf.furnish', lambda cloud: {}),
                            ('cloud.tempest_conf.hosts', lambda *_: {}),
                            ('cloud.cloud.Cloud.backups', contextlib.nullcontext)):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        parser = argparse.ArgumentParser()
        tempest.add(parser.add_subparsers())
        args = parser.parse_args(['tempest', '--data', str(data), '--cloud', str(data), '--quick'])
        return tempest.run(args, lambda line: None)

    def test_status_0_is_success(self) -> None:
        self.assertEqual(0, self.run_tempest(0))

    def test_other_status_is_an_error_though_all_tests_passed(self) -> None:
        error = self.assertRaises(commands.CloudError, self.run_tempest, 3)
        self.assertIn('Tempest ended with status 3', str(error))


class CompareTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        same = [results.Result('a', results.PASSED), results.Result('b', results.SKIPPED, 'why')]
        self.on = results.Run('on', [*same, results.Result('c', results.FAILED, 'x\ny')], 10.4)
        self.off = results.Run('off', [*same, results.Result('c', results.PASSED)], 9.6)

    def test_equal_runs_have_no_differences(self) -> None:
        self.assertEqual([], results.differences(self.on, self.on))

    def test_other_status_is_a_difference(self) -> None:
        self.assertEqual(['c: failed on, passed off'], results.differences(self.on, self.off))

    def test_missing_test_is_a_difference(self) -> None:
        less = results.Run('off', self.off.results[1:], 1)
        self.assertEqual(['a: passed on, not run off', 'c: failed on, passed off'],
                         results.differences(self.on, less))
        self.assertEqual(['c: passed off, failed on', 'a: not run off, passed on'],
                         results.differences(less, self.on))

    def test_table_counts_results(self) -> None:
        self.assertEqual([['passed', 'failed', 'skipped', 'seconds'],
                          ['on', '1', '1', '1', '10'], ['off', '2', '0', '1', '10']],
                         [line.split() for line in results.table([self.on, self.off])])

    def test_report_has_failures_and_skips(self) -> None:
        lines = [line.strip() for line in results.report([self.on, self.off]).splitlines()]
        for line in ('on:', 'failed   c', 'x', 'y', 'skipped  b', 'why', 'off:', 'passed   c'):
            self.assertIn(line, lines)

    def test_status_is_0_only_if_each_run_passed_and_none_failed(self) -> None:
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        skipped = results.Run('on', [results.Result('b', results.SKIPPED, 'why')], 1)
        for runs, status in (([self.off], 0), ([self.off, self.on], 1),
                             ([self.off, skipped], 1)):
            self.assertEqual(status, tempest._report(root, runs))

    def test_page_escapes_texts(self) -> None:
        wrong = results.Run('<hosts>', [results.Result('d', results.FAILED, 'a\n1 < 2')], 7)
        page = tempest_page.page('all & more', [self.off, wrong])
        for text in ('<title>all &amp; more</title>', '<h2>off</h2>', '<h2>&lt;hosts&gt;</h2>',
                     '<summary>1 &lt; 2</summary>', '<pre>a\n1 &lt; 2</pre>'):
            self.assertIn(text, page)
        self.assertTrue(etree.HTML(page).findall('.//tr'))


class ConfTest(testtools.TestCase):

    def test_configuration_of_block_storage(self) -> None:
        data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        made = cloud.Cloud(data / 'cloud', port=20000)
        credentials.create(made.files)
        path = data / 'tempest.conf'
        private.write(path, private.ini(tempest_conf.block_storage(made, data)))
        conf = cfg.ConfigOpts()
        conf.register_opts([cfg.StrOpt('admin_password')], 'auth')
        conf.register_opts([cfg.ListOpt('backend_names'),
                            cfg.ListOpt('manage_snapshot_ref')], 'volume')
        conf.register_opts([cfg.URIOpt('uri_v3')], 'identity')
        conf(args=[], default_config_files=[str(path)])
        self.assertEqual(credentials.load(made.files)['admin'], conf.auth.admin_password)
        self.assertEqual(['rbd', 'rbd2'], conf.volume.backend_names)
        self.assertEqual(['source-name', 'snapshot-%s'], conf.volume.manage_snapshot_ref)
        self.assertEqual('http://127.0.0.1:20000/v3', conf.identity.uri_v3)
        self.assertEqual(0o600, path.stat().st_mode & 0o777)


    def test_configuration_of_a_cloud_with_hosts(self) -> None:
        data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        made = cloud.Cloud(data / 'a cloud', port=20000, hosts=3, engines=1)
        credentials.create(made.files)
        path = data / 'tempest.conf'
        private.write(path, private.ini(tempest_conf.hosts(
            made, data, {'g1': 'image-id', 'tempest.1': 'one', 'tempest.2': 'two'})))
        conf = cfg.ConfigOpts()
        conf.register_opts([cfg.BoolOpt('nova'), cfg.BoolOpt('specreds')], 'service_available')
        conf.register_opts([cfg.StrOpt('image_ref'), cfg.StrOpt('flavor_ref_alt')], 'compute')
        conf.register_group(config.GROUP)
        conf.register_opts(config.OPTIONS, config.GROUP)
        conf(args=[], default_config_files=[str(path)])
        self.assertTrue(conf.service_available.nova and conf.service_available.specreds)
        self.assertEqual(('image-id', 'two'),
                         (conf.compute.image_ref, conf.compute.flavor_ref_alt))
        self.assertEqual(
            ['host', 'kill', '--data', str(data / 'a cloud'), '{host}'],
            shlex.split(conf.specreds.host_kill_command)[-5:])


@ddt.ddt
class SelectionTest(testtools.TestCase):

    get = 'tempest.api.volume.test_volumes_get.VolumesGetTest.test_get[id-1,smoke]'
    extend = 'tempest.api.volume.test_volumes_extend.VolumesExtendTest.test_extend_smoke[id-2]'
    compute = 'tempest.api.compute.test_x.XTest.test_get[id-3,smoke]'

    def selected(self, *words: str) -> list[str]:
        parser = argparse.ArgumentParser()
        tempest.add(parser.add_subparsers())
        regex = tempest.selection(parser.parse_args(['tempest', *words]))
        return [name for name in (self.get, self.extend, self.compute) if re.search(regex, name)]

    def test_default_selects_smoke_tests(self) -> None:
        self.assertEqual([self.get], self.selected())

    def test_all_selects_all_tests(self) -> None:
        self.assertEqual([self.get, self.extend], self.selected('--all'))

    def test_regex_selects_matching_tests(self) -> None:
        self.assertEqual([self.extend], self.selected('VolumesExtend'))

    def sets(self, *words: str) -> dict[str, list[str]]:
        parser = argparse.ArgumentParser()
        tempest.add(parser.add_subparsers())
        names = [
            self.get, self.extend, self.compute,
            'tempest.api.compute.servers.test_server_actions.ServerActionsTestJSON.test_a[id-4]',
            'tempest.api.compute.servers.test_other.OtherTest.test_a[id-5]',
            'tempest_plugin.api.test_a.ATest.test_a[id-6]',
            'tempest_plugin.scenario.test_a.ATest.test_a[id-7,slow]']
        return {title: [name[-8:] for name in names if re.search(regex, name)]
                for title, regex in tempest.selections(
                    parser.parse_args(['tempest', *words])).items()}

    def test_sets(self) -> None:
        self.assertEqual({'this project': ['_a[id-6]', '-7,slow]'], 'volumes': ['1,smoke]'],
                          'servers': ['3,smoke]', '_a[id-4]']}, self.sets())
        self.assertEqual(['1,smoke]', 'ke[id-2]'], self.sets('--all')['volumes'])

    def test_other_sets(self) -> None:
        self.assertEqual({'APIs of this project': ['_a[id-6]']}, self.sets('--quick'))
        self.assertEqual({'chosen': ['ke[id-2]']}, self.sets('VolumesExtend'))

    @ddt.data('tempest.api.volume.test_a.ATest.test_upload[id-1,image]',
              'tempest.api.volume.test_a.ATest.test_upload[id-1,image,smoke]',
              'tempest.api.volume.test_volumes_extend.VolumesExtendTest.test_volume_extend[id-1]')
    def test_needs_images(self, name: str) -> None:
        self.assertTrue(re.search(tempest.EXCLUDED, name))

    @ddt.data('tempest.api.volume.test_image_a.ATest.test_image[id-1]', get, extend)
    def test_needs_none(self, name: str) -> None:
        self.assertFalse(re.search(tempest.EXCLUDED, name))
