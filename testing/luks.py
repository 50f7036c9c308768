# SPDX-License-Identifier: Apache-2.0
"""LUKS headers that are quick to open.

QEMU and cryptsetup choose the iterations of a header so that it takes 2 s to open. Where the times
of processes are as coarse as in some virtual machines, QEMU counts several times too many, or
makes no header at all ("Unable to get accurate CPU usage").
"""

import hashlib
import os
import struct
import uuid

from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers import modes

_SECTOR = 512
_HASH = 'sha256'
_ITERATIONS = 1000
_KEY_BYTES = 64
_STRIPES = 4000
_SLOTS = 8
_USED, _UNUSED = 0x00ac71f3, 0x0000dead
# In sectors: the first key slot, the distance between two, and the guest's data.
_FIRST, _APART, _DATA = 8, 504, 4096


def header(passphrase: str) -> bytes:
    """Return a header of version 1 with a new volume key, for aes-xts-plain64."""
    key, salt = os.urandom(_KEY_BYTES), os.urandom(32)
    digest_salt = os.urandom(32)
    digest = hashlib.pbkdf2_hmac(_HASH, key, digest_salt, _ITERATIONS, 20)
    image = bytearray(_DATA * _SECTOR)
    struct.pack_into('>6sH32s32s32sII20s32sI40s', image, 0, b'LUKS\xba\xbe', 1, b'aes',
                     b'xts-plain64', _HASH.encode(), _DATA, _KEY_BYTES, digest, digest_salt,
                     _ITERATIONS, str(uuid.uuid4()).encode())
    for slot in range(_SLOTS):
        struct.pack_into('>II32sII', image, 208 + 48 * slot, _UNUSED if slot else _USED,
                         0 if slot else _ITERATIONS, bytes(32) if slot else salt,
                         _FIRST + _APART * slot, _STRIPES)
    material = _encrypted(
        _split(key), hashlib.pbkdf2_hmac(_HASH, passphrase.encode(), salt, _ITERATIONS,
                                         _KEY_BYTES))
    image[_FIRST * _SECTOR:_FIRST * _SECTOR + len(material)] = material
    return bytes(image)


def _split(key: bytes) -> bytes:
    """Return the stripes of a key, all of which are needed to have it."""
    stripes = [os.urandom(len(key)) for _ in range(_STRIPES - 1)]
    mixed = bytes(len(key))
    for stripe in stripes:
        mixed = _diffused(_xor(mixed, stripe))
    return b''.join([*stripes, _xor(mixed, key)])


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _diffused(block: bytes) -> bytes:
    size = hashlib.new(_HASH).digest_size
    return b''.join(
        hashlib.new(_HASH, struct.pack('>I', number) + block[start:start + size]).digest()
        for number, start in enumerate(range(0, len(block), size)))


def _encrypted(data: bytes, key: bytes) -> bytes:
    sectors = []
    for number in range(len(data) // _SECTOR):
        encryptor = ciphers.Cipher(
            algorithms.AES(key), modes.XTS(struct.pack('<QQ', number, 0))).encryptor()
        sectors.append(encryptor.update(data[number * _SECTOR:(number + 1) * _SECTOR])
                       + encryptor.finalize())
    return b''.join(sectors)
