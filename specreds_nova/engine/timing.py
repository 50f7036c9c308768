# SPDX-License-Identifier: Apache-2.0
"""The condition between times that operators set, which ``specreds-engine`` checks at its start.

It is the formula of doc/source/timing.rst. Conditions between constants are tested.
"""

from oslo_config import cfg
from oslo_log import log as logging

from specreds_nova import conf as nova_conf
from specreds_nova.engine import exception
from specreds_nova.engine.suspicion import accrual
from specreds_nova.engine.suspicion import settings as monitoring

LOG = logging.getLogger(__name__)

# Seconds between two questions to Nova which services are down.
ASK_NOVA = 10.0


def cleared(interval: float) -> float:
    """Return the seconds after which a host that was silent for a moment is cleared.

    :param interval: between two heartbeats of the host
    """
    detector = accrual.Settings()
    silence = interval * (1.0 + detector.sigmas * detector.floor)
    return silence + monitoring.Settings.clear_beats * interval


def check(conf: cfg.ConfigOpts) -> None:
    """Warn if servers are evacuated before their host is cleared.

    The interval between two heartbeats is an option of the hosts: its default is assumed.

    :raises exception.Invalid: such servers are evacuated without a fence
    """
    interval = next(option.default for option in nova_conf.OPTIONS
                    if option.dest == 'heartbeat_interval')
    least = cleared(interval)
    if conf.engine.evacuate_after > least:
        return
    fault = (f'[engine] evacuate_after = {conf.engine.evacuate_after:g} has to exceed '
             f'{least:.3g} s: otherwise servers are evacuated although their host was only silent '
             'for a moment')
    if conf.engine.evacuate_unfenced:
        raise exception.Invalid(f'{fault}, and run twice because of evacuate_unfenced')
    LOG.warning('%s', fault)
