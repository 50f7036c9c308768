# SPDX-License-Identifier: Apache-2.0
"""Whether a local domain has been overtaken by a promoted backup: a pure function of facts.

A domain *uses* an image if the image itself is on top of one of its disks. A backup has its
overlay on top, and the volume below it: it does not use the volume, until its merge has switched
it over. Only uses are looked at, so a backup that is starting, sealed, promoted or merging is out
of the question from the start.

Who may use a volume, by the state of its record:

=================== =====================================================================
creating to         the primary, and nobody decides anything yet
collapsing
aborting            the primary; after ``late-dirty`` it is fenced for good, and its version
                    is to be started again
promoted, merging   nobody: the server runs through its overlay, and the switch of a merge
                    comes after the record says merged
merged, or no       the server, wherever it runs now; and whoever was fenced must not
record any more
=================== =====================================================================

From that, what makes a domain stale:

A.  The record says promoted or merging, and the domain uses the volume. The facts are collected in
    this order: the domain's disks first, the record afterwards. So the record had not said merged
    when the disks were as they are. Still, a mistake elsewhere (a server started on the wrong
    image) must not make us end a promoted server. So there has to be evidence that this is the
    primary or its host: one of the addresses that the record names as fenced is a client of the
    domain, or is one of this host. Only where nobody was fenced, because the primary's clients
    were gone before, there is none to ask for.
B.  The record says merged, or late-dirty, and one of the domain's own clients is among those it
    names as fenced. The host alone says nothing any more: the server may rightly be back here.
C.  One of the domain's own clients is blocklisted for good, and no record names it as fenced. A
    record names whom it fences *before* it does, and an abort takes the fence back *before* its
    record goes. The facts are collected in this order: the blocklist first, records afterwards.
    So whoever fenced it has decided against it for good, and is gone: a superposition that was
    promoted, merged and ended while this host saw nothing of it. The blocklist of a monitor may
    be older than its neighbour's, for a moment: this verdict has to stand for some seconds.
    It holds for overlays, too: whoever still runs a backup that was aborted is shut out of its
    overlay for good.

And what speaks for a domain, before all of these:

-   it is the backup of this very superposition: its metadata say so, or QEMU was started with the
    overlay, which no rewriting of metadata can change;
-   for B and C: somebody on this host watches the image and is not blocklisted. A fenced client
    has no watch, and cannot get one again; a running server always has.

A domain's *own clients* are those that were seen watching the image, on this host, while this very
QEMU process ran and was the only one here to use the image. Those of an earlier process are not
its own, so a server that was started anew on the host of its fenced predecessor is safe.

Everything that is not known is a reason to do nothing: an image that cannot be looked at, a record
that cannot be read, clients that were never seen.
"""

import dataclasses
import enum

from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states


class Kind(enum.Enum):
    """What follows from the facts."""

    KEEP = 'keep'
    # Kept, because not all facts could be collected.
    UNKNOWN = 'unknown'
    STALE = 'stale'
    # Stale, if it still looks so in some seconds.
    FENCED = 'fenced'


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What follows from the facts, and why."""

    kind: Kind
    reason: str


@dataclasses.dataclass(frozen=True)
class Superposition:
    """What matters of a record."""

    id: str
    state: str
    outcome: str | None
    fenced: frozenset[str]

    @classmethod
    def of(cls, record: records.Record) -> 'Superposition':
        """Take from a record what matters."""
        return cls(record.id, record.state, record.outcome, frozenset(record.fenced))


@dataclasses.dataclass(frozen=True)
class Use:
    """An image that a domain uses.

    :param image: as pool/image
    :param superposition: the one that has the volume, None for none
    :param clients: the domain's own clients, as far as they were seen
    :param blocklisted: the clients among them that are blocklisted for good
    :param noted: addresses that any record names as fenced that has the volume among its own
    :param watched: somebody on this host watches the image and is not blocklisted
    :param through_overlay: QEMU was started with the superposition's overlay of this image
    """

    image: str
    superposition: Superposition | None = None
    clients: frozenset[str] = frozenset()
    blocklisted: frozenset[str] = frozenset()
    noted: frozenset[str] = frozenset()
    watched: bool = True
    through_overlay: bool = False


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known of a domain.

    :param backup_of: the superposition that its metadata name
    :param hosts: the addresses of this host as a client of Ceph
    :param uses: what it uses; None for an image of which not everything could be found out
    """

    backup_of: str | None
    hosts: frozenset[str]
    uses: tuple[Use | None, ...]


def decide(facts: Facts) -> Verdict:
    """Return whether a domain is stale. In doubt it is not."""
    uses = [use for use in facts.uses if use is not None]
    if len(uses) < len(facts.uses):
        return Verdict(Kind.UNKNOWN, 'not everything about its disks is known')
    for use in uses:
        if use.superposition is not None and (
                use.superposition.id == facts.backup_of or use.through_overlay):
            return Verdict(Kind.KEEP, f'it is the backup of superposition {use.superposition.id}')
    for use in uses:
        if use.superposition is not None and (
                reason := _overtaken(use, use.superposition, facts.hosts)):
            return Verdict(Kind.STALE, reason)
    for use in uses:
        if reason := _fenced(use):
            return Verdict(Kind.FENCED, reason)
    return Verdict(Kind.KEEP, 'nothing speaks against it')


def _overtaken(use: Use, held: Superposition, hosts: frozenset[str]) -> str:
    said = f'it uses {use.image}, of which superposition {held.id} is {held.state}'
    fenced = sorted(use.clients & held.fenced)
    if held.state in (states.PROMOTED, states.MERGING):
        if fenced:
            return f'{said}, and is client {fenced[0]}, which is fenced'
        if not held.fenced:
            return said
        if hosts & {address.host(client) for client in held.fenced}:
            return f'{said}, and runs on the host of the fenced primary'
        return ''
    if (held.state == states.MERGED or held.outcome == states.LATE_DIRTY) \
            and fenced and not use.watched:
        return f'{said} ({held.outcome}), and is client {fenced[0]}, which is fenced'
    return ''


def _fenced(use: Use) -> str:
    settled = sorted(use.blocklisted - use.noted)
    if settled and not use.watched:
        return (f'its client {settled[0]} of {use.image} is fenced for good, by a superposition '
                f'that has ended')
    return ''
