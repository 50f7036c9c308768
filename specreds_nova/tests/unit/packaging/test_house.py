# SPDX-License-Identifier: Apache-2.0
"""The rules between the parts of the source. Each exception is named, and may only go."""

import ast
import collections
from collections.abc import Iterator
import subprocess
import sys

import testtools

from specreds_nova.tests.unit.packaging import base
from specreds_nova.tests.unit.packaging import test_options

_SUPERPOSITION = 'specreds_cinder/superposition/'
# What the protocol uses beside Python's own modules.
_LIBRARIES = {'cffi', 'jsonschema', 'numpy', 'qemu', 'rados', 'rbd', 'specreds_cinder', 'tenacity'}
# Modules outside of the protocol that use Ceph's libraries themselves.
_ON_CEPH = {'specreds_nova/beats/probes.py', 'specreds_nova/cache_policy.py',
            'specreds_nova/host/disks/claims.py', 'specreds_nova/sentinel/pings.py',
            'specreds_nova/sentinel/witness.py', 'specreds_nova/status/nova.py',
            'specreds_nova/storage_ping.py'}
# Errors that Nova's RPC carries are Nova's.
_ON_NOVA = {'specreds_nova/engine/clients/scheduler.py', 'specreds_nova/exception.py'}
# Files on each way of tools/count-ways.
_LONGEST = (31, 13)
# Bases of errors, and the threads of a host.
_BASES = {'EngineError', 'SuperError', 'SuperpositionError', 'Pulse'}


def _modules(*places: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each module of the product, and each module that it imports."""
    for place in places:
        for path in sorted((base.ROOT / place).rglob('*.py')):
            name = str(path.relative_to(base.ROOT))
            if 'tests' in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from ((name, alias.name) for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield from ((name, f'{node.module}.{alias.name}') for alias in node.names)


class HouseTest(testtools.TestCase):

    def test_protocol_imports_no_openstack(self) -> None:
        for path, module in _modules(_SUPERPOSITION):
            top = module.partition('.')[0]
            self.assertTrue(top in _LIBRARIES | sys.stdlib_module_names, f'{path}: {top}')
            if top == 'specreds_cinder':
                self.assertTrue(module.startswith('specreds_cinder.superposition'), path)

    def test_only_the_protocol_uses_the_libraries_of_ceph(self) -> None:
        self.assertEqual(_ON_CEPH, {
            path for path, module in _modules('specreds_cinder', 'specreds_nova')
            if module in ('rados', 'rbd') and not path.startswith(_SUPERPOSITION)})

    def test_engine_imports_nothing_of_hosts(self) -> None:
        imports = collections.defaultdict(set)
        for path, module in _modules('specreds_nova'):
            imports[path.removesuffix('.py').replace('/', '.')].add(module)
        reached, new = set(), {name for name in imports if name.startswith('specreds_nova.engine')}
        while new:
            reached |= new
            new = {module for name in new for module in imports[name]} & {*imports} - reached
        self.assertEqual([], sorted(name for name in reached if '.host.' in name))

    def test_only_hosts_and_the_client_of_the_scheduler_import_nova(self) -> None:
        self.assertEqual(_ON_NOVA, {
            path for path, module in _modules('specreds_nova')
            if module.partition('.')[0] == 'nova' and not path.startswith('specreds_nova/host/')})

    def test_no_two_programs_have_an_option_of_one_name(self) -> None:
        names = collections.Counter(each.split()[-1] for each in test_options.options())
        self.assertEqual(set(), {name for name, times in names.items() if times > 1})

    def test_ways_are_short(self) -> None:
        printed = subprocess.run([sys.executable, base.ROOT / 'tools/count-ways'],
                                 capture_output=True, text=True, check=True).stdout
        lengths = [int(line.split()[0]) for line in printed.splitlines() if line[0] != ' ']
        self.assertEqual([True, True], [length <= most for length, most
                                        in zip(lengths, _LONGEST, strict=True)], str(lengths))

    def test_functional_tests_can_be_imported_together(self) -> None:
        # Cinder and Nova cannot.
        names = [str(path.relative_to(base.ROOT).with_suffix('')).replace('/', '.') for path in
                 sorted((base.ROOT / 'specreds_cinder/tests/functional').glob('test_*.py'))]
        ran = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', 'import importlib, sys\n'
             'for name in sys.argv[1:]:\n    importlib.import_module(name)', *names],
            cwd=base.ROOT, capture_output=True, text=True, check=False)
        self.assertEqual((0, ''), (ran.returncode, ran.stderr[-2000:]))

    def test_chains_of_classes_are_short(self) -> None:
        printed = subprocess.run([base.ROOT / 'tools/count-inheritance', '--above', '2'],
                                 capture_output=True, text=True, check=True).stdout
        chains = [line.split(' < ') for line in printed.splitlines() if ' < ' in line]
        self.assertEqual([], [chain for chain in chains if chain[-1] not in _BASES])
