# SPDX-License-Identifier: Apache-2.0
"""The settings of a deployment, printed for shell scripts."""

import contextlib
import io

import ddt
import testtools

from specreds_nova import deployment


@ddt.ddt
class PrintedSettingsTest(testtools.TestCase):

    def printed(self, *argv: str, status: int = 0) -> list[list[str]]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(status, deployment.main(argv))
        self.assertEqual(bool(status), 'usage: ' in err.getvalue())
        return [line.split('\t') for line in out.getvalue().splitlines()]

    def test_values_of_one_option_are_on_one_line(self) -> None:
        lines = {tuple(line[:2]): line[2:] for line in self.printed('cinder')}
        self.assertEqual(['cinder.api.contrib.standard_extensions',
                          'specreds_cinder.api.extension.Superpositions'],
                         lines['DEFAULT', 'osapi_volume_extension'])

    def test_parameters_are_filled_in(self) -> None:
        self.assertEqual([['ceph', 'volume_driver', deployment.VOLUME_DRIVER]],
                         self.printed('backend', 'name=ceph'))
        self.assertIn(['oslo_concurrency', 'lock_path', '/a=b'],
                      self.printed('engine', 'lock_path=/a=b'))

    @ddt.data([], ['nothing'], ['backend'], ['backend', 'ceph'], ['cinder', 'name=ceph'])
    def test_wrong_arguments_print_the_usage(self, argv: list[str]) -> None:
        self.assertEqual([], self.printed(*argv, status=2))
