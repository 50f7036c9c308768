# SPDX-License-Identifier: Apache-2.0
"""The default condition: the boot seems to be over."""

from typing import Any
from unittest import mock

import fixtures
import libvirt
import testtools

from specreds_nova.host.ready import probes

_XML = ('<domain><devices><serial><log file="/console"/></serial>'
        '<interface><target dev="tap1"/></interface></devices></domain>')


class _Proxy:
    """What Nova has instead of a domain under eventlet."""

    def __init__(self, domain: Any) -> None:
        self._obj = domain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._obj, name)


class _BootTest(testtools.TestCase):
    """A guest that boots, with a clock that the test moves."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 100.0
        self.cpu = 0.0
        self.delay = 0.0
        self.requests = 0
        self.packets = (0, 0)
        self.console: bytes | None = None
        self.useFixture(fixtures.MockPatch('time.monotonic', lambda: self.now))
        self.useFixture(fixtures.MockPatchObject(
            probes, 'console_tail', lambda path: self.console))
        domain = mock.Mock(spec=libvirt.virDomain)
        domain.blockStats.side_effect = lambda disk: (self.requests, 0, self.requests, 0, 0)
        domain.info.side_effect = lambda: [1, 0, 0, 1, int(self.cpu * 1e9)]
        domain.interfaceStats.side_effect = lambda device: (
            0, self.packets[0], 0, 0, 0, self.packets[1], 0, 0)
        domain.connect().domainListGetStats.side_effect = self.stats
        self.domain = domain
        self.boot = self.booting(domain)

    def booting(self, domain: Any) -> probes.Boot:
        """Return the probe of a domain."""
        guest = mock.Mock(_domain=domain)
        guest.get_xml_desc.return_value = _XML
        return probes.Boot(guest)

    def stats(self, domains: list[Any], kinds: int) -> list[tuple[Any, dict[str, int]]]:
        """Return what libvirt does; like libvirt, take nothing but domains."""
        self.assertEqual([self.domain], domains)
        self.assertEqual(libvirt.VIR_DOMAIN_STATS_VCPU, kinds)
        return [(self.domain, {'vcpu.current': 2, 'vcpu.0.state': 1,
                               'vcpu.0.delay': int(self.delay * 1e9), 'vcpu.1.delay': 0})]

    def busy(self, seconds: float) -> list[str | None]:
        """Let a guest boot: its processor and its disks work."""
        return self._pass(seconds, cpu=0.9, requests=100)

    def idle(self, seconds: float) -> list[str | None]:
        """Let a guest wait."""
        return self._pass(seconds, cpu=0.02, requests=1)

    @staticmethod
    def first(seen: list[str | None]) -> str:
        """Return the first thing that was observed."""
        return next(filter(None, seen), '')

    def _pass(self, seconds: float, cpu: float, requests: int, delay: float = 0.0
              ) -> list[str | None]:
        seen = []
        for _ in range(int(seconds * 4)):
            self.now += 0.25
            self.cpu += cpu / 4
            self.delay += delay / 4
            self.requests += requests // 4
            seen.append(self.boot.look())
        return seen


class BootTest(_BootTest):
    """A guest shows by what it does that its boot is over."""

    def test_login_prompt_of_an_idle_guest_is_ready(self) -> None:
        self.assertEqual({None}, set(self.busy(5)))
        self.console = b'Debian 12 vm ttyS0\n\nvm login: '
        self.assertEqual({None}, set(self.busy(2)))
        self.assertIsNone(self.idle(0.75)[-1])
        self.assertIn("'login: '", str(self.idle(0.5)[-1]))

    def test_ends_of_boots_are_known(self) -> None:
        for text in (b'Cloud-init v. 22.4.2 finished at Tue, 24 Nov 2026', b'g1 login:\n',
                     b'[  OK  ] Reached target multi-user.target - Multi-User System.',
                     b'[  OK  ] Reached target \x1b[0;1;39mGraphical Interface'):
            self.console = text
            self.boot._idle_since = self.now - 2
            self.assertIsNotNone(self.boot.look(), repr(text))

    def test_guest_that_has_used_the_network_is_ready_when_idle(self) -> None:
        self.busy(3)
        self.packets = (4, 2)
        self.assertIsNone(self.idle(2.75)[-1])
        self.assertIn('network', str(self.idle(0.5)[-1]))

    def test_guest_that_its_busy_host_delays_is_not_idle(self) -> None:
        self.packets = (4, 2)
        self.assertEqual({None}, set(self._pass(20, cpu=0.1, requests=1, delay=0.9)))
        self.idle(2.75)
        self.assertIn('network', str(self.idle(0.5)[-1]))

    def test_domain_behind_a_proxy_is_observed(self) -> None:
        self.boot = self.booting(_Proxy(self.domain))
        self.packets = (4, 2)
        self.assertIn('network', self.first(self.idle(4)))

    def test_idle_guest_without_a_sign_waits_for_the_end_of_the_time(self) -> None:
        # It may wait for its boot loader's menu, or be stuck.
        self.packets = (1, 0)
        self.assertEqual({None}, set(self.idle(29)))
        self.assertIn('30 s', self.first(self.idle(2)))

    def boots(self, seconds: int) -> list[str | None]:
        """Let a guest boot that writes to its console all the time."""
        seen = []
        for second in range(seconds):
            self.console = (self.console or b'') + b'[  OK  ] Started unit %d\n' % second
            seen += self.busy(1)
        return seen

    def test_boot_that_its_console_shows_is_waited_for(self) -> None:
        self.assertEqual({None}, set(self.boots(60)))
        self.assertEqual({None}, set(self.busy(13)))
        self.assertIn('74 s', self.first(self.busy(3)))

    def test_login_prompt_of_a_late_boot_that_goes_on_is_not_its_end(self) -> None:
        self.boots(45)
        self.console = b'vm login: '
        self.assertEqual({None}, set(self.busy(10)))
        self.assertIn("'login: '", self.first(self.idle(2)))

    def test_console_that_is_always_written_to_does_not_delay_a_backup_for_ever(self) -> None:
        self.assertEqual({None}, set(self.boots(119)))
        self.assertIn('120 s', self.first(self.boots(1)))

    def test_busy_guest_is_ready_at_the_end_of_the_time(self) -> None:
        self.packets = (9, 9)
        self.console = b'login: '
        self.assertEqual({None}, set(self.busy(29)))
        self.assertIn('30 s', self.first(self.busy(2)))
