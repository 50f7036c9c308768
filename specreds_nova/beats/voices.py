# SPDX-License-Identifier: Apache-2.0
"""The sentinels of all hosts, as this engine hears them: the voices of the machines.

A beat proves that a host lives only if its MAC is right, and if it names a nonce that this process
has issued within the last two seconds. So neither a beat that has waited, nor one that somebody
sends once more, counts as life, whatever the clocks show. A beat with another nonce comes from a
host that does not hear this engine, or is a copy: nothing is known of such a host.

A voice is silent only if this engine would have heard it. Silence is measured up to the time at
which the socket was last found empty. If the engine has not read for some time, or the kernel has
dropped datagrams, all silences begin anew.
"""

from collections.abc import Callable, Iterable, Sequence
import os
from typing import Any

from oslo_log import log as logging

from specreds_nova.beats import rejections
from specreds_nova.beats import voice

LOG = logging.getLogger(__name__)

# States of a voice: the sentinel lives; it is not heard; it has been stopped in good order; it
# does not hear this engine; whoever has the name of the host has another key; this engine does not
# hear anything.
HEARD, SILENT, LEFT, HALF_DEAF, UNAUTHENTICATED, DEAF = STATES = (
    'heard', 'silent', 'left', 'half-deaf', 'unauthenticated', 'deaf')
# Seconds of silence after which a sentinel is not heard: five beats.
PATIENCE = 0.5
# The same for a sentinel that was heard after its nova-compute had fallen silent: nothing else
# tells then that its host lives.
ALONE = 2.0
# Seconds between two times at which the socket is empty from which on the engine may be deaf.
PAUSE = 0.1
# Seconds for which the silence of a voice may begin anew: as long as any host may be silent.
LONGEST = 5.0
# Seconds between two nonces, and between two answers that nothing but a nonce depends on.
_RENEW, _ANSWER = 0.25, 0.6
# The same for beats that are no sign of life, and seconds for which these are remembered.
_HELLO, _REMEMBERED = 0.2, 2.0
# Seconds within which the latest beat of a sentinel holds off other senders with its key.
_OTHER = 1.0
# Beats that may be missing between two beats: one minute of them.
_MISSING = 600
# Names of unknown senders that are remembered.
_NAMES = 10_000
# Seconds between two times at which those are forgotten that were not heard lately.
_PURGE = 1.0
_Address = Any


class _Voice:
    """One host."""

    __slots__ = ('address', 'answered', 'at', 'boot', 'half_deaf', 'hello', 'host', 'kernel',
                 'key', 'left', 'master', 'number', 'usual')

    def __init__(self, host: str, master: bytes, key: voice.Key) -> None:
        self.host = host
        self.master = master
        self.key = key
        self.boot = b''
        self.number = -1
        self.kernel = b''
        # Lease and age of storage.
        self.usual: tuple[int, int] = (0, 0)
        # When it was heard, when a beat was heard that is no sign of life, and when it was
        # answered, by the engine's clock.
        self.at = self.half_deaf = self.answered = self.hello = float('-inf')
        self.left = False
        self.address: _Address = None


