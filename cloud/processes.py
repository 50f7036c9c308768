# SPDX-License-Identifier: Apache-2.0
"""Daemons kept running by one supervisord of their own, in one directory."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import http.client
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from typing import Any
import xmlrpc.client

import psutil  # type: ignore[import-untyped]
from supervisor import xmlrpc as supervisor_xmlrpc

from cloud import commands
from cloud import deadline
from cloud import shares

_SUPERVISORD = """\
[supervisord]
logfile = {log}/{own_log}
pidfile = {run}/supervisord.pid
childlogdir = {log}
directory = {run}
{user}
[unix_http_server]
file = {run}/supervisor.sock
chmod = 0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""

# A daemon that dies is started again, unless it is not meant to be; one that was stopped or killed
# by us is not. A daemon that has to be killed is killed with its children: supervisord makes each
# the leader of a group.
_PROGRAM = """
[program:{name}]
command = {command}
environment = {environment}
autostart = false
autorestart = {restart}
exitcodes =
startsecs = 1
startretries = {retries}
stopwaitsecs = {stop_seconds}
killasgroup = true
redirect_stderr = true
stdout_logfile = {log}/{name}.out
"""

# The name of supervisord's own log.
OWN_LOG = 'supervisord.log'

_START_TIMEOUT = 15.0
_ALIVE = ('RUNNING', 'STARTING', 'BACKOFF')


@dataclasses.dataclass(frozen=True)
class Program:
    """Command, environment and limits of a daemon; nothing in it may be secret.

    :param environment: variables to set on top of those that supervisord got
    :param stop_seconds: from TERM to KILL
    :param restart: whether it is started again when it dies
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stop_seconds: int = 60
    restart: bool = True


@dataclasses.dataclass(frozen=True)
class Process:
    """State of one daemon, as supervisord reports it.

    :param started: when it was, in seconds since the epoch; 0 if it never was
    """

    name: str
    state: str
    pid: int
    started: float = 0.0


def _runs(pid: int) -> bool:
    """Return whether a process runs.

    One that has ended is listed until it is reaped, which the first process of a container may
    never do.
    """
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _escaped(word: str) -> str:
    """Escape a word for supervisord's configuration."""
    return word.replace('%', '%%')


def _section(name: str, program: Program, log: pathlib.Path) -> str:
    return _PROGRAM.format(
        name=name, command=_escaped(shlex.join(program.argv)), log=log,
        environment=','.join(f'{variable}="{_escaped(value)}"'
                             for variable, value in program.environment.items()),
        stop_seconds=program.stop_seconds, restart='unexpected' if program.restart else 'false',
        retries=3 if program.restart else 0)


def configuration(run: pathlib.Path, log: pathlib.Path,
                  programs: Mapping[str, Program]) -> str:
    """Return supervisord's configuration.

    :param run: directory for its socket and pid file
    :param log: directory for logs
    :param programs: by name of the daemon
    """
    user = 'user = root\n' if os.getuid() == 0 else ''
    return _SUPERVISORD.format(run=run, log=log, own_log=OWN_LOG, user=user) + ''.join(
        _section(name, program, log) for name, program in programs.items())


