# SPDX-License-Identifier: Apache-2.0
"""The transactions that a client was told are written: an append-only file, synced by line."""

import base64
from collections.abc import Mapping
import hashlib
import os
import pathlib
import types


def payload(client: str, number: int, length: int) -> str:
    """Return the payload of a client's transaction, the same for each call.

    It cannot be compressed, so that as much reaches the disk as was written.

    :param length: characters
    """
    random = hashlib.shake_256(f'{client}:{number}'.encode()).digest(length * 3 // 4 + 1)
    return base64.b64encode(random).decode()[:length]


def digest(text: str) -> str:
    """Fingerprint a transaction's payload."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Ledger:
    """The acknowledged transactions of one client, ``NUMBER TIME`` each.

    What a process that was killed left half written is dropped.

    :param path: the file; it goes on where it ended
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        whole = path.read_bytes() if path.exists() else b''
        self._file = path.open('r+b' if path.exists() else 'x+b')
        self._file.truncate(whole.rfind(b'\n') + 1)
        self._file.seek(0, os.SEEK_END)

    def __enter__(self) -> 'Ledger':
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: types.TracebackType | None) -> None:
        self._file.close()

    def acknowledged(self, number: int, at: float) -> None:
        """Note that a transaction was acknowledged; it is on disk when this returns."""
        self._file.write(f'{number} {at:.6f}\n'.encode())
        self._file.flush()
        os.fdatasync(self._file.fileno())


def read(path: pathlib.Path) -> dict[int, float]:
    """Return the time of each transaction's acknowledgement."""
    acknowledged = {}
    if path.exists():
        for line in path.read_text().splitlines():
            number, _, at = line.partition(' ')
            acknowledged[int(number)] = float(at)
    return acknowledged


def differences(acknowledged: Mapping[int, float], there: Mapping[int, str],
                client: str, length: int) -> dict[str, list[int]]:
    """Compare what a client was told with what it reads back.

    :param there: the digests that were read, by transaction
    :returns: `missing`, what was acknowledged but is not there; `wrong`, what is there but
        differs; `unacknowledged`, what is there though its client never learnt of it (no fault)
    """
    return {
        'missing': sorted(acknowledged.keys() - there.keys()),
        'wrong': sorted(number for number, checksum in there.items()
                        if checksum != digest(payload(client, number, length))),
        'unacknowledged': sorted(there.keys() - acknowledged.keys()),
    }
