# SPDX-License-Identifier: Apache-2.0
"""Cinder's volume manager with the housekeeping of superpositions."""

import threading
from typing import Any

from cinder.volume import manager
from oslo_log import log as logging
from oslo_service import loopingcall

from specreds_cinder import driver as drivers
from specreds_cinder import exception
from specreds_cinder.service import backend as backends
from specreds_cinder.service import housekeeping
from specreds_cinder.service import rpcapi
from specreds_cinder.service import service

LOG = logging.getLogger(__name__)

_RETRY_S = 5.0
# Seconds between two passes, which resume interrupted steps, start merges and renew fences: soon
# after a service has died, another one of its cluster continues its work.
_PASS_S = 5


class SuperVolumeManager(manager.VolumeManager):
    """VolumeManager with an RPC endpoint for superpositions, if the driver supports them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._superpositions: backends.Backend | None = None
        self.additional_endpoints.append(rpcapi.Endpoint(
            lambda: self.superpositions, service.METHODS))

    @property
    def superpositions(self) -> backends.Backend:
        """Return the superpositions of this back end.

        :raises SuperpositionInvalid: the driver does not support superpositions
        :raises SuperpositionUnavailable: the driver is not initialized
        """
        if not isinstance(self.driver, drivers.SuperRBDDriver):
            raise exception.SuperpositionInvalid(
                f'volumes of back end {self.host} cannot be superposed: its driver is '
                f'{type(self.driver).__name__}, not SuperRBDDriver')
        if self._superpositions is None:
            raise exception.SuperpositionUnavailable(
                f'back end {self.host} is not initialized: see the log of its volume service')
        return self._superpositions

    def init_host_with_rpc(self) -> None:
        """Also start the housekeeping, which resumes the steps of a service that died."""
        super().init_host_with_rpc()
        if not isinstance(self.driver, drivers.SuperRBDDriver) or not self.driver.initialized:
            return
        self._superpositions = backends.Backend(
            self.driver, self.service_topic_queue, self._parse_connection_options)
        # Other services that share the back end may be at work on it: a cluster, or those with the
        # same `backend_host`, which take their requests from one queue.
        shared = self.cluster or self.driver.configuration.safe_get('backend_host')
        self._add_to_threadpool(housekeeping.look_after, self._superpositions, cut_off=not shared)
        loopingcall.FixedIntervalLoopingCall(housekeeping.look_after, self._superpositions).start(
            interval=_PASS_S, initial_delay=_PASS_S, stop_on_exception=False)
        threading.Thread(target=self._announce, daemon=True).start()

    def _announce(self) -> None:
        """Notify about superpositions that become dirty, for as long as the service lives."""
        ended = threading.Event()
        while True:
            try:
                housekeeping.announce_dirty(self.superpositions)
            except exception.SuperpositionError as exc:
                LOG.warning('cannot watch superpositions of %s for writes of their primaries, '
                            'trying again in %g s: %s', self.host, _RETRY_S, exc.msg)
                ended.wait(_RETRY_S)
            except Exception:
                LOG.exception('cannot watch superpositions of %s for writes of their primaries, '
                              'trying again in %g s', self.host, _RETRY_S)
                ended.wait(_RETRY_S)
