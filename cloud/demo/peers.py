# SPDX-License-Identifier: Apache-2.0
"""The accident of the demo with Masakari, whose engine runs on the same cloud.

Masakari gets the best that its users can have: it is notified at the moment of the death, the host
is forced down in Nova and fenced in Ceph at once, and nothing has to be powered off. The result is
the time that Masakari itself, Nova's evacuation and the guest take.
"""

import contextlib
import time

from cloud import commands
from cloud import masakari
from cloud.demo import outcome
from cloud.demo import scenarios
from cloud.demo import stage as stages
from cloud.openstack import files as private

# Seconds for Masakari to evacuate a server: twice what it waits by default, and its retries.
_TIMEOUT = 480.0
# Seconds for a flow to end once the servers serve.
_END = 240.0
# The accidents by their keys: names, and what is configured beside the defaults.
ACCIDENTS: dict[str, tuple[str, private.Conf]] = {
    'masakari': ('Masakari', {}),
    'masakari0': ('Masakari, no wait', masakari.SMALLEST),
}
# The same death, where Masakari hands the host to the engine.
HANDED_OVER = 'masakari_spec'


def accident(stage: stages.Stage, before: float, key: str) -> outcome.Outcome:
    """Kill the host, and let Masakari recover its servers; no engine may run.

    :param before: seconds that the database is used before the accident
    :param key: of :data:`ACCIDENTS`
    """
    name, options = ACCIDENTS[key]
    wrong: list[str] = []
    with contextlib.ExitStack() as stack:
        with stage.screen.busy('Masakari starts'):
            peer = stack.enter_context(masakari.running(stage.cloud, options))
        # Masakari disables the host, and leaves that to an operator.
        stack.callback(stage.drill.enable, stages.HOME)
        pair = stack.enter_context(stage.servers())
        fence = stack.enter_context(contextlib.closing(scenarios.Fence(stage)))
        stage.use(pair, before)
        fence.look(pair.servers)
        event = stage.kill()
        notification = peer.notify(stages.HOME)
        fence.close()
        stage.drill.force_down(stages.HOME)
        with stage.screen.busy('Masakari was notified'):
            stage.drill.wait('Masakari to evacuate the database',
                             lambda: _evacuated(stage, pair.database.id), _TIMEOUT)
        began = time.time()
        with stage.screen.busy('Nova evacuates the servers'):
            for server in pair.servers:
                stage.drill.wait(f'{server.name} to leave {stages.HOME}',
                                 lambda server=server: stage.drill.show(  # type: ignore[misc]
                                     server.id)['OS-EXT-SRV-ATTR:host'] != stages.HOME, _END)
            ended = time.time()
            stage.served(pair)
        measured, gap = scenarios.settle(stage, pair, event, wrong)
        for server in pair.servers:
            wrong += scenarios.elsewhere(stage, server)
        wrong += finished(stage, peer, notification)
    return outcome.Outcome(
        key, name, event, gap, wrong=tuple(wrong), phases=outcome.following(event, gap, [
            ('peer', began), ('evacuate', ended), ('race', gap.ended)]), **measured)


def handed_over(stage: stages.Stage, before: float) -> outcome.Outcome:
    """Kill the host, with an engine to which Masakari hands it."""
    with masakari.running(stage.cloud, masakari.HANDED_OVER) as peer:
        notifications: list[str] = []
        result = scenarios.speculative(
            stage, before, lambda: notifications.append(peer.notify(stages.HOME)))
        return outcome.renamed(result, HANDED_OVER, 'SpecREDS, by Masakari', finished(
            stage, peer, notifications[0]))


def finished(stage: stages.Stage, peer: masakari.Masakari, notification: str) -> list[str]:
    """Wait until Masakari has ended with a notification, and return what went wrong."""
    try:
        status = str(stage.drill.wait('Masakari to end', lambda: peer.over(notification), _END))
    except commands.CloudError as exc:
        return [str(exc)]
    if status == masakari.FINISHED:
        return []
    details = peer.notification(notification).get('recovery_workflow_details')
    return [f'the notification of Masakari ended {status}: {details}']


def _evacuated(stage: stages.Stage, server_id: str) -> bool:
    """Return whether an evacuation of a server has begun."""
    shown = stage.drill.show(server_id)
    return (shown['OS-EXT-STS:task_state'] is not None
            or shown['OS-EXT-SRV-ATTR:host'] != stages.HOME)
