# SPDX-License-Identifier: Apache-2.0
"""Whether Ceph answers this host, asked so that no single placement group decides.

A pool is asked for some objects with random names, each in a placement group of its own: an OSD
that says that there is no such object has answered. One stuck placement group, or an OSD that has
died and still counts as up, leaves only some of these questions without an answer, and each host
asks for other objects each time.
"""

from collections.abc import Callable
import errno
from typing import Any
import uuid

import rados

from specreds_nova.beats import pulse

_OBJECTS = 3
# Seconds beyond the time limit of an operation within which librados reports its end.
_LATE = 2.0
# What an OSD answers to a client that may not read the objects.
REFUSED = frozenset({errno.EPERM, errno.EACCES})


class Pool:
    """A pool, over one connection. For use by one thread.

    :param handle: of python-rados
    :raises rados.Error: there is no such pool
    """

    def __init__(self, handle: Any, name: str) -> None:
        self._name = name
        self._io = handle.open_ioctx(name)
        # Asynchronous operations of python-rados crash where their pool is closed before they end.
        self._threads: list[Any] = []

    def close(self) -> None:
        """Wait for the ends of all questions, and close the pool."""
        for thread in self._threads:
            thread.join()
        self._io.close()

    def begin(self, done: Callable[[int], None]) -> None:
        """Ask, without waiting for an answer.

        :param done: called in another thread at the end of each question, with 0 for an answer,
            and else with an errno
        """
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        for _ in range(_OBJECTS):
            thread = pulse.native('threading').Thread(
                target=self._stat, args=(done,), name=f'ask-{self._name}', daemon=True)
            thread.start()
            self._threads.append(thread)

    def ask(self, timeout: float) -> bool:
        """Wait for the first answer, and return whether this client may read the pool.

        :param timeout: seconds that an operation of the connection may take
        :raises rados.Error: there is no answer
        """
        ended = pulse.native('threading').Semaphore(0)
        codes: list[int] = []

        def done(code: int) -> None:
            codes.append(code)
            ended.release()

        self.begin(done)
        for number in range(_OBJECTS):
            if not ended.acquire(timeout=timeout + _LATE):
                break
            if codes[number] == 0 or codes[number] in REFUSED:
                return codes[number] == 0
        raise rados.TimedOut(f'pool {self._name} does not answer: {codes}')

    def _stat(self, done: Callable[[int], None]) -> None:
        try:
            self._io.stat(f'specreds.ping.{uuid.uuid4().hex}')
        except rados.ObjectNotFound:
            done(0)
        except rados.Error as exc:
            done(abs(getattr(exc, 'errno', None) or errno.EIO))
        else:
            done(0)
