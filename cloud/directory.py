# SPDX-License-Identifier: Apache-2.0
"""Checks of a data directory: ownership, exclusive use, length of its path, free ports."""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import fcntl
import os
import pathlib
import shutil
import socket

from cloud import commands


@contextlib.contextmanager
def locked(lock: pathlib.Path) -> Iterator[None]:
    """Keep a second `up`, `down` or `wipe` of a directory waiting.

    :param lock: a file in it
    """
    with lock.open('w') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def alone(root: pathlib.Path, lock: pathlib.Path, user: str, hint: str) -> Iterator[None]:
    """Keep other programs out of a directory: each would remove what the other one runs in it.

    :param root: the directory
    :param lock: a file that stays when the directory is removed
    :param user: this program, as the other program's error names it
    :param hint: how to choose another directory
    :raises CloudError: another program uses the directory
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open('a+') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise commands.CloudError(f'{root} is in use by process {file.read()}: wait for its '
                                      f'end, or {hint}') from None
        file.truncate(0)
        file.write(f'{os.getpid()} ({user})')
        file.flush()
        yield


def check_ours(settings: pathlib.Path, lock: pathlib.Path, what: str) -> None:
    """Refuse a directory that something else is in.

    :param settings: the file that marks a directory as ours
    :param lock: the file that an attempt that was interrupted at once may have left
    :param what: the kind of thing that should be in it, such as `cluster`
    :raises CloudError: there is something in the directory that is not ours
    """
    root = settings.parent
    if not root.exists() or settings.exists():
        return
    if any(path != lock for path in root.iterdir()):
        raise commands.CloudError(f'{root} is not empty and holds no {what}: it is left alone')


def short(root: pathlib.Path, limit: int) -> pathlib.Path:
    """Return the absolute path of a directory that sockets are to be in.

    :param limit: characters that it may have
    :raises CloudError: it has more
    """
    root = root.absolute()
    if len(str(root)) > limit:
        raise commands.CloudError(
            f'{root} has {len(str(root))} characters, but the unix sockets in it allow {limit}: '
            'choose a shorter data directory')
    return root


def wipe(settings: pathlib.Path, lock: pathlib.Path, what: str,
         stop: Callable[[], None]) -> None:
    """Stop what runs in a directory, and remove it. The parameters are :func:`check_ours`'.

    :param stop: stops it
    :raises CloudError: there is something in the directory that is not ours
    """
    if not settings.parent.exists():
        return
    check_ours(settings, lock, what)
    with locked(lock):
        stop()
        shutil.rmtree(settings.parent)


def check_ports(host: str, ports: Iterable[int], hint: str) -> None:
    """Raise if another program listens on one of the ports.

    :param host: an address of this machine
    :param hint: what the user can do, for the error message
    :raises CloudError: one of the ports is taken
    """
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    for port in ports:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as exc:
                raise commands.CloudError(f'port {port} on {host} is taken: {hint}') from exc
