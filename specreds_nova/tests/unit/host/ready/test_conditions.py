# SPDX-License-Identifier: Apache-2.0
import types
from typing import Any

import ddt
import fixtures
import testtools

from specreds_nova.host.ready import conditions


def _server(metadata: dict[str, str] | None = None, **image: str) -> Any:
    return types.SimpleNamespace(
        uuid='server', metadata=metadata or {},
        system_metadata={f'image_{name}': value for name, value in image.items()})


@ddt.ddt
class TestParse(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(conditions, 'READY_TIMEOUT_S', 77.0))

    @ddt.data('agent', 'agent:/usr/bin/pg_isready -q', 'line:org.specreds.ready',
              r'console:^ready \d+$', 'tcp:5432', 'delay:2.5', 'delay:0',
              'boot')
    def test_valid_condition_is_parsed(self, text: str) -> None:
        condition = conditions.parse(_server({'specreds:ready': text}))
        self.assertEqual(text, str(condition))
        self.assertEqual(77, condition.timeout)
        self.assertFalse(condition.owned)

    @ddt.data('', 'soon', 'line', 'line:', 'line:a b', 'line:org.qemu.guest_agent.0', 'tcp',
              'tcp:0', 'tcp:65536', 'tcp:http', 'tcp:²', 'console:(', 'delay:-1', 'delay:nan',
              'delay:x', 'delay:1e9', 'agent: ', 'agent:"', 'boot:1',
              r'console:(a)\1', 'console:(?=a)b')
    def test_invalid_condition_is_refused(self, text: str) -> None:
        error = self.assertRaises(conditions.BadCondition, conditions.parse,
                                  _server({'specreds:ready': text}))
        self.assertIn(repr(text), str(error))
        self.assertIn('specreds:ready', str(error))

    def test_metadata_precede_the_image(self) -> None:
        server = _server({'specreds:ready': 'tcp:80'}, specreds_ready='delay:1',
                         specreds_ready_timeout='9')
        condition = conditions.parse(server)
        self.assertEqual((conditions.Kind.TCP, 9), (condition.kind, condition.timeout))
        self.assertTrue(condition.owned)
        del server.metadata['specreds:ready']
        server.metadata['specreds:ready_timeout'] = '8'
        condition = conditions.parse(server)
        self.assertEqual((conditions.Kind.DELAY, 8), (condition.kind, condition.timeout))

    def test_long_value_is_refused_and_quoted_in_part(self) -> None:
        for key in ('specreds:ready', 'specreds:ready_timeout'):
            conditions.parse(_server({key: f'{"0" * 254}1' if 'timeout' in key
                                      else f'agent:{"x" * 249}'}))
            for value in ('9' * 256, f'console:{"x" * 100_000}'):
                error = self.assertRaises(conditions.BadCondition, conditions.parse,
                                          _server({key: value}))
                self.assertIn('more than 255 characters', str(error))
                self.assertTrue(len(str(error)) < 500)

    def test_default_names_the_refused_condition(self) -> None:
        condition = conditions.default(_server(hw_qemu_guest_agent='yes'), refused='no sense')
        self.assertEqual('agent (by default: no sense)', str(condition))
        self.assertEqual(77, condition.timeout)
        self.assertEqual([], condition.devices())

    def test_invalid_timeout_is_refused(self) -> None:
        error = self.assertRaises(conditions.BadCondition, conditions.parse,
                                  _server({'specreds:ready_timeout': 'long'}))
        self.assertIn('specreds:ready_timeout', str(error))

    def test_default_condition_without_metadata(self) -> None:
        self.assertEqual('boot', str(conditions.parse(_server())))
        self.assertEqual('agent', str(conditions.parse(_server(hw_qemu_guest_agent='yes'))))


class TestDevices(testtools.TestCase):

    def _devices(self, text: str, **image: str) -> list[str]:
        return [device.to_xml(pretty_print=False) for device in conditions.parse(
            _server({'specreds:ready': text}, **image)).devices()]

    def test_port_of_a_condition_is_added(self) -> None:
        self.assertEqual(['<channel type="unix"><target type="virtio" name="a.b"/></channel>'],
                         self._devices('line:a.b'))

    def test_port_of_the_agent_is_added_once(self) -> None:
        [channel] = self._devices('agent')
        self.assertIn('org.qemu.guest_agent.0', channel)
        self.assertEqual([], self._devices('agent', hw_qemu_guest_agent='true'))

    def test_condition_without_a_port_adds_none(self) -> None:
        for text in ('tcp:80', 'console:x', 'delay:1'):
            self.assertEqual([], self._devices(text))
