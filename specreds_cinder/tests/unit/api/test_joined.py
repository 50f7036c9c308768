# SPDX-License-Identifier: Apache-2.0
"""The views of several back ends are joined into one superposition."""

from typing import Any

import ddt
import testtools

from specreds_cinder.api import joined
from specreds_cinder.tests.unit.api import base

_MEMBERS = [base.HOST, base.OTHER_HOST]


def _lead(state: str = 'superposed', **changes: Any) -> dict[str, Any]:
    return base.view(state=state, members=_MEMBERS, **changes)


def _other(state: str = 'superposed', **changes: Any) -> dict[str, Any]:
    return base.view(volume_ids=(base.SECOND,), host=base.OTHER_HOST, state=state,
                     members=_MEMBERS, **changes)


@ddt.ddt
class TestJoin(testtools.TestCase):

    def join(self, *views: dict[str, Any], **silent: list[str]) -> joined.Superposition:
        hosts = {'lead': base.HOST, 'other': base.OTHER_HOST}
        return joined.join(base.ID, views, {hosts[name]: ids for name, ids in silent.items()},
                           base.OTHER_PROJECT)

    @ddt.data(('superposed', 'superposed', 'superposed'), ('promoted', 'collapsing', 'promoted'),
              ('aborting', 'superposed', 'aborting'), ('merged', 'promoted', 'promoted'),
              ('merged', 'merging', 'merging'), ('merged', 'merged', 'merged'))
    @ddt.unpack
    def test_state_of_two_back_ends(self, lead: str, other: str, expected: str) -> None:
        for views in ((_lead(lead), _other(other)), (_other(other), _lead(lead))):
            self.assertEqual(expected, self.join(*views).state)

    def test_state_of_the_others_counts_after_the_leader_ended(self) -> None:
        view = self.join(_other('merging'))
        self.assertEqual(('merging', base.HOST, (base.OTHER_HOST,)),
                         (view.state, view.lead, view.present))

    def test_state_is_unknown_while_the_leader_is_silent(self) -> None:
        view = self.join(_other('collapsing'), lead=[base.VOLUME])
        self.assertEqual(('unknown', base.HOST, (base.HOST,), None, base.PROJECT),
                         (view.state, view.lead, view.unreachable, view.overlay_bytes,
                          view.project_id))
        self.assertEqual({base.VOLUME, base.SECOND}, {volume['id'] for volume in view.volumes})

    def test_dirty_is_unknown_while_another_back_end_is_silent(self) -> None:
        view = self.join(_lead(dirty=False), other=[base.SECOND])
        self.assertEqual(('superposed', None, (base.OTHER_HOST,)),
                         (view.state, view.dirty, view.unreachable))

    def test_slowest_back_end_limits_the_merge(self) -> None:
        for rates, expected in (((None, None), None), ((0, 0), 0), ((0, 2), 2), ((3, 2), 2)):
            view = self.join(_lead(merge_bytes_per_second=rates[0]),
                             _other(merge_bytes_per_second=rates[1]))
            self.assertEqual(expected, view.merge_bytes_per_second)

    def test_all_back_ends_are_silent(self) -> None:
        view = self.join(lead=[base.VOLUME], other=[base.SECOND])
        self.assertEqual(('unknown', base.OTHER_PROJECT, None, None),
                         (view.state, view.project_id, view.created_at, view.dirty))

    @ddt.data((False, False, False), (False, True, True), (None, True, True), (False, None, None))
    @ddt.unpack
    def test_dirty_on_one_back_end_is_dirty(self, lead: bool | None, other: bool | None,
                                            expected: bool | None) -> None:
        self.assertEqual(expected, self.join(_lead(dirty=lead), _other(dirty=other)).dirty)

    def test_sizes_are_added_and_times_are_extremes(self) -> None:
        view = self.join(_lead(age_seconds=1.0, created_at='2026-01-02T03:04:05Z'),
                         _other(age_seconds=2.0, created_at='2026-01-02T03:04:04Z',
                                updated_at='2026-01-02T03:04:09Z'))
        self.assertEqual((2 << 20, 2.0, '2026-01-02T03:04:04Z', '2026-01-02T03:04:09Z'),
                         (view.overlay_bytes, view.age_seconds, view.created_at,
                          view.updated_at))

    def test_unknown_size_makes_the_sum_unknown(self) -> None:
        volumes = [{'id': base.VOLUME, 'size_bytes': 1, 'overlay_bytes': None}]
        self.assertIsNone(self.join(base.view(volumes=volumes)).overlay_bytes)
