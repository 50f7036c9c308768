# SPDX-License-Identifier: Apache-2.0
"""The sentinel's decision for every combination of what it may know."""

import itertools
import typing

import testtools

from specreds_cinder.superposition.truth import states
from specreds_nova.sentinel import decide

_HERE, _ELSEWHERE = '198.51.100.7', '198.51.100.8'
_OWN, _OLD, _OTHER = f'{_HERE}:0/11', f'{_HERE}:0/12', f'{_ELSEWHERE}:0/13'
_ID = 'a' * 36
_IMAGE = 'volumes/volume-1'


def _record(state: str, fenced: frozenset[str] = frozenset(),
          outcome: str | None = None) -> decide.Superposition:
    return decide.Superposition(_ID, state, outcome, fenced)


def _facts(*uses: decide.Use | None, backup_of: str | None = None) -> decide.Facts:
    return decide.Facts(backup_of, frozenset({_HERE}), uses)


def _kind(*uses: decide.Use | None, backup_of: str | None = None) -> decide.Kind:
    return decide.decide(_facts(*uses, backup_of=backup_of)).kind


class _Case(typing.NamedTuple):
    """One combination of all inputs of the decision."""

    state: str | None
    outcome: str | None
    fenced: frozenset[str]
    clients: frozenset[str]
    blocklisted: bool
    noted: bool
    watched: bool
    through_overlay: bool
    backup_of: str | None

    def facts(self) -> decide.Facts:
        record = None if self.state is None else _record(self.state, self.fenced, self.outcome)
        return _facts(decide.Use(
            _IMAGE, record, self.clients, self.clients if self.blocklisted else frozenset(),
            self.fenced if self.noted else frozenset(), self.watched, self.through_overlay),
            backup_of=self.backup_of)


def _every_case() -> list[_Case]:
    outcomes = {states.PROMOTED: (states.PROMOTED,), states.MERGING: (states.PROMOTED,),
                states.MERGED: (states.PROMOTED,),
                states.ABORTING: (states.ABORTED, states.DIRTY, states.LATE_DIRTY)}
    cases = []
    for state in (None, *states.MOVES):
        for outcome in outcomes.get(state or '', (None,)):
            cases += [_Case(state, outcome, *rest) for rest in itertools.product(
                map(frozenset, ((), (_OWN,), (_OLD,), (_OTHER,), (_OWN, _OTHER))),
                map(frozenset, ((), (_OWN,))),
                *([False, True],) * 4, (None, _ID, 'b' * 36))]
    return cases


class DecideTestCase(testtools.TestCase):
    """Properties of the decision that hold for all combinations."""

    cases = _every_case()

    def _ended(self) -> list[_Case]:
        return [case for case in self.cases
                if decide.decide(case.facts()).kind is not decide.Kind.KEEP]

    def test_backup_of_the_superposition_is_kept(self) -> None:
        for case in self._ended():
            self.assertFalse(case.state is not None and (
                case.through_overlay or case.backup_of == _ID), str(case))

    def test_undecided_primary_is_ended_only_for_an_earlier_fence(self) -> None:
        undecided = (states.CREATING, states.SUPERPOSED, states.COLLAPSING)
        for case in self._ended():
            if case.state in undecided:
                self.assertTrue(case.blocklisted and case.clients and not case.watched, str(case))
                self.assertFalse(case.noted and case.clients & case.fenced, str(case))

    def test_aborted_primary_is_ended_only_for_an_earlier_fence(self) -> None:
        for case in self._ended():
            if case.outcome in (states.ABORTED, states.DIRTY):
                self.assertTrue(case.blocklisted and case.clients and not case.watched, str(case))
                self.assertFalse(case.noted and case.clients & case.fenced, str(case))

    def test_unsuperposed_domain_is_ended_only_if_its_fence_lasts(self) -> None:
        for case in self._ended():
            if case.state is None:
                self.assertTrue(case.blocklisted and case.clients and not case.watched, str(case))

    def test_connected_domain_is_ended_only_before_the_merge_ends(self) -> None:
        for case in self._ended():
            if case.watched:
                self.assertIn(case.state, (states.PROMOTED, states.MERGING), str(case))

    def test_domain_is_ended_after_the_merge_only_if_its_own_client_was_fenced(self) -> None:
        for case in self._ended():
            if case.state == states.MERGED:
                self.assertTrue(case.clients & case.fenced or case.blocklisted, str(case))

    def test_domain_on_another_host_than_the_fenced_one_is_kept(self) -> None:
        for case in self._ended():
            if case.state in (states.PROMOTED, states.MERGING) and not case.blocklisted:
                self.assertTrue(not case.fenced or case.fenced & {_OWN, _OLD}, str(case))

    def test_stale_primary_is_ended(self) -> None:
        for case in self.cases:
            if (case.state in states.DECIDED and _OWN in case.fenced & case.clients
                    and not case.watched and not case.through_overlay
                    and case.backup_of != _ID):
                self.assertIs(decide.Kind.STALE, decide.decide(case.facts()).kind, str(case))


