# SPDX-License-Identifier: Apache-2.0
"""Requests to the key manager that no request of the key's owner has caused."""

from collections.abc import Callable
from concurrent import futures
import queue
import threading
from typing import Any, TypeVar

from castellan.common import exception as castellan_exception
from castellan.common import utils
from oslo_config import cfg

_T = TypeVar('_T')

# Seconds to wait for the key manager, whose client may wait for ever.
_TIMEOUT = 60.0


def credentials(conf: cfg.ConfigOpts, context: Any) -> Any:
    """Return the credentials for requests to the key manager.

    :param conf: configuration of the service; its section ``key_manager`` may have credentials,
        which must be allowed to read the keys of all projects
    :param context: returned where that section has no credentials
    """
    try:
        return utils.credential_factory(conf=conf)
    except castellan_exception.AuthTypeInvalidError:
        return context


def within_limit(request: Callable[[], _T]) -> _T:
    """Return what a request to the key manager returns, or raise what it raises.

    :raises TimeoutError: there is no answer in 60 s; the request's thread is left behind, and ends
        with the process at the latest
    """
    # Not a SimpleQueue, whose ``get`` would block all green threads.
    ended: queue.Queue[futures.Future[_T]] = queue.Queue()
    threading.Thread(target=_run, args=(request, ended), daemon=True, name='key').start()
    try:
        return ended.get(timeout=_TIMEOUT).result()
    except queue.Empty:
        raise TimeoutError(f'the key manager has not answered for {_TIMEOUT:g} s') from None


def _run(request: Callable[[], _T], ended: 'queue.Queue[futures.Future[_T]]') -> None:
    """Put the outcome of a request into a queue."""
    outcome: futures.Future[_T] = futures.Future()
    try:
        outcome.set_result(request())
    except Exception as exc:
        outcome.set_exception(exc)
    ended.put(outcome)
