# SPDX-License-Identifier: Apache-2.0
"""The images of the guests: made once, and again when a script or a package has changed.

A cached image is a directory: ``disk.raw``, and ``image.json`` with what one has to know to use
it (a password among it, so only the owner may read it) and the packages it was made of.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import tempfile
from typing import Any

from cloud import commands
from cloud import directory
from cloud.guests import build
from cloud.guests import g1
from cloud.guests import g2
from cloud.guests import g3
from cloud.guests import packages

GUESTS = {'g1': g1.GUEST, 'g2': g2.GUEST, 'g3': g3.GUEST}


def cache_dir() -> pathlib.Path:
    """Where images are kept unless said otherwise."""
    return pathlib.Path(os.environ.get('SPECREDS_DATA', '.data')).absolute() / 'guests'


def image(name: str, progress: commands.Progress = commands.silent,
          cache: pathlib.Path | None = None) -> pathlib.Path:
    """Return the raw image of a guest, and make it if it is missing or out of date.

    Needs no loop devices, and root for `g3` only. Any number of processes may ask at the same
    time.

    :param name: `g1`, `g2` or `g3`
    :param cache: directory to keep it in, by default `guests` in the data directory
    :raises CloudError: there is no such guest, or a package could not be had
    """
    if name not in GUESTS:
        raise commands.CloudError(f'there is no guest {name}: choose {" or ".join(GUESTS)}')
    cache = cache or cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with directory.locked(cache / f'{name}.lock'):
        return _current(name, GUESTS[name], cache, progress) / 'disk.raw'


def describe(name: str, progress: commands.Progress = commands.silent,
             cache: pathlib.Path | None = None) -> dict[str, Any]:
    """Return the facts needed to use a guest; parameters and errors are as for :func:`image`.

    :returns: `ready`, what its console says once it is ready; `packages`; of g2 and g3 also
        `port`, `user`, `password` and `database`
    """
    path = image(name, progress, cache).with_name('image.json')
    facts: dict[str, Any] = json.loads(path.read_text())
    return facts


def _current(name: str, guest: build.Guest, cache: pathlib.Path,
             progress: commands.Progress) -> pathlib.Path:
    archive = packages.Archive(cache / 'apt')
    scripts = _scripts(name)
    try:
        wanted = _wanted(guest, archive, progress)
    except commands.CloudError:
        # Without a network an image of these scripts is as good as it gets.
        made = sorted(cache.glob(f'{name}-{scripts[:12]}-*'), key=os.path.getmtime)
        if not made:
            raise
        progress(f'the archive does not answer: using {made[-1]}')
        return made[-1]
    versions = hashlib.sha256('\n'.join(map(str, wanted)).encode()).hexdigest()
    target = cache / f'{name}-{scripts[:12]}-{versions[:12]}'
    if not target.exists():
        _make(name, guest, wanted, archive, target, progress)
    return target


def _wanted(guest: build.Guest, archive: packages.Archive,
            progress: commands.Progress) -> list[packages.Package]:
    base = archive.closure((build.KERNEL, *build.TOOLS), progress)
    kernel = {package for package in base
              if package.name in build.TOOLS or build.is_kernel(package.name)}
    needed = archive.closure(guest.wanted, progress) if guest.wanted else []
    return sorted(kernel | {package for package in needed if not guest.unwanted(package.name)})


def _scripts(name: str) -> str:
    """Fingerprint everything of ours that decides what an image is like."""
    digest = hashlib.sha256()
    here = pathlib.Path(__file__).parent
    makers = [here / f'{module}.py' for module in ('build', 'disk', 'kernel', 'packages', name)]
    for path in sorted([*makers, *build.COMMON.iterdir(), *(build.FILES / name).iterdir()]):
        digest.update(str(path.relative_to(here)).encode() + b'\0' + path.read_bytes() + b'\0')
    return digest.hexdigest()


def _make(name: str, guest: build.Guest, wanted: list[packages.Package],
          archive: packages.Archive, target: pathlib.Path,
          progress: commands.Progress) -> None:
    # Not in the cache: PostgreSQL is run by another user, who may not be able to go there.
    with tempfile.TemporaryDirectory(prefix=f'specreds-{name}-') as work:
        root = pathlib.Path(work)
        root.chmod(0o711)
        debs = root / 'debs'
        debs.mkdir()
        progress(f'guest {name}: downloading {len(wanted)} packages')
        archive.download(wanted, debs, progress)
        progress(f'guest {name}: making its image')
        shop = build.workshop(root, sorted(debs.glob('*.deb')), _password(target.parent),
                              lambda line: progress(f'guest {name}: {line}'))
        made = root / 'made'
        made.mkdir()
        facts = guest.make(shop, made / 'disk.raw')
        description = made / 'image.json'
        description.touch(mode=0o600)
        description.write_text(json.dumps(
            {**facts, 'packages': [str(package) for package in wanted]}, indent=1) + '\n')
        _install(made, target)
    for old in target.parent.glob(f'{name}-*-*'):
        if old != target:
            shutil.rmtree(old)
    progress(f'guest {name}: {target}')


def _password(cache: pathlib.Path) -> str:
    """Return the password of all images in the cache, which new and older images share."""
    path = cache / 'password'
    if not path.exists():
        new = cache / f'.password-{os.getpid()}'
        new.touch(mode=0o600)
        new.write_text(secrets.token_urlsafe(18))
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
        new.unlink()
    return path.read_text()


def _install(made: pathlib.Path, target: pathlib.Path) -> None:
    """Put a finished image into the cache, whole or not at all, and as sparse as it is."""
    with tempfile.TemporaryDirectory(prefix='.new-', dir=target.parent) as new:
        commands.run(['cp', '--archive', '--sparse=always', f'{made}/.', f'{new}/{target.name}'])
        os.rename(f'{new}/{target.name}', target)
