# SPDX-License-Identifier: Apache-2.0
"""The process that answers for nova-compute on all hosts, without running any guests.

Each line of its input is a command: ``die`` ends the hosts that have servers, ``report`` prints a
line of JSON about the backups, ``asked`` one with the times at which they were requested, and
``unserved`` one with the servers that do not serve, by host.
"""

import heapq
import itertools
import json
import random
import sys
import threading
import time
from typing import Any

import amqp
from oslo_messaging._drivers import common as rpc_common

from bench.scale import latency
from bench.scale.simulated import beats
from bench.scale.simulated import inventory as inventories
from specreds_nova import exception as backup_errors

_EXCHANGE, _TOPIC, _EVERYBODY = 'nova', 'compute', 'compute.*'
# Calls that this process takes from the broker before it has answered them.
_WAITING = 1000


class Backups:
    """The backups of all hosts, by id."""

    def __init__(self, inventory: inventories.Inventory) -> None:
        self._inventory = inventory
        # Guests that are ready sooner start sooner.
        self._pace = inventory.short / inventories.READY
        self._random = random.Random(2)
        # By backup: its server, when it runs, and when it is ready.
        self._runs: dict[str, tuple[str, float, float]] = {}
        self._phases: dict[str, str] = {}
        self._superpositions: dict[str, str] = {}
        self.calls = 0
        self.asked: dict[str, float] = {}
        self.served: dict[str, float] = {}

    def call(self, method: str, host: str, arguments: dict[str, Any]
             ) -> tuple[float, Any, Exception | None]:
        """Return the seconds that a call takes, its result, and its error."""
        self.calls += 1
        backup = str(arguments.get('backup_id'))
        took = self._random.uniform(*latency.RPC)
        if method == 'start':
            self._superpositions.setdefault(backup, str(arguments.get('superposition_id')))
            return self._start(host, backup, str(arguments['instance_uuid']))
        if method in ('check', 'returned'):
            return took, {'eligible': True, 'reasons': [], 'immovable': None, 'clean': True,
                          'left': []}, None
        if backup not in self._runs:
            return took, None, backup_errors.BackupNotFound(backup_id=backup)
        if method == 'promote':
            self._phases[backup] = 'promoted'
            self.served.setdefault(self._runs[backup][0], time.monotonic() + took)
        elif method == 'harden':
            self._phases[backup] = 'hardened'
        return took, self._status(backup), None

    def unserved(self) -> dict[str, list[str]]:
        """Return the servers of failed hosts that do not serve elsewhere, by host."""
        servers: dict[str, list[str]] = {}
        for server in self._inventory.failed.values():
            if server['id'] not in self.served:
                servers.setdefault(server['OS-EXT-SRV-ATTR:host'], []).append(server['id'])
        return servers

    def _start(self, host: str, backup: str, server: str) -> tuple[float, Any, None]:
        now = time.monotonic()
        if backup not in self._runs:
            runs = now + self._pace * self._random.uniform(*latency.START)
            ready = runs + self._inventory.ready(server)
            self.asked.setdefault(server, now)
            self._runs[backup] = server, runs, ready
            beats.READY_AT.append((ready, host, backup))
        left = max(0.0, self._runs[backup][1] - now)
        return left + self._random.uniform(*latency.RPC), self._status(backup, left), None

    def _status(self, backup: str, later: float = 0.0) -> dict[str, Any]:
        _, runs, ready = self._runs[backup]
        now = time.monotonic() + later
        phase = self._phases.get(backup, 'running')
        if now < runs:
            return {'phase': 'starting', 'ready': False, 'domain': None}
        return {'phase': phase, 'ready': now >= ready, 'domain': {'state': 'running'},
                'superposition_id': self._superpositions[backup]}


class Rpc:
    """Takes oslo.messaging's calls to any host from one queue, and answers them in time.

    :param port: of the broker
    """

    def __init__(self, address: str, user: str, password: str, backups: Backups) -> None:
        self._connections = [amqp.Connection(address, userid=user, password=password)
                             for _ in range(2)]
        for connection in self._connections:
            connection.connect()
        self._backups = backups
        self._lock = threading.Condition()
        self._answers: list[tuple[float, int, str, bytes]] = []
        self._numbers = itertools.count()

    def start(self) -> None:
        """Begin."""
        channel = self._connections[0].channel()
        channel.exchange_declare(_EXCHANGE, 'topic', durable=False, auto_delete=False)
        channel.queue_declare('hosts', auto_delete=True)
        channel.queue_bind('hosts', _EXCHANGE, routing_key=_EVERYBODY)
        channel.basic_consume('hosts', no_ack=True, callback=self._take)
        for target in (self._read, self._send):
            threading.Thread(target=target, daemon=True).start()

    def _read(self) -> None:
        while True:
            self._connections[0].drain_events()

    def _take(self, message: Any) -> None:
        call = json.loads(json.loads(message.body)['oslo.message'])
        host = message.delivery_info['routing_key'].partition('.')[2]
        seconds, result, error = self._backups.call(call['method'], host, call['args'])
        if not call.get('_msg_id'):
            return
        failure = None if error is None else rpc_common.serialize_remote_exception(
            (type(error), error, None))
        answer = json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps({
            'result': result, 'failure': failure, 'ending': True, '_msg_id': call['_msg_id'],
            '_unique_id': call['_msg_id']})}).encode()
        with self._lock:
            heapq.heappush(self._answers, (time.monotonic() + seconds, next(self._numbers),
                                           call['_reply_q'], answer))
            self._lock.notify()

    def _send(self) -> None:
        channel = self._connections[1].channel()
        while True:
            with self._lock:
                while not self._answers or self._answers[0][0] > time.monotonic():
                    self._lock.wait(self._answers[0][0] - time.monotonic()
                                    if self._answers else None)
                _, _, queue, answer = heapq.heappop(self._answers)
            channel.basic_publish(amqp.Message(
                answer, content_type='application/json', content_encoding='utf-8'),
                routing_key=queue)


def main() -> None:
    """Play the hosts until the input ends: ``HOST:PORT USER PASSWORD INVENTORY SECONDS``.

    The seconds are those between two beats of a host.
    """
    address, user, password, inventory, interval = sys.argv[1:]
    hosts = inventories.Inventory.of(inventory)
    backups = Backups(hosts)
    Rpc(address, user, password, backups).start()
    sender = beats.Sender(address, user, password, hosts, float(interval))
    threading.Thread(target=sender.run, daemon=True).start()
    for line in sys.stdin:
        if line.strip() == 'die':
            sender.die()
        elif line.strip() == 'asked':
            print(json.dumps(dict(backups.asked)), flush=True)
            continue
        elif line.strip() == 'unserved':
            print(json.dumps(backups.unserved()), flush=True)
            continue
        print(json.dumps({
            'now': time.monotonic(), 'beats': sender.sent, 'calls': backups.calls,
            'started': len(backups.asked), 'served': len(backups.served),
            'last_started': max(list(backups.asked.values()), default=0.0),
            'last_served': max(list(backups.served.values()), default=0.0)}), flush=True)


if __name__ == '__main__':
    main()
