# SPDX-License-Identifier: Apache-2.0
"""The record of a superposition, and its form in RADOS."""

import dataclasses
import datetime
import json
import re
from typing import Any
import uuid

import jsonschema

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.truth import packing
from specreds_cinder.superposition.truth import states

FORMAT = 1
# The label of a superposition whose backup has made its disks durable.
DURABLE = 'durable'

_NAME = re.compile(r'[^/@\s]+')
_TEXT = {'type': 'string'}
_COUNT = {'type': 'integer', 'minimum': 0}
_TEXTS = {'type': 'array', 'items': _TEXT}
_SCHEMA = {
    'type': 'object',
    'required': ['format', 'id', 'state', 'outcome', 'volumes', 'cuts', 'fenced', 'created_at',
                 'updated_at', 'reason', 'server_id', 'labels'],
    'additionalProperties': False,
    'properties': {
        'format': {'const': FORMAT},
        'id': {'type': 'string', 'format': 'uuid'},
        'state': {'enum': sorted(states.MOVES)},
        'outcome': {'enum': [None, *sorted(states.OUTCOMES)]},
        'volumes': {'type': 'array', 'minItems': 1, 'items': {
            'type': 'object',
            'required': ['pool', 'namespace', 'image', 'image_id', 'pool_id', 'data_pool_id',
                         'data_pool', 'data_prefix', 'size_bytes', 'object_size', 'features',
                         'map_digest', 'pending', 'overlay', 'clients', 'luks_bytes',
                         'handed'],
            'additionalProperties': False,
            'properties': {
                'pool': _TEXT, 'namespace': _TEXT, 'image': _TEXT, 'image_id': _TEXT,
                'pool_id': _COUNT, 'data_pool_id': _COUNT, 'data_pool': _TEXT,
                'data_prefix': _TEXT, 'size_bytes': _COUNT, 'object_size': _COUNT,
                'features': _COUNT, 'map_digest': _TEXT,
                'pending': {'type': 'array', 'items': _COUNT}, 'overlay': _TEXT,
                'clients': _TEXTS, 'luks_bytes': _COUNT, 'handed': _COUNT,
            }}},
        'cuts': {'type': 'object', 'propertyNames': {'pattern': '^[0-9]+$'},
                 'additionalProperties': {
            'type': 'object',
            'required': ['pg_num', 'merges', 'versions'],
            'additionalProperties': False,
            'properties': {'pg_num': _COUNT, 'merges': _TEXT, 'versions': _TEXT}}},
        'fenced': _TEXTS,
        'created_at': _TEXT, 'updated_at': _TEXT,
        'reason': _TEXT, 'server_id': {'type': ['string', 'null']},
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
        """Return the reference that a text in the form of RBD's own tools names.

        :raises InvalidInput: the text does not have that form
        """
        parts = text.split('/')
        if len(parts) not in (2, 3) or not all(_NAME.fullmatch(part) for part in parts):
            raise errors.InvalidInput(
                f'{text!r} does not name an RBD image: write POOL/IMAGE or POOL/NAMESPACE/IMAGE '
                f'(a snapshot cannot be superposed)')
        return cls(parts[0], '/'.join(parts[1:-1]), parts[-1])

    @property
    def home(self) -> 'Home':
        """Return the pool and namespace of the image's header."""
        return Home(self.pool, self.namespace)

    def __str__(self) -> str:
        return '/'.join(part for part in (self.pool, self.namespace, self.image) if part)


@dataclasses.dataclass(frozen=True, order=True)
class Home:
    """A pool and namespace, which holds records, claims and headers."""

    pool: str
    namespace: str = ''

    @classmethod
    def parse(cls, text: str) -> 'Home':
        """Return the home that ``pool`` or ``pool/namespace`` names.

        :raises InvalidInput: the text does not have that form
        """
        parts = text.split('/')
        if len(parts) not in (1, 2) or not all(_NAME.fullmatch(part) for part in parts):
            raise errors.InvalidInput(f'{text!r} is no pool: write POOL or POOL/NAMESPACE')
        return cls(*parts)

    def __str__(self) -> str:
        return f'{self.pool}/{self.namespace}' if self.namespace else self.pool


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume of a superposition, with its properties at the cut.

    :param size_bytes: virtual size in bytes
    :param object_size: bytes per data object
    :param data_prefix: data objects are named ``<data_prefix>.<number, 16 hex digits>``
    :param features: RBD feature bits
    :param map_digest: fingerprint of its object map at the cut; empty if the map was changing
    :param pending: numbers of objects that existed at the cut while a discard was removing them
    :param overlay: name of the overlay's RBD image, in the same pool and namespace
    :param clients: addresses of the primary's clients, as blocklists name them
    :param luks_bytes: length of its LUKS header; 0 if it is not encrypted
    :param handed: version of its header when no client could write any more without a change of
        it, since the primary had handed its lock over, or was fenced; 0 without that
    """

    pool: str
    namespace: str
    image: str
    image_id: str
    pool_id: int
    data_pool_id: int
    data_pool: str
    data_prefix: str
    size_bytes: int
    object_size: int
    features: int
    overlay: str
    clients: tuple[str, ...]
    map_digest: str = ''
    pending: tuple[int, ...] = ()
    luks_bytes: int = 0
    handed: int = 0

    @property
    def disk_bytes(self) -> int:
        """Return the size of the guest's disk."""
        return self.size_bytes - self.luks_bytes

    @property
    def ref(self) -> VolumeRef:
        """Return the reference of the volume's RBD image."""
        return VolumeRef(self.pool, self.namespace, self.image)

    @property
    def overlay_ref(self) -> VolumeRef:
        """Return the reference of the overlay's RBD image."""
        return VolumeRef(self.pool, self.namespace, self.overlay)


@dataclasses.dataclass(frozen=True)
class Cut:
    """A vector of RADOS versions, one per placement group of a pool.

    :param pg_num: number of placement groups at the cut
    :param merges: fingerprint of the pool's last merge of placement groups
    :param versions: version of the cut's marker, by placement group; 0 for a group that did not
        answer
    """

    pg_num: int
    merges: str
    versions: tuple[int, ...]

    @classmethod
    def load(cls, body: dict[str, Any]) -> 'Cut':
        """Return the cut that is part of a stored record.

        :raises ValueError: the versions are not versions of a cut
        """
        return cls(body['pg_num'], body['merges'], packing.unpacked(body['versions']))


@dataclasses.dataclass(frozen=True)
class Record:
    """A superposition of a set of volumes.

    :param outcome: None until decided, then one of :data:`states.OUTCOMES`
    :param cuts: by pool id
    :param fenced: addresses that are blocklisted, or about to be
    :param labels: JSON values of the caller, by name
    :param version: RADOS version of the record's object, for the compare-and-swap
    """

    id: str
    state: str
    volumes: tuple[Volume, ...]
    created_at: str
    updated_at: str
    cuts: dict[int, Cut] = dataclasses.field(default_factory=dict)
    outcome: str | None = None
    fenced: tuple[str, ...] = ()
    reason: str = ''
    server_id: str | None = None
    labels: dict[str, Any] = dataclasses.field(default_factory=dict)
    version: int = 0

    @property
    def home(self) -> Home:
        """Return the home of the record, where its first volume is."""
        return self.volumes[0].ref.home

    @property
    def homes(self) -> tuple[Home, ...]:
        """Return each pool and namespace that holds one of the volumes."""
        return tuple(sorted({volume.ref.home for volume in self.volumes}))

    @property
    def clients(self) -> frozenset[str]:
        """Return the primary's clients at the time of ``super``, over all volumes."""
        return frozenset(addr for volume in self.volumes for addr in volume.clients)

    def namespace_of(self, pool_id: int) -> str:
        """Return the namespace in which the cut of a pool was taken."""
        return next(volume.namespace for volume in self.volumes
                    if pool_id in (volume.pool_id, volume.data_pool_id))

    def moved(self, state: str, **changes: Any) -> 'Record':
        """Return the record with another state.

        :raises Conflict: no transition leads from its state to that one
        """
        if state not in states.MOVES[self.state]:
            raise errors.Conflict(
                f'superposition {self.id} is {self.state}: it cannot become {state}', self.state)
        return dataclasses.replace(self, state=state, updated_at=now(), **changes)

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
        elif new.id != self.id or [
                volume.ref for volume in new.volumes] != [volume.ref for volume in self.volumes]:
            wrong = f'superposition {new.id} of {len(new.volumes)} volumes cannot replace it'
        if wrong is not None:
            raise errors.Conflict(f'superposition {self.id} is {self.state}: {wrong}', self.state)

    def dump(self) -> bytes:
        """Return the stored form of the record: JSON, without the version."""
        body = dataclasses.asdict(self)
        del body['version']
        for cut in body['cuts'].values():
            cut['versions'] = packing.packed(cut['versions'])
        return json.dumps({'format': FORMAT, **body}, separators=(',', ':')).encode()

    @classmethod
    def load(cls, raw: bytes, version: int) -> 'Record':
        """Return the record that a stored object holds.

        :raises UnreadableObject: the object is no record, or has a newer format
        """
        body = parse(raw, _VALIDATOR, 'superposition record')
        del body['format']
        body['volumes'] = tuple(Volume(**{
            **volume, 'clients': tuple(volume['clients']),
            'pending': tuple(volume['pending'])}) for volume in body['volumes'])
        try:
            body['cuts'] = {int(pool): Cut.load(cut) for pool, cut in body['cuts'].items()}
        except ValueError as exc:
            raise errors.UnreadableObject(f'unreadable superposition record: {exc}') from exc
        body['fenced'] = tuple(body['fenced'])
        return cls(**body, version=version)


def parse(raw: bytes, validator: jsonschema.Draft202012Validator, what: str) -> Any:
    """Return the JSON value of a stored object.

    :param what: kind of the object, for the error
    :raises UnreadableObject: the object is no JSON, or does not meet the validator's schema
    """
    try:
        body = json.loads(raw)
        validator.validate(body)
    except (ValueError, jsonschema.ValidationError) as exc:
        reason = getattr(exc, 'message', exc)
        raise errors.UnreadableObject(
            f'unreadable {what} (written by a newer release?): {reason}') from exc
    return body


def new_id() -> str:
    """Return an id for a new superposition."""
    return str(uuid.uuid4())


def now() -> str:
    """Return the time of day in UTC, in the form of records."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec='milliseconds')
