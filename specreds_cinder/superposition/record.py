# SPDX-License-Identifier: Apache-2.0
"""What is known of a superposition, as it is written down in RADOS."""

import dataclasses
import datetime
import json
import re
from typing import Any
import uuid

import jsonschema

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import states

FORMAT = 1

_NAME = re.compile(r'[^/@\s]+')
_TEXT = {'type': 'string'}
_COUNT = {'type': 'integer', 'minimum': 0}
_TEXTS = {'type': 'array', 'items': _TEXT}
_SCHEMA = {
    'type': 'object',
    'required': ['format', 'id', 'state', 'outcome', 'volumes', 'cuts', 'fenced', 'created_at',
                 'changed_at', 'reason', 'server'],
    'additionalProperties': False,
    'properties': {
        'format': {'const': FORMAT},
        'id': {'type': 'string', 'format': 'uuid'},
        'state': {'enum': sorted(states.MOVES)},
        'outcome': {'enum': [None, *sorted(states.OUTCOMES)]},
        'volumes': {'type': 'array', 'minItems': 1, 'items': {
            'type': 'object',
            'required': ['pool', 'namespace', 'image', 'image_id', 'pool_id', 'data_pool_id',
                         'data_pool', 'data_prefix', 'size', 'object_size', 'features',
                         'overlay', 'clients'],
            'additionalProperties': False,
            'properties': {
                'pool': _TEXT, 'namespace': _TEXT, 'image': _TEXT, 'image_id': _TEXT,
                'pool_id': _COUNT, 'data_pool_id': _COUNT, 'data_pool': _TEXT,
                'data_prefix': _TEXT, 'size': _COUNT, 'object_size': _COUNT,
                'features': _COUNT, 'map_digest': _TEXT, 'overlay': _TEXT, 'clients': _TEXTS,
            }}},
        'cuts': {'type': 'object', 'propertyNames': {'pattern': '^[0-9]+$'},
                 'additionalProperties': {
            'type': 'object',
            'required': ['pg_num', 'merges', 'versions'],
            'properties': {'pg_num': _COUNT, 'merges': _TEXT,
                           'versions': {'type': 'array', 'items': _COUNT}}}},
        'fenced': _TEXTS,
        'created_at': _TEXT, 'changed_at': _TEXT,
        'reason': _TEXT, 'server': {'type': ['string', 'null']},
        'joint': {'type': 'boolean'}, 'prepared': {'type': 'boolean'},
        'labels': {'type': 'object'},
    },
}
# jsonschema.validate() would check the schema itself each time: 25 ms for every record read.
_VALIDATOR = jsonschema.Draft202012Validator(_SCHEMA)


@dataclasses.dataclass(frozen=True, order=True)
class VolumeRef:
    """Names an RBD image: ``pool/image`` or ``pool/namespace/image``."""

    pool: str
    namespace: str
    image: str

    @classmethod
    def parse(cls, text: str) -> 'VolumeRef':
        """Read a reference as RBD's own tools write it.

        :raises InvalidInput: it is not of that form
        """
        parts = text.split('/')
        if len(parts) not in (2, 3) or not all(_NAME.fullmatch(part) for part in parts):
            raise errors.InvalidInput(
                f'{text!r} does not name an RBD image: write POOL/IMAGE or POOL/NAMESPACE/IMAGE '
                f'(a snapshot cannot be superposed)')
        return cls(parts[0], '/'.join(parts[1:-1]), parts[-1])

    @property
    def home(self) -> 'Home':
        """The pool and namespace that the image's header lives in."""
        return Home(self.pool, self.namespace)

    def __str__(self) -> str:
        return '/'.join(part for part in (self.pool, self.namespace, self.image) if part)


@dataclasses.dataclass(frozen=True, order=True)
class Home:
    """A pool and namespace: where records, claims and headers live."""

    pool: str
    namespace: str = ''

    @classmethod
    def parse(cls, text: str) -> 'Home':
        """Read ``pool`` or ``pool/namespace``.

        :raises InvalidInput: it is not of that form
        """
        parts = text.split('/')
        if len(parts) not in (1, 2) or not all(_NAME.fullmatch(part) for part in parts):
            raise errors.InvalidInput(f'{text!r} is no pool: write POOL or POOL/NAMESPACE')
        return cls(*parts)

    def __str__(self) -> str:
        return f'{self.pool}/{self.namespace}' if self.namespace else self.pool


@dataclasses.dataclass(frozen=True)
class Volume:
    """One volume of a superposition, as it was found at the cut.

    :param size: virtual size in bytes
    :param object_size: bytes per data object
    :param data_prefix: data objects are named ``<data_prefix>.<number, 16 hex digits>``
    :param features: RBD feature bits
    :param map_digest: fingerprint of its object map at the cut; empty if it was just changing
    :param overlay: name of the overlay's RBD image, in the same pool and namespace
    :param clients: addresses of the primary's clients, as blocklists name them
    """

    pool: str
    namespace: str
    image: str
    image_id: str
    pool_id: int
    data_pool_id: int
    data_pool: str
    data_prefix: str
    size: int
    object_size: int
    features: int
    overlay: str
    clients: tuple[str, ...]
    map_digest: str = ''

    @property
    def ref(self) -> VolumeRef:
        """The volume's RBD image."""
        return VolumeRef(self.pool, self.namespace, self.image)

    @property
    def overlay_ref(self) -> VolumeRef:
        """The overlay's RBD image."""
        return VolumeRef(self.pool, self.namespace, self.overlay)


