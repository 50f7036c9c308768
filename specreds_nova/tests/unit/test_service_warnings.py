# SPDX-License-Identifier: Apache-2.0
import pathlib
import tempfile

import testtools

from specreds_nova.tests.cloud import service_warnings

_OLD = '2026-11-25 09:00:00.000 52 ERROR nova.compute.manager [-] before the test\n'
_INFO = '2026-11-25 09:00:01.000 52 INFO nova.compute.manager [-] in the test\n'
_WARNING = '2026-11-25 09:00:02.000 52 WARNING specreds_nova.host [-] in the test\n'
_SWITCH = '2026-11-25T09:00:03Z|00042|bridge|WARN|could not open network device\n'


class WarningsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.compute = pathlib.Path(scratch.name, 'nova-compute.out')
        self.switch = pathlib.Path(scratch.name, 'ovs-vswitchd.out')
        self.compute.write_text(_OLD)
        self.logs = {'cn1/nova-compute': self.compute, 'cn1/ovs-vswitchd': self.switch}

    def test_only_new_warnings_are_shown_with_their_service(self) -> None:
        noted = service_warnings.Warnings(self.logs)
        self.assertEqual('', noted.text())
        with self.compute.open('a') as log:
            log.write(_INFO + _WARNING)
        self.switch.write_text(_SWITCH)
        self.assertEqual(f'cn1/nova-compute: {_WARNING}cn1/ovs-vswitchd: {_SWITCH}'.rstrip(),
                         noted.text())

    def test_what_services_warn_of_in_any_run_is_left_out(self) -> None:
        noted = service_warnings.Warnings(self.logs)
        self.compute.write_text(_WARNING.replace('in the test', 'binding code is deprecated'))
        self.assertEqual('', noted.text())

    def test_log_that_was_begun_anew_is_read_whole(self) -> None:
        noted = service_warnings.Warnings(self.logs)
        self.compute.write_text('2026 ERROR x\n')
        self.assertEqual('cn1/nova-compute: 2026 ERROR x', noted.text())

    def test_last_warnings_of_a_talkative_service_are_kept(self) -> None:
        noted = service_warnings.Warnings(self.logs)
        self.switch.write_text(''.join(f'{number}|x|WARN|repeated\n' for number in range(100)))
        lines = noted.text().splitlines()
        self.assertEqual('cn1/ovs-vswitchd: 99|x|WARN|repeated', lines[-1])
        self.assertGreater(20, len(lines))

    def test_errors_are_last_and_are_kept(self) -> None:
        noted = service_warnings.Warnings(self.logs)
        with self.compute.open('a') as log:
            log.write('2026 ERROR the cause\n' + _WARNING * 100)
        self.switch.write_text(_SWITCH)
        lines = noted.text().splitlines()
        self.assertEqual('cn1/nova-compute: 2026 ERROR the cause', lines[-1])
        self.assertIn(f'cn1/ovs-vswitchd: {_SWITCH}'.rstrip(), lines)
