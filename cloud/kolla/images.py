# SPDX-License-Identifier: Apache-2.0
"""The Dockerfiles that kolla generates with the overrides of ``deploy/kolla``."""

from collections.abc import Iterator, Mapping
import pathlib
import re

from cloud import commands

# Distributions of images, one for each kind of packages.
BASES: Mapping[str, str] = {'debian': 'deb', 'rocky': 'rpm'}
_PACKAGE = 'install --upgrade -c /requirements/upper-constraints.txt /plugins/*'
_RBD = {'deb': 'python3-rbd', 'rpm': 'ceph-common'}
_QEMU_RBD = {'deb': 'qemu-block-extra', 'rpm': 'qemu-kvm-block-rbd'}
_FILTER = 'specreds_nova.host.box.privileged.context'
# By image: what its Dockerfile, or the Dockerfile of an image that it is made of, has to have.
WANTED: Mapping[str, tuple[str | Mapping[str, str], ...]] = {
    'cinder-api': (_PACKAGE,),
    'cinder-volume': (_PACKAGE, _RBD, _QEMU_RBD),
    'nova-libvirt': (_QEMU_RBD,),
    'nova-compute': (_PACKAGE, _RBD, _QEMU_RBD, _FILTER, 'python3-libvirt', 'dnsmasq'),
    'specreds-engine': (_PACKAGE, 'uwsgi-plugin-python3'),
    'specreds-sentinel': (_PACKAGE, _RBD, 'python3-libvirt'),
}
# The user of a container, which is the last one in its Dockerfiles.
_USERS = {'nova-compute': 'nova', 'specreds-engine': 'nova', 'specreds-sentinel': 'root'}
_FROM = re.compile(r'^FROM kolla/([\w-]+):', re.MULTILINE)
_USER = re.compile(r'^USER (\w+)', re.MULTILINE)
# Seconds for all Dockerfiles of a distribution: kolla renders each of its images.
_GENERATING = 600.0


def generate(venv: pathlib.Path, sources: pathlib.Path, base: str, work: pathlib.Path) -> None:
    """Have kolla generate the Dockerfiles.

    :param venv: virtual environment with kolla
    :param sources: ``deploy/kolla``
    :param base: one of BASES
    :param work: directory for the result
    """
    commands.run([
        str(venv / 'bin' / 'kolla-build'), '--template-only', '--work-dir', str(work),
        '--base', base, '--config-file', str(sources / 'kolla-build.conf'),
        '--template-override', str(sources / 'template-overrides.j2'),
        '--docker-dir', str(sources / 'docker'), *(f'^{image}$' for image in WANTED),
    ], _GENERATING)


def faults(work: pathlib.Path, base: str) -> Iterator[str]:
    """Yield what Dockerfiles lack.

    :param work: directory that :func:`generate` has filled
    """
    for image, wanted in WANTED.items():
        text = _dockerfiles(work, image)
        for each in wanted:
            words = each if isinstance(each, str) else each[BASES[base]]
            if words not in text:
                yield f'{base}: the image {image} has no {words}'
        if image in _USERS and _USER.findall(text)[-1:] != [_USERS[image]]:
            yield f'{base}: the image {image} does not run as {_USERS[image]}'


def _dockerfiles(work: pathlib.Path, image: str) -> str:
    """Return the Dockerfile of an image, after those that it is made of."""
    [path] = work.glob(f'docker/**/{image}/Dockerfile')
    text = path.read_text()
    parent = _FROM.search(text)
    return (_dockerfiles(work, parent.group(1)) if parent else '') + text