@dataclasses.dataclass(frozen=True)
class Cut:
    """A vector of RADOS versions, one per placement group of a pool.

    :param pg_num: the placement groups there were
    :param merges: fingerprint of the pool's last merge of placement groups
    :param versions: by placement group, the version that the cut's marker got
    """

    pg_num: int
    merges: str
    versions: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Record:
    """A superposition of a set of volumes.

    :param outcome: None until decided, then promoted, aborted, dirty or late-dirty
    :param cuts: by pool id
    :param fenced: addresses that were, or were about to be, blocklisted
    :param joint: it is decided together with others: by preparing all, then committing all
    :param prepared: fenced and swept clean: it may be committed, whenever that is decided
    :param labels: what the caller wants to find again, as JSON values
    :param version: RADOS version of the record's object, which compare-and-swap compares
    """

    id: str
    state: str
    volumes: tuple[Volume, ...]
    created_at: str
    changed_at: str
    cuts: dict[int, Cut] = dataclasses.field(default_factory=dict)
    outcome: str | None = None
    fenced: tuple[str, ...] = ()
    reason: str = ''
    server: str | None = None
    joint: bool = False
    prepared: bool = False
    labels: dict[str, Any] = dataclasses.field(default_factory=dict)
    version: int = 0

    @property
    def home(self) -> Home:
        """Where the record lives: with the first of its volumes."""
        return self.volumes[0].ref.home

    @property
    def homes(self) -> tuple[Home, ...]:
        """Every pool and namespace that holds one of the volumes."""
        return tuple(sorted({volume.ref.home for volume in self.volumes}))

    @property
    def clients(self) -> frozenset[str]:
        """The primary's clients at the time of super, over all volumes."""
        return frozenset(addr for volume in self.volumes for addr in volume.clients)

    def namespace_of(self, pool_id: int) -> str:
        """Give the namespace that the cut of a pool was taken in."""
        return next(volume.namespace for volume in self.volumes
                    if pool_id in (volume.pool_id, volume.data_pool_id))

    def moved(self, state: str, **changes: Any) -> 'Record':
        """Return the record with another state.

        :raises Conflict: no transition leads from its state to that one
        """
        if state not in states.MOVES[self.state]:
            raise errors.Conflict(
                f'superposition {self.id} is {self.state}: it cannot become {state}', self.state)
        return dataclasses.replace(self, state=state, changed_at=now(), **changes)

    def check_successor(self, new: 'Record') -> None:
        """Make sure that another record may replace this one.

        It has the same id and volumes, a state that :data:`states.MOVES` allows, and the outcome
        that belongs to the state: neither can a decision be taken back, nor a volume be lost.

        :raises Conflict: it may not
        """
        wrong = None
        if new.state != self.state and new.state not in states.MOVES[self.state]:
            wrong = f'it cannot become {new.state}'
        elif (new.outcome == states.PROMOTED) != (new.state in states.DECIDED):
            wrong = f'as {new.state}, its outcome cannot be {new.outcome}'
        elif new.id != self.id or [volume.ref for volume in new.volumes] != [
                volume.ref for volume in self.volumes]:
            wrong = f'superposition {new.id} of {len(new.volumes)} volumes cannot replace it'
        if wrong is not None:
            raise errors.Conflict(f'superposition {self.id} is {self.state}: {wrong}', self.state)

    def dump(self) -> bytes:
        """Write the record as it is stored: JSON, without the version."""
        body = dataclasses.asdict(self)
        del body['version']
        return json.dumps({'format': FORMAT, **body}, separators=(',', ':')).encode()

    @classmethod
    def load(cls, raw: bytes, version: int) -> 'Record':
        """Read a stored record.

        :raises ClusterError: it is not a record, or one of a newer format
        """
        body = parse(raw, _VALIDATOR, 'superposition record')
        del body['format']
        body['volumes'] = tuple(Volume(**{**volume, 'clients': tuple(volume['clients'])})
                                for volume in body['volumes'])
        body['cuts'] = {int(pool): Cut(cut['pg_num'], cut['merges'], tuple(cut['versions']))
                        for pool, cut in body['cuts'].items()}
        body['fenced'] = tuple(body['fenced'])
        return cls(**body, version=version)


def parse(raw: bytes, validator: jsonschema.Draft202012Validator, what: str) -> Any:
    """Return what a stored object says.

    :param what: what the object is, for the error
    :raises ClusterError: it is no JSON, or not what the validator demands
    """
    try:
        body = json.loads(raw)
        validator.validate(body)
    except (ValueError, jsonschema.ValidationError) as exc:
        reason = getattr(exc, 'message', exc)
        raise errors.ClusterError(
            f'unreadable {what} (written by a newer release?): {reason}') from exc
    return body


def new_id() -> str:
    """Make the id of a new superposition."""
    return str(uuid.uuid4())


def now() -> str:
    """The time of day in UTC, as records write it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec='milliseconds')
