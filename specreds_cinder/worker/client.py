# SPDX-License-Identifier: Apache-2.0
"""The volume service's end of a worker: it starts the process, and asks it."""

from collections.abc import Mapping
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
        self._served: _Served | None = None

    def call(self, ctxt: Any, method: str, **arguments: Any) -> Any:
        """Have the worker do something: a method of :class:`operations.Operations`.

        :param ctxt: the request's context, for the log; None for the service's own doing
        :raises SuperpositionError: it could not; which subclass says why
        """
        requester = {} if ctxt is None else {
            'request_id': ctxt.request_id, 'user_id': ctxt.user_id,
            'project_id': ctxt.project_id}
        served = self._serving()
        try:
            answer, value = served.remote.call(method, arguments, requester)
        except (EOFError, OSError) as exc:
            # Others who asked it are told as well; what was started since is not their worker.
            served.end()
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
            served, self._served = self._served, None
        if served is not None:
            served.end()

    def _serving(self) -> '_Served':
        """:raises SuperpositionUnavailable: it cannot be started"""
        with self._lock:
            if self._served is None or self._served.process.poll() is not None:
                if self._served is not None:
                    self._served.end()
                self._served = None
                self._served = self._start()
            return self._served

    def _start(self) -> '_Served':
        # A socket without a file: nothing is left of it, whoever is killed.
        address = f'\0specreds-{secrets.token_hex(16)}'
        key = secrets.token_bytes(32)
        process = subprocess.Popen(
            [sys.executable, '-m', 'specreds_cinder.worker.server'], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        served = _Served(process, utils.tpool_wrap(_Remote(address, key)))
        assert process.stdin is not None and process.stdout is not None
        told = {**self._told, 'address': address, 'key': key.hex(), 'log': _log_options()}
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(told) + '\n')
            process.stdin.flush()
        if process.stdout.readline() != server.READY:
            served.end()
            raise exception.SuperpositionUnavailable(
                f'the superposition worker for pool {self._told["pool"]} did not start; the log '
                f'of the volume service says why')
        LOG.info('superposition worker for pool %s is process %d', self._told['pool'],
                 process.pid)
        return served


def _log_options() -> dict[str, Any]:
    conf = cfg.CONF
    log = {name: getattr(conf, name) for name in _LOG_OPTIONS}
    if conf.log_dir and not conf.log_file:
        # The file that this process writes to, which oslo.log names after the program.
        log['log_file'] = f'{os.path.basename(sys.argv[0])}.log'
    return log


@dataclasses.dataclass(frozen=True)
class _Served:
    """A process, and how to ask it."""

    process: 'subprocess.Popen[str]'
    remote: Any

    def end(self) -> None:
        """Kill it. May be repeated."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


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
