# SPDX-License-Identifier: Apache-2.0
"""The volume service's side of a worker: starts the process, and calls it."""

from collections.abc import Mapping, Sequence
import contextlib
import dataclasses
import json
import os
import secrets
import subprocess
import sys
import threading
from typing import Any

from cinder import utils
from oslo_config import cfg
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder.service.worker import operations
from specreds_cinder.service.worker import server

LOG = logging.getLogger(__name__)

# -P: no module of the service's working directory is imported.
COMMAND: tuple[str, ...] = (sys.executable, '-P', '-m', server.__name__)
_LOG_OPTIONS = ('debug', 'log_file', 'log_dir', 'use_stderr', 'use_syslog', 'use_journal',
                'logging_context_format_string', 'logging_default_format_string')
_ERRORS: dict[str, type[exception.SuperpositionError]] = {
    'InvalidInput': exception.SuperpositionInvalid,
    'NotEligible': exception.VolumesNotEligible,
    'AlreadySuperposed': exception.VolumeSuperposed,
    'ClientsUnknown': exception.SuperpositionConflict,
    'NotSuperposed': exception.SuperpositionNotFound,
    'VolumeGone': exception.SuperpositionConflict,
    'Conflict': exception.SuperpositionConflict,
    'RecordChanged': exception.SuperpositionConflict,
    'OverlayBusy': exception.SuperpositionConflict,
    'BackupError': exception.SuperpositionConflict,
    'ClusterError': exception.SuperpositionUnavailable,
    'ClusterTimeout': exception.SuperpositionUnavailable,
    'NotAllowed': exception.SuperpositionUnavailable,
    'PoolGone': exception.SuperpositionUnavailable,
    'Rebuilding': exception.SuperpositionUnavailable,
    'UnreadableObject': exception.SuperpositionUnavailable,
    'MergeFailed': exception.SuperpositionUnavailable,
}


class Worker:
    """The worker of one back end, started at the first call and at the next call after its death.

    :param cluster: arguments of :class:`superposition.Cluster`
    :param pool: the back end's pool
    :param settings: arguments of :class:`superposition.Settings`
    :param watch: sweep superposed volumes in the background
    :param others: other pools with images that are superposed
    """

    def __init__(self, cluster: Mapping[str, Any], pool: str, settings: Mapping[str, Any], *,
                 watch: bool, others: Sequence[str] = ()) -> None:
        self._pool = pool
        self._arguments = {'cluster': dict(cluster), 'pool': pool, 'settings': dict(settings),
                           'watch': watch, 'others': list(others)}
        self._lock = threading.Lock()
        self._process: _Process | None = None

    def call(self, ctxt: Any, method: str, **arguments: Any) -> Any:
        """Call a method of the worker's :class:`operations.Operations`, and return its result.

        :param ctxt: the request's context, for the log; None for calls of the service itself
        :raises SuperpositionError: the method failed; the subclass names the kind of the error
        """
        requester = {} if ctxt is None else {
            'request_id': ctxt.request_id, 'user_id': ctxt.user_id,
            'project_id': ctxt.project_id}
        process = self._running()
        try:
            answer, value = process.remote.call(method, arguments, requester)
        except (EOFError, OSError) as exc:
            # Concurrent calls end only the process that they called, not one started since.
            process.end()
            raise exception.SuperpositionUnavailable(
                f'the superposition worker for pool {self._pool} died during {method}; '
                f'the log of the volume service may say why. Ask again') from exc
        if answer == operations.ERROR:
            kind = _ERRORS.get(value['type'], exception.SuperpositionError)
            raise kind(value['message'], state=value['state'], reasons=value['reasons'])
        return value

    def stop(self) -> None:
        """End the process; the next call starts another one."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.end()

    def _running(self) -> '_Process':
        """Return the process, and start it if it does not run.

        :raises SuperpositionUnavailable: it cannot be started
        """
        with self._lock:
            if self._process is None or self._process.popen.poll() is not None:
                if self._process is not None:
                    self._process.end()
                self._process = None
                self._process = self._start()
            return self._process

    def _start(self) -> '_Process':
        # A socket without a file, so that nothing stays if a process is killed.
        address = f'\0specreds-{secrets.token_hex(16)}'
        key = secrets.token_bytes(32)
        popen = subprocess.Popen(COMMAND, text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        process = _Process(popen, utils.tpool_wrap(_Remote(address, key)))
        assert popen.stdin is not None and popen.stdout is not None
        arguments = {**self._arguments, 'address': address, 'key': key.hex(),
                     'log': _log_options()}
        with contextlib.suppress(BrokenPipeError):
            popen.stdin.write(json.dumps(arguments) + '\n')
            popen.stdin.flush()
        if popen.stdout.readline() != server.READY:
            process.end()
            raise exception.SuperpositionUnavailable(
                f'the superposition worker for pool {self._pool} did not start; the log '
                f'of the volume service says why')
        LOG.info('superposition worker for pool %s is process %d', self._pool,
                 popen.pid)
        return process


def _log_options() -> dict[str, Any]:
    conf = cfg.CONF
    log = {name: getattr(conf, name) for name in _LOG_OPTIONS}
    if conf.log_dir and not conf.log_file:
        # The file that this process writes to, which oslo.log names after the program.
        log['log_file'] = f'{os.path.basename(sys.argv[0])}.log'
    return log


@dataclasses.dataclass(frozen=True)
class _Process:
    """The process of a worker, and the proxy that calls it."""

    popen: 'subprocess.Popen[str]'
    remote: Any

    def end(self) -> None:
        """Kill the process. May be repeated."""
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class _Remote:
    """Calls the worker; a call blocks its thread until the answer arrives."""

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
