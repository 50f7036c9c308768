# SPDX-License-Identifier: Apache-2.0
"""Step ``destination``: the engine chooses a host for the backup."""

from collections.abc import Mapping, Sequence

from specreds_nova.engine import model
from specreds_nova.engine.placing import capacity
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import verdict as verdicts

# Seconds until the next search after all candidates were at their limits.
_PAUSE = 0.5
# Seconds that an older recovery has for giving way.
_YIELD = 0.5
_TOGETHER = 'affinity'
# Policies of server groups that are never violated.
_STRICT = (_TOGETHER, 'anti-affinity')


def destination(run: runs.Run) -> verdicts.StepVerdict:
    """Return the host of the backup as the verdict's ``why``; choose it if none is recorded."""
    run.choosing = True
    try:
        if verdict := run.resumed() or run.over():
            return verdict
        if run.recovery.destination:
            return verdicts.StepVerdict(verdicts.STARTED, run.recovery.destination)
        return choose(run)
    finally:
        run.choosing = False


def choose(run: runs.Run) -> verdicts.StepVerdict:
    """Choose a host, preferably one that had no backup of this recovery."""
    server = run.server(anew=bool(runs.chosen(run.recovery)))
    if server is None:
        return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
    if server.deleting or run.left:
        return verdicts.StepVerdict(verdicts.EVACUATE, tenant.DELETED if server.deleting else
                                    f'it was {server.status} when its host failed')
    host = _unused(run.recovery)
    if host is not None and not suits(run, host):
        host = None
    if host is None:
        if len(runs.chosen(run.recovery)) >= run.settings.max_attempts:
            return verdicts.StepVerdict(
                verdicts.EVACUATE, f'{len(runs.chosen(run.recovery))} backups of it have failed')
        with run.step(runs.DESTINATION, reads=True) as detail:
            choice = _in_turn(run, server)
            if isinstance(choice, verdicts.StepVerdict):
                detail['none'] = choice.why
                return choice
            host, candidates = choice
            detail.update(host=host, candidates=candidates)
    return verdicts.StepVerdict(verdicts.STARTED, host)


def _in_turn(run: runs.Run, server: model.Server) -> tuple[str, int] | verdicts.StepVerdict:
    """Search for a host when no other member of the server's group does.

    Members that choose at the same time would start over again and again.
    """
    group = None if server.group is None else str(server.group['id'])
    if run.context.group_turns.taken(group):
        # It has to wait.
        run.flush()
    with run.context.group_turns.of(group, run.id):
        return _search(run, server)


def settle(run: runs.Run) -> bool:
    """Return whether a recorded destination suits those that others have recorded.

    Two engines may choose at once. Each records its choice before it reads, so at least one of
    them sees the other's. The older recovery gives way at once, the younger one if the older
    does not.
    """
    host, server = _unused(run.recovery), run.server()
    if server is not None and _policy(server) in _STRICT:
        run.flush()
    if host is None or server is None or suits(run, host):
        # A backup that may run keeps its host: a second one would have the same disks open.
        return True
    members = frozenset((server.group or {}).get('members', ()))
    # Only one on the same host is in the way if all are to be on different ones.
    in_the_way = [recovery for recovery in run.insist(run.context.store.active, None, members)
                  if recovery.destination is not None
                  and (recovery.destination == host or _policy(server) == _TOGETHER)]
    if not any((recovery.created, recovery.id) < (run.recovery.created, run.id)
               for recovery in in_the_way):
        return False
    run.pause(_YIELD)
    return suits(run, host)


def suits(run: runs.Run, host: str) -> bool:
    """Return whether a host suits the backups of the other members of the server's group."""
    server = run.server()
    if server is None or _policy(server) not in _STRICT:
        return True
    placed = run.insist(run.context.capacity.placed, server)
    if not placed:
        return True
    if _policy(server) == _TOGETHER:
        return host in placed.values()
    return run.insist(run.context.compute.suits_group, server, host, placed)


def _policy(server: model.Server) -> str:
    return str((server.group or {}).get('policy') or '')


def _unused(recovery: model.Recovery) -> str | None:
    """Return the host that was chosen last, if no backup was started on it."""
    for step in reversed(recovery.steps):
        if step.name in (runs.START, runs.WITHDRAW):
            return None
        if step.name == runs.DESTINATION and step.ended and step.detail.get('host'):
            return str(step.detail['host'])
    return None


def _search(run: runs.Run, server: model.Server) -> tuple[str, int] | verdicts.StepVerdict:
    """Return a host, once one may take another backup, and how many candidates there are."""
    avoid = runs.chosen(run.recovery)
    # Hosts that others are looked for beside: those with failed backups, and full ones.
    passed = set(avoid)
    while True:
        placed = run.insist(run.context.capacity.placed, server)
        candidates = _beside(run, server, placed, passed)
        if not candidates:
            return verdicts.StepVerdict(verdicts.EVACUATE, 'no other host has room for it')
        try:
            host = run.insist(run.context.capacity.choose, run.id, candidates, avoid, server,
                              placed)
        except capacity.Outdated:
            continue
        if host is not None:
            return host, len(candidates)
        if over := run.over():
            return over
        if passed.issuperset(candidates):
            passed = set(avoid)
            run.pause(_PAUSE)
        else:
            passed.update(candidates)


def _beside(run: runs.Run, server: model.Server, placed: Mapping[str, str], passed: set[str]
            ) -> list[str]:
    """Return candidates that were not passed yet; all of them if there are no others."""
    find = run.context.compute.candidates
    candidates = heard(run, run.insist(find, server, placed, passed))
    if candidates or not passed:
        return candidates
    return heard(run, run.insist(find, server, placed))


def heard(run: runs.Run, candidates: Sequence[str]) -> list[str]:
    """Return the candidates that this engine hears; all of them if it hears no host at all."""
    healthy = run.context.suspects.healthy()
    return [host for host in candidates if not healthy or host in healthy]
