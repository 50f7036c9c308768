# SPDX-License-Identifier: Apache-2.0
"""Nova's records of evacuations, as its client reads them."""

from specreds_nova.engine import model
from specreds_nova.engine.clients import compute
from specreds_nova.tests.unit.engine.clients import base
from specreds_nova.tests.unit.engine.recovery import base as recoveries


class EvacuationTest(base.ServiceTest):
    """Which evacuation of a server is under way."""

    def setUp(self) -> None:
        super().setUp()
        self.compute = compute.Compute(self.session)

    def migrations(self, *rows: tuple[str, str | None, int, int | None]) -> None:
        """Let Nova list evacuations: status, destination, hours of creation and last change."""
        def time(hour: int) -> str:
            return f'1970-01-01T{hour:02}:00:00.000000'
        self.session.answer('GET', '/os-migrations', {'migrations': [
            {'status': status, 'dest_compute': host, 'created_at': time(created),
             'updated_at': changed and time(changed)}
            for status, host, created, changed in rows]})

    def test_destination_of_a_running_evacuation(self) -> None:
        self.migrations(('pre-migrating', 'h3', 1, 3), ('failed', 'h4', 2, 2))
        self.assertEqual(model.Evacuation('h3', claimed=True, updated=10800.0),
                         self.compute.evacuation('a'))
        self.migrations(('accepted', 'h2', 1, None))
        self.assertEqual(model.Evacuation('h2', claimed=False, updated=3600.0),
                         self.compute.evacuation('a'))
        self.migrations(('accepted', None, 1, None))
        self.assertEqual(model.Evacuation('', claimed=False, updated=3600.0),
                         self.compute.evacuation('a'))
        self.migrations()
        self.assertIsNone(self.compute.evacuation('a'))

    def test_evacuation_that_was_cut_off_before_the_latest_one_is_over(self) -> None:
        for latest in ('failed', 'error', 'done'):
            self.migrations(('pre-migrating', 'h3', 1, 2), (latest, 'h4', 3, 4))
            self.assertIsNone(self.compute.evacuation('a'))
        self.migrations(('pre-migrating', 'h3', 1, 2), ('accepted', 'h4', 3, None))
        self.assertEqual(model.Evacuation('h4', claimed=False, updated=10800.0),
                         self.compute.evacuation('a'))

    def test_evacuation_for_which_nova_takes_an_older_record_is_known(self) -> None:
        self.migrations(('pre-migrating', 'h3', 1, 4), ('accepted', 'h3', 3, None))
        self.assertEqual(model.Evacuation('h3', claimed=True, updated=14400.0),
                         self.compute.evacuation('a'))

    def test_move_that_is_under_way_names_the_other_host(self) -> None:
        def answer(*rows: tuple[str, str, str | None, str]) -> model.Move | None:
            self.session.answer('GET', '/os-migrations', {'migrations': [
                {'status': status, 'source_compute': source, 'dest_compute': host,
                 'migration_type': kind, 'created_at': f'1970-01-01T{hour:02}:00:00.000000'}
                for hour, (status, source, host, kind) in enumerate(rows)]})
            return self.compute.move(recoveries.make_server('a'))
        live, resize = 'live-migration', 'resize'
        self.assertEqual(model.Move('h2', begun=True), answer(('running', 'h1', 'h2', live)))
        self.assertEqual(model.Move('h2', begun=False), answer(('accepted', 'h1', 'h2', live)))
        self.assertEqual(model.Move('h3', begun=True), answer(('finished', 'h3', 'h1', resize)))
        self.assertEqual(model.Move('h3', begun=True), answer(
            ('error', 'h1', 'h2', live), ('migrating', 'h1', 'h3', resize),
            ('accepted', 'h1', 'h4', 'evacuation')))
        self.assertIsNone(answer(('completed', 'h1', 'h2', live), ('accepted', 'h1', None, live)))

    def conducted(self, *actions: str, result: str | None = None,
                  events: tuple[str, ...] = ('rebuild_server',)) -> str | None:
        """Return what Nova says of its latest request.

        :param actions: actions on the server, the newest first
        :param result: result of each event
        """
        self.session.answer('GET', '/servers/a/os-instance-actions', {'instanceActions': [
            {'action': action, 'request_id': f'req-{action}'} for action in actions]})
        self.session.answer('GET', '/servers/a/os-instance-actions/req-evacuate', {
            'instanceAction': {'action': 'evacuate', 'events': [
                {'event': event, 'result': result} for event in events]}})
        return self.compute.evacuation_request('a')

    def test_request_that_the_conductor_has_ended_with_an_error_is_given_up(self) -> None:
        self.assertEqual(model.GIVEN_UP, self.conducted('evacuate', 'create', result='Error'))
        # Neither is a request that comes after it.
        self.assertEqual(model.GIVEN_UP, self.conducted(
            'detach_volume', 'resetState', 'evacuate', 'create', result='Error'))

    def test_request_that_may_go_on_is_pending(self) -> None:
        self.assertEqual(model.PENDING, self.conducted('evacuate', 'create', events=()))
        for result in (None, 'Success'):
            self.assertEqual(model.PENDING, self.conducted('evacuate', result=result))
        self.assertEqual(model.PENDING, self.conducted(
            'evacuate', result='Error', events=('compute_rebuild_instance',)))

    def test_other_request_is_no_evacuation(self) -> None:
        self.assertIsNone(self.conducted('rebuild', 'evacuate', 'create', result='Error'))
        self.assertIsNone(self.conducted())
        self.session.fail('GET', '/servers/a/os-instance-actions', 404)
        self.assertIsNone(self.compute.evacuation_request('a'))