class UseTestCase(testtools.TestCase):
    """Single rules of the decision, each with the case that it is for."""

    def test_domain_without_evidence_is_kept(self) -> None:
        self.assertIs(decide.Kind.KEEP, _kind())
        self.assertIs(decide.Kind.KEEP, _kind(decide.Use(_IMAGE)))

    def test_one_unknown_image_keeps_the_domain(self) -> None:
        stale = decide.Use(_IMAGE, _record(states.PROMOTED, frozenset({_OWN})), frozenset({_OWN}))
        self.assertIs(decide.Kind.STALE, _kind(stale))
        self.assertIs(decide.Kind.UNKNOWN, _kind(stale, None))

    def test_one_stale_image_ends_the_domain(self) -> None:
        stale = decide.Use(_IMAGE, _record(states.PROMOTED, frozenset({_OWN})), frozenset({_OWN}))
        self.assertIs(decide.Kind.STALE, _kind(decide.Use('volumes/volume-2'), stale))

    def test_one_image_of_its_own_recovery_keeps_the_domain(self) -> None:
        stale = decide.Use(_IMAGE, _record(states.PROMOTED, frozenset({_OWN})), frozenset({_OWN}))
        own = decide.Use('volumes/volume-2', _record(states.MERGED), through_overlay=True)
        self.assertIs(decide.Kind.KEEP, _kind(stale, own))

    def test_new_client_on_the_fenced_host_is_stale_before_the_merge(self) -> None:
        use = decide.Use(_IMAGE, _record(states.PROMOTED, frozenset({_OLD})), frozenset({_OWN}))
        self.assertIs(decide.Kind.STALE, _kind(use))

    def test_new_client_on_the_fenced_host_is_kept_after_the_merge(self) -> None:
        use = decide.Use(_IMAGE, _record(states.MERGED, frozenset({_OLD})), frozenset({_OWN}),
                         watched=False)
        self.assertIs(decide.Kind.KEEP, _kind(use))

    def test_domain_is_stale_before_the_merge_if_no_client_was_fenced(self) -> None:
        self.assertIs(decide.Kind.STALE, _kind(decide.Use(_IMAGE, _record(states.PROMOTED))))
        self.assertIs(decide.Kind.KEEP, _kind(decide.Use(_IMAGE, _record(states.MERGED))))

    def test_late_dirty_primary_is_stale(self) -> None:
        aborting = _record(states.ABORTING, frozenset({_OWN}), states.LATE_DIRTY)
        self.assertIs(decide.Kind.STALE,
                      _kind(decide.Use(_IMAGE, aborting, frozenset({_OWN}), watched=False)))

    def test_blocklisted_client_is_fenced_after_the_end_of_the_record(self) -> None:
        use = decide.Use(_IMAGE, None, frozenset({_OWN}), frozenset({_OWN}), watched=False)
        self.assertIs(decide.Kind.FENCED, _kind(use))

    def test_client_fenced_before_the_superposition_is_fenced(self) -> None:
        use = decide.Use(_IMAGE, _record(states.SUPERPOSED), frozenset({_OWN}), frozenset({_OWN}),
                         watched=False)
        self.assertIs(decide.Kind.FENCED, _kind(use))

    def test_domain_is_kept_while_the_fence_is_being_placed(self) -> None:
        use = decide.Use(_IMAGE, _record(states.COLLAPSING, frozenset({_OWN})), frozenset({_OWN}),
                         frozenset({_OWN}), frozenset({_OWN}), watched=False)
        self.assertIs(decide.Kind.KEEP, _kind(use))

    def test_mark_of_an_earlier_recovery_does_not_keep_the_domain(self) -> None:
        use = decide.Use(_IMAGE, _record(states.PROMOTED, frozenset({_OWN})), frozenset({_OWN}))
        self.assertIs(decide.Kind.STALE, _kind(use, backup_of='b' * 36))
        self.assertIs(decide.Kind.KEEP, _kind(use, backup_of=_ID))
