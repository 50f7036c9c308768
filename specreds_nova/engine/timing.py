# SPDX-License-Identifier: Apache-2.0
"""The conditions between the times in ``[engine]``, which ``specreds-engine`` checks at its start.

They are part of doc/source/timing.rst, where a test compares them with the formulas of the page.
"""

from collections.abc import Callable
import dataclasses
import operator
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from specreds_nova import conf as nova_conf
from specreds_nova.engine import exception
from specreds_nova.engine.detection import accrual

LOG = logging.getLogger(__name__)

# Seconds between two questions to Nova which services are down.
ASK_NOVA = 10.0


@dataclasses.dataclass(frozen=True)
class Times:
    """The times in seconds that the conditions compare.

    :ivar engine: group ``[engine]``
    :ivar heartbeat_interval: that of the hosts, which may differ from host to host
    """

    engine: Any
    heartbeat_interval: float

    @property
    def silence(self) -> float:
        """Return the silence after which a host that beats evenly is suspected."""
        sigmas = accrual.Settings(threshold=self.engine.suspicion_threshold).sigmas
        floor: float = self.engine.suspicion_floor
        return self.heartbeat_interval * (1.0 + sigmas * floor)

    @property
    def cleared(self) -> float:
        """Return the time after which a host that was silent for a moment is cleared."""
        beats: int = self.engine.clear_beats
        return self.silence + beats * self.heartbeat_interval


@dataclasses.dataclass(frozen=True)
class Condition:
    """One formula: ``left`` has to be greater than ``right``.

    :ivar formula: the formula, as on the page
    :ivar options: names of the options in it
    :ivar consequence: what happens if the condition does not hold
    :ivar guards_data: returns whether the engine must not start without the condition
    """

    formula: str
    options: tuple[str, ...]
    consequence: str
    left: Callable[[Times], float]
    right: Callable[[Times], float]
    compare: Callable[[float, float], bool] = operator.gt
    guards_data: Callable[[Times], bool] = lambda times: False

    def holds(self, times: Times) -> bool:
        """Return whether the condition holds."""
        return self.compare(self.left(times), self.right(times))

    def slack(self, times: Times) -> float:
        """Return by how many seconds the left side is greater than the right side."""
        return self.left(times) - self.right(times)

    def fault(self, times: Times) -> str:
        """Return what is wrong if the condition does not hold, and which options to correct."""
        return (f'{self.formula} does not hold, as {self.left(times):.4g} s are too few for '
                f'{self.right(times):.4g} s: {self.consequence}; correct '
                f'{" or ".join(self.options)}')


CONDITIONS = (
    Condition('engine.suspicion_longest > SILENCE',
              ('[engine] suspicion_longest', '[engine] suspicion_floor'),
              'the limit for uneven hosts applies to even hosts, too',
              lambda times: times.engine.suspicion_longest, lambda times: times.silence),
    Condition('engine.link_outage > engine.link_pause',
              ('[engine] link_outage', '[engine] link_pause'),
              'after each pause of the broker all hosts get link_settle seconds',
              lambda times: times.engine.link_outage, lambda times: times.engine.link_pause),
    Condition('engine.evidence_lifetime > ASK_NOVA',
              ('[engine] evidence_lifetime',),
              "the engine forgets Nova's word on a host before Nova repeats it",
              lambda times: times.engine.evidence_lifetime, lambda times: ASK_NOVA),
    Condition('engine.flap_patience > engine.suspicion_longest',
              ('[engine] flap_patience', '[engine] suspicion_longest'),
              'flapping hosts are suspected as early as other hosts',
              lambda times: times.engine.flap_patience,
              lambda times: times.engine.suspicion_longest),
    Condition('engine.destination_timeout > SILENCE',
              ('[engine] destination_timeout', '[engine] suspicion_floor'),
              "a short pause of a backup's host costs the backup",
              lambda times: times.engine.destination_timeout, lambda times: times.silence),
    Condition('engine.abort_timeout >= engine.rpc_timeout',
              ('[engine] abort_timeout', '[engine] rpc_timeout'),
              'Cinder drops a backup while its host may still be removing it',
              lambda times: times.engine.abort_timeout, lambda times: times.engine.rpc_timeout,
              operator.ge),
    Condition('engine.ready_timeout_max >= engine.ready_timeout',
              ('[engine] ready_timeout_max', '[engine] ready_timeout'),
              'backups are late after ready_timeout_max instead of ready_timeout',
              lambda times: times.engine.ready_timeout_max,
              lambda times: times.engine.ready_timeout, operator.ge),
    Condition('engine.evacuate_after > SILENCE + engine.clear_beats * nova.heartbeat_interval',
              ('[engine] evacuate_after', '[engine] clear_beats'),
              'servers are evacuated although their host was only silent for a moment, and run '
              'twice where [engine] evacuate_unfenced evacuates them without a fence',
              lambda times: times.engine.evacuate_after, lambda times: times.cleared,
              guards_data=lambda times: times.engine.evacuate_unfenced),
)


def check(conf: cfg.ConfigOpts) -> None:
    """Log how much slack each condition has, and warn of those that do not hold.

    The interval between two heartbeats is an option of the hosts: its default is assumed.

    :raises exception.Invalid: a condition does not hold on which data depend
    """
    interval = next(option.default for option in nova_conf.OPTIONS
                    if option.dest == 'heartbeat_interval')
    times = Times(conf.engine, interval)
    for condition in CONDITIONS:
        if condition.holds(times):
            LOG.info('timing: %s holds with %.4g s to spare', condition.formula,
                     condition.slack(times))
        elif condition.guards_data(times):
            raise exception.Invalid(condition.fault(times))
        else:
            LOG.warning('timing: %s', condition.fault(times))
