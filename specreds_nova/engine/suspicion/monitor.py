# SPDX-License-Identifier: Apache-2.0
"""All hosts, as this engine hears them: which are suspected, and why.

::

    monitor = Monitor(clock, watcher, conf.monitor_settings(CONF.engine))
    monitor.expect(names of the hosts that the store knows)
    # listener's thread:  monitor.heard(beat), monitor.echo(sent)
    # service's thread:   monitor.pause(0.05), monitor.tick(), which calls the watcher
    # and for a suspected host, as long as it is, before anything is done:
    gates.reasons(monitor.facts(host, service))
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import dataclasses
import math
import threading
from typing import Any

from specreds_nova.beats import listening
from specreds_nova.beats import message
from specreds_nova.beats import rejections
from specreds_nova.beats import voices as all_voices
from specreds_nova.engine import model
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.suspicion import correlation
from specreds_nova.engine.suspicion import due
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import restless
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.engine.suspicion import watched
from specreds_nova.engine.suspicion import watcher as watchers
from specreds_nova.engine.suspicion import weighing

# Seconds after which a sentinel is missed that does not look: it writes down every 5 s that it
# does, and a look may take some seconds where parts of Ceph do not answer.
SENTINEL_S = 20.0


class Monitor:
    """The hosts that are heard. Every method may be called by any thread.

    :param clock: the source of time
    :param watcher: receiver of changes
    :param own_broker: returns the broker node through which beats are heard; empty if unknown
    :param rejected: receives the messages that do not count
    :param voices: the sentinels that are heard
    """

    def __init__(self, clock: clocks.Clock, watcher: watchers.Watcher,
                 settings: monitoring.Settings | None = None,
                 own_broker: Callable[[], str] = lambda: '',
                 rejected: rejections.Rejections | None = None,
                 voices: all_voices.Voices | None = None) -> None:
        self._clock = clock
        self._watcher = watcher
        self._own_broker = own_broker
        self._rejections = rejected or rejections.Rejections()
        self._settings = settings or monitoring.Settings()
        self._voices = voices or all_voices.Voices(clock.now)
        self._weighing = weighing.Weighing(self._settings, self._voices, clock.now)
        self._listening = listening.Listening(self._settings.link, clock.now())
        self._due = due.Due()
        self._began = clock.now()
        self._lock = threading.Lock()
        self._hosts: dict[str, watched.Watched] = {}
        self._restless = restless.Restless(self._settings)
        # The latest overviews of the hosts, by whether hosts that report a stall count as silent,
        # and their time of the listening clock.
        self._seen: dict[bool, tuple[float, correlation.Overview]] = {}
        # By name: hosts that were suspected, and are heard again.
        self._returned: dict[str, correlation.Returned] = {}
        # The hosts that Nova lists; None before its first answer.
        self._listed: frozenset[str] | None = None
        # By host: what its latest report of its sentinel says, a time after which that has reached
        # the broker, and when it was heard.
        self._sentinels: dict[str, tuple[str, float | None, float, float]] = {}
        # Beats since the last call of `counted`, and beats since the last call of `dropped`.
        self._count = self._dropped = 0
        # Calls of the watcher that are due, in order.
        self._news: list[watchers.News] = []

    # Input

    def heard(self, beat: message.Beat) -> None:
        """Take a host's beat."""
        self.heard_together((beat,))

    def heard_together(self, beats: Sequence[message.Beat]) -> None:
        """Take beats that have arrived at the same time, in their order."""
        now = self._clock.now()
        at, learn = self._listening.at(now), self._listening.runs(now)
        echoed = self._listening.echoed()
        with self._lock:
            self._hear(beats, at, now, learn, echoed)

    def heard_late(self, beats: Sequence[message.Beat], echoes: Sequence[float],
                   dropped: int) -> None:
        """Take what an engine reads at once that has not read for a while.

        Nothing is judged before all of it is taken, and the gaps between beats mean nothing.

        :param beats: the newest beat of each host, and others that matter, in their order
        :param echoes: the times at which the echoes among them were sent
        :param dropped: number of the older beats that are left out
        """
        now = self._clock.now()
        with self._lock:
            # The beats came with these echoes: all of them were sent after the one before.
            echoed = self._listening.echoed()
            self._dropped += dropped
            for sent in echoes:
                self._echo(sent, now)
            self._hear(beats, self._listening.at(now), now, False, echoed)
            self._due.move(self._listening.horizon())

    def echo(self, sent: float) -> None:
        """Take an echo.

        :param sent: when it was sent; one that is not over yet does not count
        """
        with self._lock:
            self._echo(sent, self._clock.now())
            self._due.move(self._listening.horizon())

    def due_in(self) -> float:
        """Return the seconds until the next late host is to be suspected; infinity for none."""
        return self._due.left(self._listening.at(self._clock.now()))

    def pause(self, seconds: float) -> None:
        """Wait until the next late host is to be suspected, but no longer than some seconds."""
        self._due.wait(seconds)

    def expect(self, hosts: Iterable[str]) -> None:
        """Watch hosts that an engine has heard before, but this one has not."""
        at = self._listening.at(self._clock.now())
        with self._lock:
            for name in hosts:
                if name not in self._hosts:
                    self._add(name, at, self._settings.interval)

    def booted(self, host: str, kernel: str) -> None:
        """Take the recorded boot of a host that was not heard since."""
        with self._lock:
            watched_host = self._hosts.get(host)
            if watched_host is not None and watched_host.beat is None:
                watched_host.kernel = kernel

    def left(self, host: str, goodbye: str, at: float) -> None:
        """Take a recorded goodbye of a host that was not heard since.

        :param at: when it was said, by the clock of the system
        """
        at -= self._ahead()
        with self._lock:
            watched_host = self._hosts.get(host)
            if watched_host is not None and watched_host.beat is None:
                watched_host.goodbye, watched_host.goodbye_at, watched_host.leaving = (
                    goodbye, at, True)

    def place(self, places: Mapping[str, Iterable[str]]) -> None:
        """Take the availability zone and the aggregates of hosts, in words."""
        with self._lock:
            for name, labels in places.items():
                if name in self._hosts:
                    self._hosts[name].places = tuple(labels)
            self._seen = {}

    def places(self, host: str) -> tuple[str, ...] | None:
        """Return the availability zone and the aggregates of a host, in words.

        :returns: none for a host that Nova does not list; None before Nova has answered
        """
        with self._lock:
            return self._hosts[host].places if host in self._hosts else None

    def listed(self, hosts: Collection[str]) -> None:
        """Take the hosts that Nova lists: no others count, whose beats anybody may send.

        :param hosts: if there are none, Nova is probably being restored, and nothing changes
        """
        if hosts:
            with self._lock:
                self._listed = frozenset(hosts)
                for name in self._hosts.keys() - self._listed:
                    self._hosts[name].places = ()
                self._seen = {}

    def names(self) -> list[str]:
        """Return all hosts that are watched."""
        with self._lock:
            return list(self._hosts)

    def kernels(self) -> dict[str, str]:
        """Return which boot of each host runs that is heard and not suspected."""
        with self._lock:
            return {name: host.beat.kernel for name, host in self._hosts.items()
                    if host.beat is not None and host.beat.kernel and not host.suspected}

    def sentinels(self) -> dict[str, str]:
        """Return the state of the sentinel of each host that has reported it to this engine.

        A sentinel that is heard itself may report sooner that it has no lease. That holds until
        nova-compute reports something later.
        """
        with self._lock:
            reports = dict(self._sentinels)
        states = {name: _sentinel(lease, age) for name, (lease, age, _, _) in reports.items()}
        heard = {name: at for name, (_, _, _, at) in reports.items()}
        return states | {name: model.UNLEASED for name, state in self._voices.states().items()
                         if self._unleased(name, state, heard.get(name, -math.inf))}

    def _unleased(self, host: str, state: str, reported: float) -> bool:
        """Return whether a sentinel itself has reported last that it has no lease.

        :param state: of its voice
        :param reported: when its nova-compute has reported last, by the engine's clock
        """
        last = self._voices.last(host)
        return self._voices.lease(host) == message.UNLEASED and last is not None and (
            state == all_voices.HEARD or last > reported)

    def voices(self) -> dict[str, str]:
        """Return which voices of each host are heard, without hosts of which nothing is known."""
        if not self._voices.listens:
            return {}
        horizon = self._listening.horizon()
        with self._lock:
            late = {name: self._weighing.late(host, horizon)
                    for name, host in self._hosts.items() if host.beat is not None}
        heard = {name: _voices(self._voices.state(name), late[name]) for name in late}
        return {name: voices for name, voices in heard.items() if voices is not None}

    def silences(self) -> dict[str, float | None]:
        """Return since when neither voice of each host is heard, by the engine's clock.

        :returns: None for a host that is heard; nothing while this engine may be deaf
        """
        if self._listening.trouble(self._clock.now()) is not None:
            return {}
        horizon = self._listening.horizon()
        with self._lock:
            return {name: self._last(name) if self._weighing.late(host, horizon)
                    and self._voices.state(name) != all_voices.HEARD else None
                    for name, host in self._hosts.items()}

    def hides(self, host: str, after: float) -> bool | None:
        """Return whether the sentinel of a host hides servers; None if that is unknown.

        :param after: time by the engine's clock after which a report that it does was sent
        """
        with self._lock:
            lease, age, sent_after, _ = self._sentinels.get(host, ('', None, 0.0, 0.0))
        if (self._voices.state(host) == all_voices.HEARD
                and self._voices.lease(host) in (message.SHOWS, message.UNLEASED)):
            return False
        if lease == message.LEASED:
            return True if sent_after >= after and _sentinel(lease, age) == model.LIVE else None
        return None if not lease else False

    def forget(self, host: str) -> None:
        """Stop watching a host until it is heard again."""
        with self._lock:
            self._hosts.pop(host, None)
            self._returned.pop(host, None)
            self._voices.forget(host)
            self._sentinels.pop(host, None)
            self._restless.stir()

    def note(self, host: str, kind: str, measured: object, share: float = 1.0,
             seen: float | None = None) -> None:
        """Take evidence about a host. It is forgotten unless it is repeated.

        :param measured: value for the words of the kind
        :param seen: time at which its source heard the host last, by the clock of the system;
            evidence about an earlier nova-compute is left out
        :raises KeyError: there is no such kind
        """
        piece = evidence.of(kind, measured, self._clock.now(), share)
        at = self._listening.at(piece.at)
        with self._lock:
            watched_host = self._hosts.get(host) or self._add(host, at, self._settings.interval)
            if seen is not None and seen - self._ahead() < watched_host.started:
                watched_host.noted.pop(kind, None)
                return
            watched_host.noted[kind] = piece
            self._notice(watched_host)

    def withdraw(self, host: str, kind: str) -> None:
        """Forget evidence; nothing happens if there is none."""
        with self._lock:
            if host in self._hosts:
                self._hosts[host].noted.pop(kind, None)

    def word(self, host: str, word: str | None, reason: str = '') -> None:
        """Take an operator's word, which overrides all evidence. May be repeated.

        :param word: ``suspect``, ``clear``, or None to withdraw it
        """
        at = self._listening.at(self._clock.now())
        with self._lock:
            known = self._hosts.get(host)
            if known is None:
                if word is None:
                    return
                known = self._add(host, at, self._settings.interval)
            if (known.word, known.word_reason) != (word, reason):
                known.word, known.word_reason = word, reason
                self._notice(known)

    def tick(self) -> None:
        """Judge all hosts, and report changes to the watcher."""
        now = self._clock.now()
        with self._lock:
            horizon = self._listening.horizon()
            late = []
            for host in self._restless.among(self._hosts.values(), horizon):
                accrual = host.accrual
                if accrual.deadline <= horizon or host.notable or host.suspected:
                    self._judge(host, horizon, now)
                elif host.doubted:
                    late.append(accrual.deadline)
                elif host.beat is not None and (
                        horizon - accrual.last > self._settings.doubt * host.interval):
                    host.doubted = True
                    late.append(accrual.deadline)
                    self._news.append(('doubted', (host.name,)))
            self._due.set(min(late, default=math.inf))
            news, self._news = self._news, []
        watchers.tell(self._watcher, news)

    # Output

    def suspected(self, host: str) -> bool:
        """Return whether a host is suspected, or was never heard."""
        with self._lock:
            watched_host = self._hosts.get(host)
            return watched_host is None or watched_host.suspected or (
                watched_host.beat is None and watched_host.word != model.CLEAR)

    def all_suspected(self) -> list[str]:
        """Return the hosts that are suspected."""
        with self._lock:
            return [host.name for host in self._hosts.values() if host.suspected]

    def healthy(self) -> list[str]:
        """Return the hosts that are heard and report that all is well."""
        with self._lock:
            doubtful = self._doubtful(self._listening.horizon())
            return [host.name for host in self._counted_hosts()
                    if host.beat is not None and not host.suspected and not host.leaving
                    and host not in doubtful]

    def answerable(self) -> list[tuple[str, str, int]]:
        """Return host, boot and number of the latest beat of each host, suspected or not."""
        with self._lock:
            return [(host.name, host.beat.boot, host.beat.number)
                    for host in self._hosts.values() if host.beat is not None]

    def vote(self, engine: str, contested: Collection[str]) -> model.Vote:
        """Return what this engine hears, for the other engines.

        :param contested: the hosts that another engine does not hear
        """
        now = self._clock.now()
        if self._listening.trouble(now) is not None:
            return model.Vote(engine, deaf=True)
        horizon = self._listening.horizon()
        with self._lock:
            # A host whose sentinel alone is heard keeps other engines from suspecting it, and is
            # no reason to trust it again.
            missed = self._doubtful(horizon, unheard=True)
            spoken = {host for host in missed if self._spoken_for(host, horizon)}
            silent = {host.name for host in missed - spoken
                      if not self._weighing.excused(host, now)}
            silent |= {name for name in contested if name not in self._hosts}
            expected = sorted({host.name for host in spoken}.union(
                name for name, host in self._hosts.items()
                if host.leaving and name not in silent))
            heard = {name: self._hosts[name].listed() for name in sorted(contested)
                     if name not in silent and name not in expected}
            ages = {name: now - self._last(name) for name in silent}
        return model.Vote(engine, silent=tuple(sorted(silent)), heard=heard,
                          expected=tuple(expected), ages=ages)

    def counted(self) -> int:
        """Return how many beats were heard since the last call."""
        with self._lock:
            count, self._count = self._count, 0
            return count

    def dropped(self) -> int:
        """Return how many old beats were left out since the last call."""
        with self._lock:
            count, self._dropped = self._dropped, 0
            return count

    def lateness(self) -> float:
        """Return by how many seconds this engine reads messages late, if that is too late."""
        return self._listening.overload(self._clock.now())

    def trouble(self) -> str | None:
        """Return why silence is meaningless now; None if it is meaningful."""
        return self._listening.trouble(self._clock.now())

    def look(self, host: str) -> watched.View | None:
        """Return a host as this engine sees it, None if it was never heard."""
        with self._lock:
            watched_host = self._hosts.get(host)
            if watched_host is None:
                return None
            horizon = self._listening.horizon()
            view = watched_host.view(horizon, self._clock.now() - self._settings.flap_period)
            voice = self._voices.state(host)
            return view if voice is None else dataclasses.replace(
                view, voice=voice, speaks=self._spoken_for(watched_host, horizon),
                spoke=self._voices.last(host))

    def ready(self, host: str, signs: Collection[str]) -> bool:
        """Return whether a host has lately reported one of the signs of a backup on it."""
        with self._lock:
            watched_host = self._hosts.get(host)
            return (watched_host is not None and watched_host.beat is not None
                    and not set(signs).isdisjoint(watched_host.beat.ready))

    def runs(self, host: str, server: str) -> bool | None:
        """Return whether a server's domain runs on a host by its report; None before a report."""
        with self._lock:
            watched_host = self._hosts.get(host)
            return None if watched_host is None else watched_host.runs(server)

    def boot(self, host: str) -> str | None:
        """Return the id of the nova-compute that has sent a host's latest beat; None for none."""
        with self._lock:
            watched_host = self._hosts.get(host)
            return None if watched_host is None else watched_host.boot

    def number(self, host: str) -> int | None:
        """Return the number of the latest beat of a host; None if there was none."""
        with self._lock:
            watched_host = self._hosts.get(host)
            return (None if watched_host is None or watched_host.beat is None
                    else watched_host.number)

    def facts(self, host: str, service: Mapping[str, Any] | None = None) -> gates.Facts:
        """Return the facts that the gates check.

        :param service: as ``Compute.service`` returns it; None without an answer
        """
        now = self._clock.now()
        horizon = self._listening.horizon()
        with self._lock:
            watched_host = self._hosts.get(host)
            silence = (self._weighing.lasts(watched_host, horizon, now)
                       if watched_host else 0.0)
            since = horizon if watched_host is None else max(
                watched_host.troubled_since(), horizon - silence)
            # A host that ends is silent, and its latest beat reports no stall. Stalls of others
            # whose beats arrive say nothing about that silence.
            stalls = (watched_host is None or self._beats(watched_host, horizon)
                      or self._restless.stalled(watched_host))
            seen = self._overview(horizon, now, stalls)
            together = seen.silence(since, self._settings.together)
            silent, known = seen.silent(since, self._settings.together)
            return gates.Facts(
                host=host, trouble=self._listening.trouble(now),
                known=known, silent=silent if host in silent else silent | {host},
                groups=seen.groups(watched_host, together) if watched_host else (),
                powered_up=seen.powered_up(watched_host, now, self._settings.power_up_grace),
                word=watched_host is not None and watched_host.word == model.SUSPECT,
                flaps=(watched_host.flapped(now - self._settings.flap_period)
                       if watched_host else 0),
                service=service or {},
                reported=self._reported(watched_host, service or {}),
                unheard=(now - self._began if watched_host is None or (
                    watched_host.heard is None and watched_host.goodbye_at is None) else None),
                silence=silence,
                speaks=watched_host is not None and self._spoken_for(watched_host, horizon))

    def _reported(self, host: watched.Watched | None, service: Mapping[str, Any]) -> float:
        """Return by how many seconds a report to Nova is newer than the latest beat of a host.

        Of a host that this engine has not heard, the latest beat may be a recorded goodbye.
        """
        beats = () if host is None else (host.heard, host.goodbye_at)
        heard = next((at for at in beats if at is not None), self._began)
        return max(0.0, float(service.get('updated', 0.0)) - self._ahead() - heard)

    def _ahead(self) -> float:
        """Return by how many seconds the clock of the system is ahead of the engine's."""
        return self._clock.wall() - self._clock.now()

    # Methods that hold the lock

    def _last(self, name: str) -> float:
        """Return when either voice of a host was heard last, by the engine's clock.

        What an earlier process of this engine has heard is not known.
        """
        host = self._hosts.get(name)
        spoken = self._voices.last(name)
        heard = [at for at in (None if host is None else host.heard, spoken) if at is not None]
        return max(heard, default=self._began)

    def _hear(self, beats: Sequence[message.Beat], at: float, now: float, learn: bool,
              echoed: float) -> None:
        restless = self._restless
        self._count += len(beats)
        # Without a call that a usual beat does not need: there may be 50,000 per second.
        for beat in beats:
            host = self._hosts.get(beat.host)
            if host is None:
                host = self._add(beat.host, at, beat.interval)
            if host.beat is None:
                self._news.append(('appeared', (beat.host, beat.kernel)))
            before, interval = host.goodbye, host.interval
            # A silence beside a living sentinel was no reason for a suspicion.
            learns = learn and (at < host.accrual.deadline or not self._weighing.speaks(host))
            refusal = host.hear(beat, at, now, learns)
            if refusal is not None:
                if refusal:
                    self._reject(refusal, beat)
                continue
            host.sent_after = echoed
            if beat.lease:
                self._sentinels[beat.host] = beat.lease, beat.sentinel_age, echoed, now
            if beat.interval != interval:
                restless.stir()
            if host.goodbye != before:
                at_wall = self._clock.wall() if beat.leaving else None
                self._news.append(('left', (host.name, host.goodbye, at_wall)))
            if beat.ended or host.crashed or host.rebooted:
                self._ended(host, beat, now)
            if beat.kernel and beat.kernel != host.kernel and not host.rebooted:
                host.kernel = beat.kernel
                self._news.append(('booted', (host.name, beat.kernel)))
            if ((beat.libvirt_age or 0.0) > restless.libvirt
                    or (beat.storage_age or 0.0) > restless.storage):
                self._notice(host)

    def _echo(self, sent: float, now: float) -> None:
        if sent <= now:
            self._resume(self._listening.echo(sent, now))
        else:
            self._rejections.note(rejections.ECHO, 'this engine', f'an echo is dated {sent}')

    def _reject(self, reason: str, beat: message.Beat) -> None:
        what = (f'its beat number {beat.number} is far ahead' if reason == rejections.JUMP else
                f'its nova-compute still beats, and another sender has its name: {beat.boot}')
        self._rejections.note(reason, beat.host, what)

    def _overview(self, horizon: float, now: float, stalls: bool) -> correlation.Overview:
        """Return all hosts as of the newest echo: thousands, for each host of a failed rack.

        :param stalls: hosts that beat and report a stall count as silent
        """
        known = self._seen.get(stalls)
        if known is not None and known[0] == horizon:
            return known[1]
        doubtful = {host for host in self._doubtful(horizon)
                    if not self._spoken_for(host, horizon)}
        seen = correlation.overview(
            self._counted_hosts(),
            lambda host: (host.suspected or host in doubtful) and (
                stalls or not self._beats(host, horizon)),
            (host for host in self._returned.values() if stalls or not host.stalled),
            self._own_broker(), now, self._settings.power_up_grace,
            lambda host: self._weighing.excused(host, now))
        self._seen[stalls] = horizon, seen
        return seen

    def _counted_hosts(self) -> Iterable[watched.Watched]:
        listed = self._listed
        return self._hosts.values() if listed is None else (
            host for host in self._hosts.values() if host.name in listed)

    def _beats(self, host: watched.Watched, horizon: float) -> bool:
        """Return whether the beats of a host arrive, whatever they report."""
        return (host.beat is not None
                and horizon - host.accrual.last <= self._settings.doubt * host.interval
                and (not host.suspected or host.calm >= self._settings.clear_beats))

    def _spoken_for(self, host: watched.Watched, horizon: float) -> bool:
        """Return whether a nova-compute is silent, and the sentinel says that the host is well."""
        return self._weighing.late(host, horizon) and self._weighing.speaks(host)

    def _doubtful(self, horizon: float, unheard: bool = False) -> set[watched.Watched]:
        return self._restless.doubtful(self._hosts.values(), horizon, unheard)

    def _notice(self, host: watched.Watched) -> None:
        # Weighed on the next tick.
        host.notable = True
        self._restless.stir(host)

    def _add(self, name: str, at: float, interval: float) -> watched.Watched:
        host = self._hosts[name] = watched.Watched(name, self._settings.detector, at, interval)
        self._restless.stir()
        return host

    def _resume(self, latest: float | None) -> None:
        """Count all hosts as heard after a time in which the engine may have been deaf."""
        if latest is not None:
            for host in self._hosts.values():
                if host.accrual.last > latest:
                    host.accrual.pretend(latest)
            self._restless.stir()

    def _ended(self, host: watched.Watched, beat: message.Beat, now: float) -> None:
        for server, with_its_host in host.ended(beat):
            pieces = [evidence.of(evidence.CRASH, server, now)]
            if with_its_host:
                pieces.append(evidence.of(evidence.BOOT, host.name, now))
            if evidence.enough(pieces):
                why = tuple(piece.told(self._ahead()) for piece in pieces)
                self._news.append(('crashed', (host.name, server, why)))

    def _judge(self, host: watched.Watched, horizon: float, now: float) -> None:
        if host.leaving and now - (host.goodbye_at or 0.0) >= self._weighing.grace(host):
            host.leaving = False
        pieces = self._weighing.evidence(host, horizon, now)
        host.notable = bool(pieces) or host.word is not None
        if host.word != model.CLEAR and evidence.enough(pieces):
            if not host.suspected:
                host.suspected, host.since = True, now
                host.silent_since = max(host.troubled_since(),
                                        horizon - self._weighing.lasts(host, horizon, now))
                host.suspected_boot = host.boot
                host.suspected_kernel = host.beat.kernel if host.beat else ''
                host.why = tuple(piece.told(self._ahead()) for piece in pieces)
                self._news.append(('suspected', (host.name, host.why)))
        elif host.suspected and (host.word == model.CLEAR or (
                host.calm >= self._settings.clear_beats and host.goodbye is None
                and not self._weighing.late(host, horizon))):
            silent = any(piece['kind'] == evidence.SILENCE for piece in host.why)
            if silent and host.boot == host.suspected_boot:
                host.flaps.append(now)
            self._returned[host.name] = correlation.Returned(
                host.name, host.silent_since, host.since or now, now, not silent)
            host.suspected, host.since, host.why = False, None, ()
            self._news.append(('cleared', (host.name,)))


def _voices(sentinel: str | None, late: bool) -> str | None:
    """Return which voices of a host are heard; None if that is unknown, or if none is.

    :param late: its nova-compute is not heard
    """
    if late:
        return model.SENTINEL_ALONE if sentinel == all_voices.HEARD else None
    if sentinel == all_voices.DEAF:
        return None
    return {all_voices.HEARD: model.BOTH, all_voices.HALF_DEAF: model.HALF_DEAF,
            all_voices.UNAUTHENTICATED: model.UNAUTHENTICATED}.get(
                sentinel or '', model.NOVA_ALONE)


def _sentinel(lease: str, age: float | None) -> str:
    if lease == message.UNLEASED:
        return model.UNLEASED
    return model.LIVE if age is not None and age < SENTINEL_S else model.SILENT
