# SPDX-License-Identifier: Apache-2.0
"""The clients of an engine, which connect before the first recovery needs them."""

from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging

from specreds_nova import rpcapi
from specreds_nova.engine import exception
from specreds_nova.engine.clients import backups
from specreds_nova.engine.clients import cells
from specreds_nova.engine.clients import compute
from specreds_nova.engine.clients import destinations
from specreds_nova.engine.clients import rest
from specreds_nova.engine.clients import volumes

LOG = logging.getLogger(__name__)


# Seconds that nova-compute may take to answer before a call is repeated. The start of a backup may
# take longer.
CALL_S = 10.0
# Seconds that Nova's scheduler and its conductor may take to select a destination. After that,
# Placement is asked instead, for this recovery and for recoveries of the next 30 s. Placement does
# not know of all filters of the scheduler. A benchmark that has no scheduler sets 0.
SCHEDULER_S = 2.0


class Clients:
    """Nova, Placement, Cinder and the hosts.

    :param scheduled: Nova's scheduler chooses destinations, not Placement alone
    :raises exception.Invalid: the configuration has no credentials
    """

    def __init__(self, conf: cfg.ConfigOpts, *, scheduled: bool = True) -> None:
        session = rest.Session(conf)
        self.session = session.keystone
        self.transport = _transport(conf)
        self._to_scheduler = _transport(conf, conf.engine.scheduler_transport_url)
        timeout = SCHEDULER_S if scheduled else 0.0
        self._cells = cells.Cells(
            rpcapi.BackupsAPI(self.transport, timeout=CALL_S),
            self._to_scheduler if SCHEDULER_S else None, SCHEDULER_S,
            lambda url: _transport(conf, url), CALL_S)
        self.volumes = volumes.Volumes(session)
        self.compute = compute.Compute(
            session, _scheduler(self._to_scheduler, timeout) if timeout else None,
            self._cells.beside, disks_in_rbd=self.volumes.superposes_disks)
        self.backups = backups.Backups(self._cells.hosts)

    def warm_up(self) -> None:
        """Connect to the services that answer; the others are connected when they are needed."""
        warm: tuple[Callable[[], None], ...] = (
            self.compute.warm_up, self.volumes.warm_up, self._cells.look)
        for connect in warm:
            try:
                connect()
            except exception.EngineError as exc:
                LOG.warning('a service is not connected yet: %s', exc)

    def close(self) -> None:
        """Disconnect."""
        self._cells.close()
        self.transport.cleanup()
        self._to_scheduler.cleanup()


def _transport(conf: cfg.ConfigOpts, url: str | None = None) -> messaging.Transport:
    """Return a transport to a broker, by default the one of ``[DEFAULT] transport_url``."""
    return messaging.get_rpc_transport(conf, url=url, allowed_remote_exmods=rpcapi.ALLOWED_EXMODS)


def _scheduler(transport: messaging.Transport, timeout: float) -> destinations.Scheduler:
    # Nova's options include some of group [api], and so do the options of this project's API.
    from specreds_nova.engine.clients import scheduler

    return scheduler.NovaScheduler(transport, timeout)