class Voices:
    """What was heard. One thread reads; any thread may ask.

    :param masters: the master keys, the newest one first; without one, nothing is heard
    :param now: returns the time by the engine's clock
    :param rejected: receives the messages that do not count
    """

    def __init__(self, now: Callable[[], float], masters: Sequence[bytes] = (),
                 rejected: rejections.Rejections | None = None) -> None:
        self._now = now
        self._masters = tuple(masters)
        self._rejected = rejected or rejections.Rejections()
        self._voices: dict[bytes, _Voice] = {}
        # By name: when a beat with a wrong MAC was heard.
        self._refused: dict[bytes, float] = {}
        self._purged = float('-inf')
        # The nonces that count, and when each was issued.
        self._nonces: dict[bytes, float] = {}
        self._nonce = voice.NO_NONCE
        # When the socket was found empty last, and since when silences count.
        self._read = self._since = now()
        self._lost = 0
        self.heard = 0

    def use(self, masters: Sequence[bytes]) -> None:
        """Take other master keys."""
        self._masters = tuple(masters)
        for known in list(self._voices.values()):
            if known.master not in self._masters:
                known.master, known.key = b'', _NOBODY

    # For the thread that reads

    def hear(self, datagrams: Iterable[tuple[bytes, _Address]]) -> list[tuple[bytes, _Address]]:
        """Take datagrams that were read together, and return the answers. It never raises."""
        now = self._now()
        nonces, answers = self._fresh(now), []
        voices, unpack, shortest = self._voices, voice.BEAT.unpack_from, voice.HEADER
        count = 0
        # Without a call that a usual beat does not need: there may be 100,000 per second.
        for datagram, address in datagrams:
            known = voices.get(datagram[shortest:])
            if known is not None and known.key.proves(datagram):
                kind, lease, age, number, boot, _kernel, nonce = unpack(datagram, voice.MAC)
                if (boot == known.boot and 0 < number - known.number <= _MISSING
                        and nonce in nonces and kind == _BEAT and lease < _LEASES
                        and not known.left):
                    known.number, known.at, known.usual = number, now, (lease, age)
                    known.address = address
                    count += 1
                    if now - known.answered >= _ANSWER:
                        answers.append((self._answer(known, voice.Says.NOTHING), address))
                    continue
            answer = self._hear_unusual(datagram, address, now)
            if answer is not None:
                answers.append((answer, address))
        self.heard += count
        return answers

    def empty(self, at: float, lost: int = 0) -> None:
        """Take that the socket is empty.

        :param at: a time by the engine's clock: all that has arrived before it was read
        :param lost: number of the datagrams that the kernel has ever dropped
        """
        if at - self._read > PAUSE or lost != self._lost:
            self._since, self._lost = at, lost
        self._read = at

    def _fresh(self, now: float) -> dict[bytes, float]:
        """Return the nonces that count, and issue another one if that is due."""
        if now - self._nonces.get(self._nonce, float('-inf')) >= _RENEW:
            self._nonce = os.urandom(voice.NONCE)
            self._nonces = {nonce: issued for nonce, issued in self._nonces.items()
                            if now - issued < voice.NONCE_S} | {self._nonce: now}
        return self._nonces

    def _answer(self, known: _Voice, says: voice.Says) -> bytes:
        known.answered = self._now()
        return known.key.answer(voice.Answer(known.boot, known.number, self._nonce, says))

    def _hear_unusual(self, datagram: bytes, address: _Address, now: float) -> bytes | None:
        """Take a datagram that is no usual beat, and return the answer to it."""
        try:
            beat = voice.decoded(datagram)
        except voice.MalformedError as exc:
            self._rejected.note(rejections.MALFORMED, 'nobody', str(exc))
            return None
        known = self._sender(datagram, beat, now)
        if known is None:
            return None
        fresh = beat.nonce in self._nonces
        if fresh and not self._counts(known, beat, now):
            return None
        if fresh:
            known.boot, known.number, known.kernel = beat.boot, beat.number, beat.kernel
            known.usual = voice.BEAT.unpack_from(datagram, voice.MAC)[1:3]
            known.at, known.address, known.half_deaf = now, address, float('-inf')
            known.left = beat.kind == voice.Kind.GOODBYE
            self.heard += 1
            if known.left:
                LOG.info('the sentinel of %s says goodbye', beat.host)
        elif beat.boot == known.boot and beat.number <= known.number:
            # It is old, or somebody has sent it once more.
            return None
        else:
            known.half_deaf = now
        if not known.left and now - known.hello < _HELLO:
            return None
        known.hello = now
        return known.key.answer(voice.Answer(beat.boot, beat.number, self._nonce))

    def _sender(self, datagram: bytes, beat: voice.Beat, now: float) -> _Voice | None:
        """Return the host that has sent a beat; None if nobody with its key has."""
        name = datagram[voice.HEADER:]
        known = self._voices.get(name)
        if known is not None and known.key.proves(datagram):
            return known
        for master in self._masters:
            key = voice.Key(voice.host_key(master, beat.host))
            if key.proves(datagram):
                if known is None:
                    known = self._voices[name] = _Voice(beat.host, master, key)
                known.master, known.key = master, key
                self._refused.pop(name, None)
                return known
        if len(self._refused) >= _NAMES and now - self._purged >= _PURGE:
            self._purged = now
            self._refused = {other: at for other, at in self._refused.items()
                             if now - at < LONGEST}
        if len(self._refused) < _NAMES:
            self._refused[name] = now
        self._rejected.note(rejections.UNAUTHENTICATED, beat.host,
                            'its sentinel has no key that follows from a key of this engine')
        return None

    def _counts(self, known: _Voice, beat: voice.Beat, now: float) -> bool:
        """Return whether a beat with a nonce that counts is of the sentinel of its host."""
        if beat.boot != known.boot:
            if now - known.at < _OTHER and not known.left:
                self._rejected.note(rejections.SENDER, beat.host,
                                    'its sentinel is heard, and another sender has its key')
                return False
            return True
        if beat.number - known.number > _MISSING + 2.0 * (now - known.at) / voice.INTERVAL:
            self._rejected.note(rejections.JUMP, beat.host,
                                f'beat number {beat.number} of its sentinel is far ahead')
            return False
        return beat.number > known.number

    # For any thread

    @property
    def listens(self) -> bool:
        """Whether sentinels may be heard: there is a key."""
        return bool(self._masters)

    def state(self, host: str, patience: float | None = None) -> str | None:
        """Return the state of the voice of a host; None if this engine has never heard it.

        :param patience: seconds of silence after which it is not heard
        """
        if not self._voices and not self._refused:
            return None
        now, name = self._now(), host.encode()
        known = self._voices.get(name)
        if known is not None and known.at > float('-inf'):
            if known.left:
                return LEFT
            if now - self._read > LONGEST:
                return DEAF
            silence = self._read - known.at
            if silence < LONGEST and self._read - max(known.at, self._since) < (
                    PATIENCE if patience is None else patience):
                return HEARD
        if known is not None and now - known.half_deaf < _REMEMBERED:
            return HALF_DEAF
        if now - self._refused.get(name, float('-inf')) < LONGEST:
            return UNAUTHENTICATED
        return None if known is None or known.at == float('-inf') else SILENT

    def last(self, host: str) -> float | None:
        """Return when a sentinel was heard last, by the engine's clock; None for never."""
        known = self._voices.get(host.encode())
        return None if known is None or known.at == float('-inf') else known.at

    def kernel(self, host: str) -> bytes:
        """Return what stands for the boot of a host by its sentinel; empty if that is unknown."""
        known = self._voices.get(host.encode())
        return b'' if known is None else known.kernel

    def storage_age(self, host: str) -> float | None:
        """Return for how many seconds Ceph has not answered a sentinel; None if unknown."""
        known = self._voices.get(host.encode())
        return None if known is None else voice.age(known.usual[1])

    def lease(self, host: str) -> str:
        """Return the lease that a sentinel reports; empty for none."""
        known = self._voices.get(host.encode())
        return '' if known is None else voice.LEASES[known.usual[0]]

    def states(self) -> dict[str, str]:
        """Return the state of each host that was ever heard, or that has another key."""
        names = [*self._voices, *self._refused]
        states = {name.decode(): self.state(name.decode()) for name in names}
        return {name: state for name, state in states.items() if state is not None}

    def answerable(self) -> list[tuple[str, bytes, int]]:
        """Return host, boot and number of the latest sign of life of each sentinel."""
        return [(known.host, known.boot, known.number) for known in list(self._voices.values())
                if known.at > float('-inf') and not known.left]

    def renewal(self, host: str, boot: bytes, number: int, says: voice.Says
                ) -> tuple[bytes, _Address] | None:
        """Return what renews the lease of a host, and where to; None if it was not heard.

        :param boot: of the beat that is answered, and its number
        """
        known = self._voices.get(host.encode())
        if known is None or known.address is None:
            return None
        known.answered = self._now()
        return known.key.answer(voice.Answer(boot, number, self._nonce, says)), known.address

    def forget(self, host: str) -> None:
        """Forget a host until it is heard again."""
        self._voices.pop(host.encode(), None)
        self._refused.pop(host.encode(), None)


_BEAT, _LEASES = int(voice.Kind.BEAT), len(voice.LEASES)
# The key of a host whose master key has been replaced: nobody has it.
_NOBODY = voice.Key(os.urandom(voice.KEY))