class Supervisor:
    """One supervisord with its configuration, socket and logs.

    :param run: directory for sockets and pid files
    :param log: directory for logs
    :param share: of the processors, by the names of :mod:`cloud.shares`
    """

    def __init__(self, run: pathlib.Path, log: pathlib.Path,
                 share: int = shares.CONTROL) -> None:
        self._share = share
        self._run = run
        self._log = log
        self._conf = run / 'supervisord.conf'

    def _call(self, method: str, *args: Any) -> Any:
        """Call supervisord; OSError means that it is not running."""
        transport = supervisor_xmlrpc.SupervisorTransport(
            serverurl=f'unix://{self._run}/supervisor.sock')
        with xmlrpc.client.ServerProxy('http://127.0.0.1', transport=transport) as proxy:
            return getattr(proxy.supervisor, method)(*args)

    def running(self) -> bool:
        """Return whether supervisord itself answers."""
        try:
            self._call('getPID')
        except (OSError, http.client.HTTPException):
            return False
        return True

    def start(self, programs: Mapping[str, Program]) -> None:
        """Start supervisord if it is not running; its daemons are started one by one later.

        A running supervisord reads the changes: it stops a daemon that was removed or has another
        command.

        :param programs: by name of the daemon
        :raises CloudError: supervisord did not come up
        """
        self._conf.write_text(configuration(self._run, self._log, programs))
        if self.running():
            self.reload()
            return
        # Its own session: a Ctrl-C in the terminal is not meant for the daemons.
        subprocess.run([sys.executable, '-m', 'supervisor.supervisord', '-c', str(self._conf)],
                       check=False, start_new_session=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=commands.environment())
        limit = deadline.Deadline(_START_TIMEOUT)
        while not self.running():
            if limit.passed:
                raise commands.CloudError('supervisord did not start; '
                                          f'see {self._log / OWN_LOG}')
            time.sleep(0.05)
        shares.prefer(self._call('getPID'), self._share)

    def reload(self) -> None:
        """Make a running supervisord read its changed configuration."""
        ((added, changed, removed),) = self._call('reloadConfig')
        for name in (*changed, *removed):
            self._call('stopProcessGroup', name)
            self._call('removeProcessGroup', name)
        for name in (*added, *changed):
            self._call('addProcessGroup', name)

    def log_of(self, name: str) -> pathlib.Path:
        """The file with what a daemon prints."""
        return self._log / f'{name}.out'

    def processes(self) -> list[Process]:
        """All daemons, or none if supervisord is not running."""
        if not self.running():
            return []
        return [Process(info['name'], info['statename'], info['pid'], info['start'])
                for info in self._call('getAllProcessInfo')]

    def members(self) -> list[int]:
        """All processes: supervisord, its daemons, and theirs; none if it is not running."""
        if not self.running():
            return []
        first = psutil.Process(self._call('getPID'))
        return [first.pid, *(child.pid for child in first.children(recursive=True))]

    def process(self, name: str) -> Process:
        """:raises CloudError: there is no such daemon, or supervisord is not running"""
        for process in self.processes():
            if process.name == name:
                return process
        raise commands.CloudError(f'there is no running cluster with a daemon {name}')

    def start_daemon(self, name: str, wait: bool = True) -> None:
        """Start a daemon if it is not running.

        :param wait: until it has stayed up for a second
        :raises CloudError: it ended at once
        """
        if self.process(name).state in ('RUNNING', 'STARTING'):
            return
        try:
            self._call('startProcess', name, wait)
        except xmlrpc.client.Fault as exc:
            # Meanwhile supervisord itself has tried again.
            if exc.faultCode == supervisor_xmlrpc.Faults.ALREADY_STARTED:
                return
            raise commands.CloudError(f'{name} did not start ({exc.faultString}); '
                                      f'see {self._log}/{name}.log and {name}.out') from exc

    def stop_daemon(self, name: str) -> None:
        """Stop a daemon in good order, and leave it stopped."""
        if self.process(name).state in _ALIVE:
            self._call('stopProcess', name, True)

    def signal_daemon(self, name: str, number: int) -> None:
        """Send a signal to a daemon.

        :raises CloudError: it is not running
        """
        try:
            self._call('signalProcess', name, str(number))
        except xmlrpc.client.Fault as exc:
            raise commands.CloudError(f'{name} is not running ({exc.faultString})') from exc

    def stop_daemons(self, names: Iterable[str]) -> None:
        """Stop several daemons at the same time."""
        wanted = set(names)
        for process in self.processes():
            if process.name in wanted and process.state in _ALIVE:
                self._call('stopProcess', process.name, False)
        while any(process.name in wanted and process.pid for process in self.processes()):
            time.sleep(0.05)

    def kill_daemon(self, name: str) -> None:
        """Kill a daemon without a chance to say goodbye (a power failure), and leave it dead.

        It is frozen first, so that supervisord's own TERM, which tells it that the end is
        meant, stays pending and never runs the daemon's handler. Its children go with it.

        :raises CloudError: it does not die
        """
        pid = self.process(name).pid
        if not pid:
            return
        os.killpg(pid, signal.SIGSTOP)
        self._call('stopProcess', name, False)
        os.killpg(pid, signal.SIGKILL)
        limit = deadline.Deadline(_START_TIMEOUT)
        while self.process(name).pid:
            if limit.passed:
                raise commands.CloudError(f'{name} (pid {pid}) does not die')
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop supervisord, which stops whatever still runs below it."""
        if not self.running():
            return
        pid = int(self._call('getPID'))
        self._call('shutdown')
        limit = deadline.Deadline(90)
        while _runs(pid):
            if limit.passed:
                raise commands.CloudError(f'supervisord (pid {pid}) does not end; '
                                          f'see {self._log / OWN_LOG}')
            time.sleep(0.05)
