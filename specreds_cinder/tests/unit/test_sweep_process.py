# SPDX-License-Identifier: Apache-2.0
"""A process of a sweep answers each request, and whatever else it answers is an error."""

import io
import json
import sys
from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import sweep_process

_READY = {'value': {'form': 1}}
_MALFORMED = ('nonsense', '{', '', '5', 'null', '[]', '"value"', '{}', '{"error": "KeyError"}',
              '{"error": "ClusterError"}', '{"error": "KeyError", "message": ""}',
              '{"error": [], "message": ""}', '[' * 100_000)


class ProcessTest(testtools.TestCase):

    def process(self, script: str) -> sweep_process.Process:
        """Start a process that runs a script."""
        self.patch(sweep_process, 'COMMAND', (sys.executable, '-c', script))
        process = sweep_process.Process({})
        self.addCleanup(process.close)
        self.addCleanup(process.kill)
        return process

    def test_malformed_answer_is_an_error(self) -> None:
        process = self.process(f"import sys; sys.stdout.write('\\n'.join({_MALFORMED!r}) + '\\n')")
        for _ in _MALFORMED:
            error = self.assertRaises(errors.ClusterError, process.answer)
            self.assertIn('malformed answer', str(error))
        self.assertRaises(sweep_process.ProcessLost, process.answer)

    def test_process_of_another_form_is_not_ready(self) -> None:
        process = self.process('print(\'{"value": null}\\n{"value": {"form": 2}}\\n'
                               '{"value": {"form": 1}}\')')
        for _ in range(2):
            error = self.assertRaises(errors.ClusterError, process.ready)
            self.assertIn('instead of form 1', str(error))
        process.ready()


class ServeTest(testtools.TestCase):
    """The work of a process, in this one."""

    def setUp(self) -> None:
        super().setUp()
        self.aio = mock.Mock(**{'wait_for_latest_osdmap.return_value': None,
                                'ioctx.return_value.stat_versions.return_value': [7, 0]})
        self.cluster = mock.Mock(aio=self.aio)
        self.made = mock.Mock(return_value=self.cluster)
        self.patch(ceph, 'Cluster', self.made)
        self.answers = io.StringIO()

    def serve(self, *requests: object) -> list[Any]:
        """Return the answers to requests, after which the process has disconnected."""
        parameters = {'conffile': '/etc/ceph/other.conf', 'user': 'cinder', 'timeout': 3.0,
                      'name': 'other'}
        lines = [json.dumps(request) for request in (
            {'form': 1, 'cluster': parameters, 'depth': 9}, *requests)]
        sweep_process.serve(io.StringIO('\n'.join(lines)), self.answers)
        self.made.assert_called_once_with(**parameters)
        self.cluster.close.assert_called_once_with()
        return [json.loads(line) for line in self.answers.getvalue().splitlines()]

    def test_process_is_ready_once_it_has_the_latest_osdmap(self) -> None:
        self.aio.wait_for_latest_osdmap.side_effect = lambda: self.assertEqual(
            '', self.answers.getvalue())
        self.assertEqual([_READY], self.serve())
        self.aio.wait_for_latest_osdmap.assert_called_once_with()

    def test_process_without_the_latest_osdmap_is_not_ready(self) -> None:
        self.aio.wait_for_latest_osdmap.side_effect = errors.ClusterTimeout('no monitor')
        self.assertEqual([{'error': 'ClusterTimeout', 'message': 'no monitor'}], self.serve())

    def test_answer_has_the_versions_of_the_objects(self) -> None:
        request = {'pool_id': 5, 'namespace': 'ns', 'prefix': 'rbd_data.2b', 'numbers': [1, 255]}
        self.assertEqual([_READY, {'value': [7, 0]}], self.serve(request))
        self.aio.ioctx.assert_called_once_with(5, 'ns')
        self.aio.ioctx().stat_versions.assert_called_once_with(
            [b'rbd_data.2b.0000000000000001', b'rbd_data.2b.00000000000000ff'], 9)

    def test_error_of_a_stat_is_answered(self) -> None:
        self.aio.ioctx().stat_versions.side_effect = errors.ClusterTimeout('stat of an object')
        request = {'pool_id': 5, 'namespace': '', 'prefix': 'p', 'numbers': [1]}
        self.assertEqual({'error': 'ClusterTimeout', 'message': 'stat of an object'},
                         self.serve(request)[-1])

    def test_process_disconnects_after_its_last_answer(self) -> None:
        # librados leaves its admin socket behind unless it disconnects.
        self.cluster.close.side_effect = lambda: self.assertEqual(
            [_READY], [json.loads(line) for line in self.answers.getvalue().splitlines()])
        self.serve()

    def test_request_of_another_form_is_refused(self) -> None:
        for line in ('{"cluster": {}}', '{"form": 2, "cluster": {}}'):
            answers = io.StringIO()
            sweep_process.serve(io.StringIO(line), answers)
            answer = json.loads(answers.getvalue())
            self.assertEqual('ClusterError', answer['error'])
            self.assertIn('knows form 1 only', answer['message'])
        self.made.assert_not_called()
