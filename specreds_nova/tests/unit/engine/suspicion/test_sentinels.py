# SPDX-License-Identifier: Apache-2.0
"""What is recorded of the sentinels of hosts."""

from unittest import mock

import ddt
import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import sentinels


class _Case(testtools.TestCase):
    """An engine that hears two hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.reported = {'cn1': model.LIVE, 'cn2': model.SILENT}
        self.mode: str | None = model.ACT
        # When the latest report that servers are hidden was sent; None for one that they are not.
        self.sent: float | None = 0.0
        # By host that may hide no server: its generation.
        self.showing: dict[str, int] = {}
        self.voices: dict[str, str] = {}
        # Since when hosts are silent, the silent hosts of the database, and who hears which host.
        self.silences: dict[str, float | None] = {}
        self.silent: dict[str, float] = {}
        self.hearing: dict[str, tuple[str, ...]] = {}
        self.database, modes, clock = mock.Mock(), mock.Mock(), mock.Mock()
        self.database.showing.side_effect = lambda: dict(self.showing)
        self.database.hide.side_effect = lambda name, generation: bool(self.showing.pop(name))
        modes.of.side_effect = self._mode
        self.database.silent.side_effect = lambda: frozenset(self.silent)
        clock.now.side_effect = lambda: self.now
        clock.wall.side_effect = lambda: self.now + 500.0
        self.sentinels = sentinels.Sentinels(
            lambda: self.reported, self._hides, modes, self.database, clock, lambda: self.voices,
            lambda: self.silences, lambda host: self.hearing.get(host, ()))

    def _mode(self, host: str) -> str:
        del host
        if self.mode is None:
            raise exception.Unreachable('Nova has not said yet where it is')
        return self.mode

    def _hides(self, host: str, after: float) -> bool | None:
        del host
        return False if self.sent is None else True if self.sent >= after else None

    def looked(self) -> list[tuple[str, str]]:
        """Return what one look records."""
        self.database.report.reset_mock()
        self.sentinels.look()
        return [(call.args[0], call.args[2]) for call in self.database.report.call_args_list]


class SentinelsTest(_Case):
    """The states of sentinels."""

    def test_changes_are_recorded_once(self) -> None:
        self.assertEqual([('cn1', model.LIVE), ('cn2', model.SILENT)], self.looked())
        self.assertEqual([], self.looked())
        self.reported['cn2'] = model.LIVE
        self.assertEqual([('cn2', model.LIVE)], self.looked())

    def test_what_is_recorded_is_not_recorded_again(self) -> None:
        self.sentinels.know([model.Host('cn1', sentinel=model.LIVE), model.Host('cn2')])
        self.assertEqual([('cn2', model.SILENT)], self.looked())

    def test_database_that_is_away_gets_it_later(self) -> None:
        self.database.report.side_effect = exception.Unreachable('away')
        self.database.showing.side_effect = exception.Unreachable('away')
        self.assertEqual(1, len(self.looked()))
        self.database.report.side_effect = None
        self.assertEqual(2, len(self.looked()))

    def test_voices_are_recorded_once_they_were_heard_in_two_looks(self) -> None:
        self.reported = {}
        self.sentinels.know([model.Host('cn1', voices=model.BOTH), model.Host('cn2')])
        for voices, recorded in (({'cn1': model.BOTH, 'cn2': model.NOVA_ALONE}, []),
                                 ({'cn1': model.NOVA_ALONE, 'cn2': model.BOTH}, []),
                                 ({'cn1': model.BOTH, 'cn2': model.BOTH}, [('cn2', model.BOTH)]),
                                 ({'cn1': model.SENTINEL_ALONE}, []),
                                 ({'cn1': model.SENTINEL_ALONE}, [('cn1', model.SENTINEL_ALONE)])):
            self.voices = voices
            self.assertEqual(recorded, self.looked())

    def test_silence_is_recorded_that_two_looks_and_every_engine_find(self) -> None:
        looks: tuple[tuple[dict[str, float | None], dict[str, tuple[str, ...]],
                           dict[str, float | None]], ...] = (
                ({'cn1': 990.0, 'cn2': None}, {}, {}),
                ({'cn1': 995.0, 'cn2': None}, {}, {}),
                ({'cn1': 995.0, 'cn2': None}, {'cn1': ('e2',)}, {}),
                ({'cn1': 995.0, 'cn2': None}, {}, {'cn1': 1495.0}),
                # An engine that may be deaf says nothing.
                ({}, {}, {}),
                # Any engine ends the silence, whichever has recorded it.
                ({'cn1': 995.0, 'cn2': None}, {}, {'cn2': None}))
        for silences, hearing, recorded in looks:
            self.silences, self.hearing = silences, hearing
            self.silent = {'cn2': 1.0} if recorded == {'cn2': None} else {}
            self.database.silence.reset_mock()
            self.sentinels.look()
            self.database.silence.assert_called_once_with(recorded)

    def test_thousands_of_changes_take_several_looks(self) -> None:
        self.reported = {f'cn{number}': model.LIVE for number in range(150)}
        self.assertEqual([100, 50, 0], [len(self.looked()) for _ in range(3)])


@ddt.ddt
class ShowingTest(_Case):
    """A host that was told to hide no server, since second 1000."""

    def setUp(self) -> None:
        super().setUp()
        self.showing = {'cn1': 7}

    def counts(self, seconds: float, step: float = 1.0) -> bool:
        """Look each second for some seconds, with new reports; return whether the host counts."""
        until = self.now + seconds
        while self.now < until:
            self.now += step
            if self.sent is not None:
                self.sent = self.now - 0.5
            self.looked()
        return 'cn1' not in self.showing

    def test_host_counts_again_when_it_reports_so_after_a_while_of_acting(self) -> None:
        self.assertFalse(self.counts(30.0))
        self.assertTrue(self.counts(2.0))
        self.database.hide.assert_called_once_with('cn1', 7)

    def test_report_from_before_does_not_count(self) -> None:
        self.sent, seconds = None, 31.0
        self.counts(1.0)
        self.sent = self.now
        for _ in range(int(seconds)):
            self.now += 1.0
            self.looked()
        self.assertIn('cn1', self.showing)
        self.assertTrue(self.counts(1.0))

    @ddt.data(model.OBSERVE, model.PAUSE, None)
    def test_host_counts_only_where_engines_act_all_the_time(self, mode: str | None) -> None:
        self.mode = mode
        self.assertFalse(self.counts(60.0))
        self.mode = model.ACT
        self.assertFalse(self.counts(20.0))
        self.mode = mode
        self.counts(1.0)
        self.mode = model.ACT
        self.assertFalse(self.counts(30.0))
        self.assertTrue(self.counts(2.0))

    def test_host_that_is_told_once_more_begins_anew(self) -> None:
        self.counts(20.0)
        self.showing['cn1'] = 8
        self.assertFalse(self.counts(30.0))
        self.assertTrue(self.counts(2.0))

    def test_host_that_reports_otherwise_meanwhile_begins_anew(self) -> None:
        self.counts(20.0)
        self.sent = None
        self.counts(1.0)
        self.sent = self.now
        self.assertFalse(self.counts(30.0))
        self.assertTrue(self.counts(2.0))

    def test_engine_that_stood_still_begins_anew(self) -> None:
        self.counts(2.0)
        self.now += 60.0
        self.assertFalse(self.counts(30.0))
        self.assertTrue(self.counts(2.0))
