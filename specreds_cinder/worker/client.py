# SPDX-License-Identifier: Apache-2.0
"""The volume service's end of a worker: it starts the process, and asks it."""

from collections.abc import Mapping
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from typing import Any

from cinder import utils
from oslo_config import cfg
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder.worker import operations
from specreds_cinder.worker import server

LOG = logging.getLogger(__name__)

_LOG_OPTIONS = ('debug', 'log_file', 'log_dir', 'use_stderr', 'use_syslog', 'use_journal',
                'logging_context_format_string', 'logging_default_format_string')
_ERRORS: dict[str, type[exception.SuperpositionError]] = {
    'InvalidInput': exception.SuperpositionInvalid,
    'NotEligible': exception.VolumesNotEligible,
    'AlreadySuperposed': exception.VolumeSuperposed,
    'NotSuperposed': exception.SuperpositionNotFound,
    'VolumeGone': exception.SuperpositionConflict,
    'Conflict': exception.SuperpositionConflict,
    'RecordChanged': exception.SuperpositionConflict,
    'OverlayBusy': exception.SuperpositionConflict,
    'BackupError': exception.SuperpositionConflict,
    'ClusterError': exception.SuperpositionUnavailable,
    'ClusterTimeout': exception.SuperpositionUnavailable,
    'MergeFailed': exception.SuperpositionUnavailable,
}


class Worker:
    """A worker for one back end, started when it is first asked and whenever it has died.

    :param cluster: arguments of :class:`superposition.Cluster`
    :param pool: the back end's pool
    :param settings: arguments of :class:`superposition.Settings`
    :param watch: sweep in the background as long as something is superposed
    """

    def __init__(self, cluster: Mapping[str, Any], pool: str, settings: Mapping[str, Any], *,
                 watch: bool) -> None:
        self._told = {'cluster': dict(cluster), 'pool': pool, 'settings': dict(settings),
                      'watch': watch}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._remote: Any = None

    def call(self, ctxt: Any, method: str, **arguments: Any) -> Any:
        """Have the worker do something: a method of :class:`operations.Operations`.

        :param ctxt: the request's context, for the log; None for the service's own doing
        :raises SuperpositionError: it could not; which subclass says why
        """
        requester = {} if ctxt is None else {
            'request_id': ctxt.request_id, 'user_id': ctxt.user_id,
            'project_id': ctxt.project_id}
        try:
            answer, value = self._connected().call(method, arguments, requester)
        except (EOFError, OSError) as exc:
            self.stop()
            raise exception.SuperpositionUnavailable(
                f'the superposition worker for pool {self._told["pool"]} died during {method}; '
                f'the log of the volume service may say why. Ask again') from exc
        if answer == operations.ERROR:
            kind = _ERRORS.get(value['type'], exception.SuperpositionError)
            raise kind(value['message'], state=value['state'], reasons=value['reasons'])
        return value

    def stop(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            process, self._process, self._remote = self._process, None, None
        if process is not None:
            process.kill()
            process.wait()

    def _connected(self) -> Any:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._remote = utils.tpool_wrap(_Remote(*self._start()))
            return self._remote

    def _start(self) -> tuple[str, bytes]:
        address = os.path.join(tempfile.mkdtemp(prefix='specreds-'), 'worker')
        key = secrets.token_bytes(32)
        self._process = subprocess.Popen(
            [sys.executable, '-m', 'specreds_cinder.worker.server'], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        conf = cfg.CONF
        log = {name: getattr(conf, name) for name in _LOG_OPTIONS}
        if conf.log_dir and not conf.log_file:
            # The file that this process writes to, which oslo.log names after the program.
            log['log_file'] = f'{os.path.basename(sys.argv[0])}.log'
        told = {**self._told, 'address': address, 'key': key.hex(), 'log': log}
        self._process.stdin.write(json.dumps(told) + '\n')
        self._process.stdin.flush()
        if self._process.stdout.readline() != server.READY:
            raise exception.SuperpositionUnavailable(
                'the superposition worker did not start; the log of the volume service says why')
        LOG.info('superposition worker for pool %s is process %d', self._told['pool'],
                 self._process.pid)
        return address, key


class _Remote:
    """Calls the worker; blocks its thread until the answer is there."""

    def __init__(self, address: str, key: bytes) -> None:
        self._address = address
        self._key = key
        self._local = threading.local()

    def call(self, method: str, arguments: Mapping[str, Any],
             requester: Mapping[str, Any]) -> operations.Answer:
        answer: operations.Answer = self._operations().call(
            method, dict(arguments), dict(requester))
        return answer

    def _operations(self) -> Any:
        if not hasattr(self._local, 'operations'):
            manager = _Manager(address=self._address, authkey=self._key)
            manager.connect()
            self._local.operations = manager.operations()  # type: ignore[attr-defined]
        return self._local.operations


class _Manager(server.Manager):
    pass


_Manager.register('operations', exposed=['call'])
