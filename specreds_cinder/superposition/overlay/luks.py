# SPDX-License-Identifier: Apache-2.0
"""The LUKS header of an encrypted volume, and the qcow2 header that repeats it.

The overlay of an encrypted volume is an encrypted qcow2 image, which contains a LUKS header. That
header is a copy of the volume's: creating an overlay needs no key, and the passphrase of the
volume opens the overlay. The guest's data begin behind the header of the volume, so the guest's
disk is smaller than the volume by the length of the header.
"""

import dataclasses
import struct

from specreds_cinder.superposition import errors

MAGIC = b'LUKS\xba\xbe'
# Magic, version, cipher, mode, hash, and the sector at which the data begin.
_FIELDS = struct.Struct('>6sH32s32s32sI')
_SECTOR = 512
# Nova attaches only this version without a block device on the host.
_VERSION = 1
# cryptsetup and QEMU write 2 MiB; an alignment may add some.
_LONGEST = 32 << 20

# Offsets in the header of a qcow2 image, and values there (docs/interop/qcow2.txt of QEMU).
_CRYPT_METHOD = 32
_REFCOUNT_TABLE = 48
_HEADER_LENGTH = 100
_CRYPT_LUKS = 2
_EXTENSION = 0x0537be77


@dataclasses.dataclass(frozen=True)
class Header:
    """The LUKS header at the beginning of an encrypted volume.

    :param version: version of LUKS
    :param length: bytes before the guest's data; 0 for another version than 1
    """

    version: int
    length: int

    def reasons(self) -> list[str]:
        """Return the reasons why the volume cannot be superposed; none if it can."""
        if self.version != _VERSION:
            return [f'it is encrypted with LUKS version {self.version}: Nova attaches only '
                    f'version {_VERSION} to a server without a block device on its host']
        if not _SECTOR <= self.length <= _LONGEST:
            return [f'its LUKS header is damaged: its data cannot begin at byte {self.length}']
        return []


#: The bytes that :func:`header` reads.
HEAD = _FIELDS.size


def header(head: bytes) -> Header | None:
    """Return the LUKS header of an image.

    :param head: the first :data:`HEAD` bytes of the image
    :returns: None if the image has no LUKS header
    """
    if not head.startswith(MAGIC) or len(head) < HEAD:
        return None
    _magic, version, _cipher, _mode, _hash, sector = _FIELDS.unpack(head[:HEAD])
    return Header(version, sector * _SECTOR if version == _VERSION else 0)


def encrypted(qcow2: bytes, luks: bytes, cluster_size: int) -> bytes:
    """Return the header of an empty qcow2 image that is encrypted with a LUKS header.

    :param qcow2: the header of an unencrypted image of the same size, with 16 bits per reference
        count
    :param luks: the whole LUKS header
    :raises SuperError: the first reference count block does not cover the LUKS header
    """
    image = bytearray(qcow2)
    (table,) = struct.unpack_from('>Q', image, _REFCOUNT_TABLE)
    (counts,) = struct.unpack_from('>Q', image, table)
    first = 0
    while struct.unpack_from('>H', image, counts + 2 * first)[0]:
        first += 1
    length = -(-len(luks) // cluster_size)
    if first + length > cluster_size // 2:
        raise errors.SuperError(f'a LUKS header of {len(luks)} bytes does not fit into an overlay')
    image.extend(bytes((first + length) * cluster_size - len(image)))
    image[first * cluster_size:first * cluster_size + len(luks)] = luks
    struct.pack_into(f'>{length}H', image, counts + 2 * first, *[1] * length)
    struct.pack_into('>I', image, _CRYPT_METHOD, _CRYPT_LUKS)
    (start,) = struct.unpack_from('>I', image, _HEADER_LENGTH)
    extension = struct.pack('>IIQQ', _EXTENSION, 16, first * cluster_size, len(luks))
    # The other extensions follow; the rest of the cluster is empty.
    image[start:cluster_size] = extension + image[start:cluster_size - len(extension)]
    return bytes(image)
