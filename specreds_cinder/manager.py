# SPDX-License-Identifier: Apache-2.0
"""Cinder's volume manager, which also looks after superpositions."""

import threading
from typing import Any

from cinder.volume import manager
from oslo_config import cfg
from oslo_log import log as logging
from oslo_service import loopingcall

from specreds_cinder import conf
from specreds_cinder import driver as drivers
from specreds_cinder import endpoint
from specreds_cinder import exception
from specreds_cinder import lifecycle

CONF = cfg.CONF
conf.register(CONF)
LOG = logging.getLogger(__name__)

_RETRY_S = 5.0


class SuperVolumeManager(manager.VolumeManager):
    """VolumeManager, and an endpoint for superpositions where the driver can have them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._superpositions: lifecycle.Superpositions | None = None
        self.additional_endpoints.append(endpoint.Endpoint(lambda: self.superpositions))

    @property
    def superpositions(self) -> lifecycle.Superpositions:
        """What is superposed on this back end.

        :raises SuperpositionInvalid: its driver has no superpositions
        :raises SuperpositionUnavailable: its driver could not be started
        """
        if not isinstance(self.driver, drivers.SuperRBDDriver):
            raise exception.SuperpositionInvalid(
                f'volumes of back end {self.host} cannot be superposed: its driver is '
                f'{type(self.driver).__name__}, not SuperRBDDriver')
        if self._superpositions is None:
            raise exception.SuperpositionUnavailable(
                f'back end {self.host} is not initialized; the log of its volume service says '
                f'why')
        return self._superpositions

    def init_host_with_rpc(self) -> None:
        """Also begin to look after superpositions; what a dead service left is gone on with."""
        super().init_host_with_rpc()
        if not isinstance(self.driver, drivers.SuperRBDDriver) or not self.driver.initialized:
            return
        self._superpositions = lifecycle.Superpositions(self.driver, self.service_topic_queue)
        # Nobody else works on this back end, unless it is shared by a cluster of services.
        self._add_to_threadpool(self._superpositions.look_after, cut_off=not self.cluster)
        loopingcall.FixedIntervalLoopingCall(self._superpositions.look_after).start(
            interval=CONF.specreds.interval, initial_delay=CONF.specreds.interval,
            stop_on_exception=False)
        if CONF.specreds.watch:
            threading.Thread(target=self._announce, daemon=True).start()

    def _announce(self) -> None:
        """Tell of superpositions that become dirty, for as long as the service lives."""
        ended = threading.Event()
        while True:
            try:
                self.superpositions.announce_dirty()
            except exception.SuperpositionError as exc:
                LOG.warning('it cannot be told whether superpositions are dirty: %s', exc.msg)
                ended.wait(_RETRY_S)
            except Exception:
                LOG.exception('it cannot be told whether superpositions are dirty')
                ended.wait(_RETRY_S)
