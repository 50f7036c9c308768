# SPDX-License-Identifier: Apache-2.0
"""What the voices of 10,000 sentinels cost an engine, with socket, MACs and answers.

One process plays the hosts, and beats on the loopback interface as they do. The engine's receiver
runs in another process, whose processor time counts.
"""

from collections.abc import Mapping
import multiprocessing
from multiprocessing import connection
import pathlib
import socket
import tempfile
import time

from specreds_nova.beats import message
from specreds_nova.beats import voice
from specreds_nova.beats import voice_receiver
from specreds_nova.beats import voices as all_voices
from specreds_nova.engine.clients import clock as clocks

# Hosts that are played, and hosts that the result is for: more do not fit beside the engine.
_HOSTS, _WHOLE = 1_000, 10_000
_SECONDS, _WARM_UP = 10.0, 3.0
# Renewals of the lease per second, in turns of the answering thread.
_RENEWALS = 1.0
_MASTER = bytes(range(voice.KEY))


def run() -> Mapping[str, float]:
    """Return cores for 10,000 hosts, µs for each beat, and the share of beats that counted."""
    with tempfile.TemporaryDirectory() as place:
        keys = pathlib.Path(place, 'keys')
        keys.write_text(_MASTER.hex())
        mine, its = multiprocessing.Pipe()
        process = multiprocessing.get_context('spawn').Process(
            target=_engine, args=(its, str(keys)))
        process.start()
        try:
            host, _, port = mine.recv().rpartition(':')
            sent = _play((host, int(port)), mine)
        finally:
            mine.send('end')
            cpu, heard, seconds = mine.recv()
            process.join()
    cores = cpu / seconds * _WHOLE / _HOSTS
    return {'scale.voices.cores': cores, 'scale.voices.us_per_beat': 1e6 * cpu / max(1, heard),
            'scale.voices.heard_share': heard / sent}


def _play(engine: tuple[str, int], pipe: 'connection.Connection[object, object]') -> int:
    """Play the hosts, and return the number of beats in the time that counts."""
    keys = {f'compute-{number:05}': voice.Key(voice.host_key(_MASTER, f'compute-{number:05}'))
            for number in range(_HOSTS)}
    begin = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaker:
        speaker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        speaker.setblocking(False)
        nonce, number, sent, counting = voice.NO_NONCE, 0, 0, False
        while (now := time.monotonic()) - begin < _WARM_UP + _SECONDS:
            if not counting and now - begin >= _WARM_UP:
                counting, sent = True, 0
                pipe.send('begin')
            number += 1
            for name, key in keys.items():
                speaker.sendto(key.beat(voice.Beat(
                    name, b'boot-one', number, b'kernel-1', nonce, lease=message.LEASED,
                    storage_age=0.5)), engine)
                sent += 1
            nonce = _heard(speaker, next(iter(keys.values()))) or nonce
            time.sleep(max(0.0, begin + voice.INTERVAL * number - time.monotonic()))
    return sent


def _heard(speaker: socket.socket, key: voice.Key) -> bytes:
    """Return the nonce of the latest answer to the first host; empty without one."""
    nonce = b''
    while True:
        try:
            answer = key.answered(speaker.recv(voice.LONGEST))
        except BlockingIOError:
            return nonce
        if answer is not None:
            nonce = answer.nonce


def _engine(pipe: 'connection.Connection[object, object]', keys: str) -> None:
    """Hear the hosts, and renew their leases, until the process is told to end."""
    clock = clocks.Clock()
    voices = all_voices.Voices(clock.now)
    receiver = voice_receiver.VoiceReceiver(voices, clock, '127.0.0.1:0', pathlib.Path(keys))
    receiver.start()
    pipe.send(receiver.address())
    cpu, heard, began = 0.0, 0, 0.0
    while True:
        for host, boot, number in voices.answerable():
            receiver.renew(host, boot, number, hides=True)
        if pipe.poll(1.0 / _RENEWALS):
            if pipe.recv() == 'end':
                break
            cpu, heard, began = time.process_time(), voices.heard, time.monotonic()
    pipe.send((time.process_time() - cpu, voices.heard - heard, time.monotonic() - began))
    receiver.stop(5.0)
