# SPDX-License-Identifier: Apache-2.0
"""Which clients were seen to be whose. It outlives the sentinel, as that may be killed any time.

A fenced client is no longer among the watchers of its image, so who it was has to be known before.
"""

from collections.abc import Iterable, Mapping
import json
import os
import pathlib
import time

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# Ceph drops the watch of a dead client after 30 s, by default.
_LINGER_S = 600.0


class Memory:
    """The clients that were seen, by process and image.

    :param path: the file; what cannot be read of it is forgotten
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._boot = pathlib.Path('/proc/sys/kernel/random/boot_id').read_text().strip()
        self._seen: dict[str, dict[str, list[str]]] = self._load()
        self._gone: dict[str, float] = {}
        # What is known is not what is in the file.
        self._unsaved = False

    def clients(self, process: str, image: str) -> frozenset[str]:
        """Return the clients through which a process was seen to use an image."""
        return frozenset(self._seen.get(process, {}).get(image, ()))

    def learn(self, process: str, watchers: Mapping[str, Iterable[str]]) -> None:
        """Add what was seen of a process: clients by image.

        What was seen of another process before is not this one's.
        """
        changed = False
        images = self._seen.setdefault(process, {})
        for image, clients in watchers.items():
            others = {client for other, theirs in self._seen.items() if other != process
                      for client in theirs.get(image, ())}
            new = set(clients) - others - set(images.get(image, ()))
            if new:
                images[image] = sorted({*images.get(image, ()), *new})
                changed = True
        if changed:
            self._save()

    def keep(self, processes: Iterable[str]) -> None:
        """Forget all processes but some; not at once, as a watch outlives its process.

        What could not be written before is written now.
        """
        running, now = set(processes), time.monotonic()
        for process in self._seen.keys() - running:
            self._gone.setdefault(process, now)
        self._gone = {process: since for process, since in self._gone.items()
                      if process not in running}
        old = [process for process, since in self._gone.items() if now - since > _LINGER_S]
        for process in old:
            del self._seen[process], self._gone[process]
        if old or self._unsaved:
            self._save()

    def _load(self) -> dict[str, dict[str, list[str]]]:
        try:
            contents = json.loads(self._path.read_text())
            # Processes are told apart within one boot only.
            return dict(contents['seen']) if contents['boot'] == self._boot else {}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as exc:
            LOG.warning('%s cannot be read (%s): clients fenced before now are not known',
                        self._path, exc)
            return {}

    def _save(self) -> None:
        """Write the file if possible: servers are looked at all the same."""
        new = self._path.with_suffix('.new')
        try:
            with new.open('w') as file:
                json.dump({'boot': self._boot, 'seen': self._seen}, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as exc:
            if not self._unsaved:
                LOG.error('%s cannot be written (%s): a sentinel that is restarted may not know '
                          'clients that are fenced by then', self._path, exc)
            self._unsaved = True
        else:
            self._unsaved = False
