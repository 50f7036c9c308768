# SPDX-License-Identifier: Apache-2.0
"""The jobs of Zuul: whatever they name exists."""

from collections.abc import Iterator
import re
from typing import Any

import testtools
import yaml  # type: ignore[import-untyped]

from specreds_nova.tests.unit.packaging import base

_CONFIG = base.ROOT / '.zuul.yaml'
# Jobs of OpenStack's configuration projects.
_PARENTS = {'openstack-tox', 'tempest-full-py3', 'tempest-multinode-full-py3'}
_TEMPLATES = {'openstack-cover-jobs', 'publish-openstack-docs-pti',
              'release-notes-jobs-python3'}
# Jobs of those projects, and the tox environments that they run.
_TOX_JOBS = {f'openstack-tox-{name}': name for name in ('pep8', 'py311', 'py313')}
_OTHER_JOBS = {'publish-openstack-python-branch-tarball', 'requirements-check'}
# The tox environments of the templates' jobs.
_ENVIRONMENTS = {'cover', 'docs', 'releasenotes'}
_FILES = ('run', 'pre-run', 'post-run', 'cleanup-run')
# Variables of DevStack and of other projects' plug-ins.
_FOREIGN = re.compile(r'(Q|DISABLE|ENABLE|TEMPEST|CINDER|MYSQL|REMOTE)_')


class ZuulTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        config = yaml.safe_load(_CONFIG.read_text())
        self.jobs = {each['job']['name']: each['job'] for each in config if 'job' in each}
        self.nodesets = {each['nodeset']['name']: each['nodeset'] for each in config
                         if 'nodeset' in each}
        [self.project] = [each['project'] for each in config if 'project' in each]

    def environments(self) -> Iterator[str]:
        """Yield the environments of tox that jobs run."""
        yield from _ENVIRONMENTS
        yield from _TOX_JOBS.values()
        for job in self.jobs.values():
            if self.parents(job)[-1] == 'openstack-tox' and not job.get('abstract'):
                yield job['vars']['tox_envlist']

    def parents(self, job: dict[str, Any]) -> list[str]:
        """Return the names of the parents of a job, up to the first one of another project."""
        parent = job['parent']
        return [parent, *(self.parents(self.jobs[parent]) if parent in self.jobs else [])]

    def test_parents_exist(self) -> None:
        for job in self.jobs.values():
            self.assertIn(self.parents(job)[-1], _PARENTS, job['name'])
            self.assertTrue(job['description'])

    def test_jobs_of_the_pipelines_exist(self) -> None:
        self.assertEqual(_TEMPLATES, set(self.project['templates']))
        for pipeline in ('check', 'gate', 'post'):
            for job in self.project[pipeline]['jobs']:
                name = job if isinstance(job, str) else next(iter(job))
                if name in _TOX_JOBS.keys() | _OTHER_JOBS:
                    continue
                self.assertIn(name, self.jobs)
                self.assertFalse(self.jobs[name].get('abstract', False), name)
        # A job that can block the merge of a change has run on its proposal.
        self.assertEqual([], [job for job in self.project['gate']['jobs']
                              if job not in self.project['check']['jobs']])

    def test_every_job_runs_in_the_check_pipeline(self) -> None:
        running = {job if isinstance(job, str) else next(iter(job))
                   for job in self.project['check']['jobs']}
        self.assertEqual({name for name, job in self.jobs.items() if not job.get('abstract')},
                         running - _TOX_JOBS.keys() - _OTHER_JOBS)

    def test_supported_versions_of_python_have_jobs(self) -> None:
        """A job runs each version that some node's distribution has."""
        versions = {f'py{version.replace(".", "")}' for version in re.findall(
            r'Python :: (3\.\d+)', base.read_ini('setup.cfg')['metadata']['classifier'])}
        self.assertEqual({'py314'}, versions - set(self.environments()))

    def test_devstack_runs_on_debian_trixie(self) -> None:
        nodesets = {job['nodeset'] for job in self.jobs.values()
                    if self.parents(job)[-1].startswith('tempest-') and 'nodeset' in job}
        self.assertEqual({'devstack-single-node-debian-trixie',
                          'specreds-three-node-debian-trixie'}, nodesets)
        for nodeset in self.nodesets.values():
            self.assertEqual({'debian-trixie-8GB'}, {node['label'] for node in nodeset['nodes']})

    def test_jobs_that_disturb_hosts_have_as_many_as_their_tests_need(self) -> None:
        """No test of these jobs is skipped for lack of compute hosts."""
        text = ''.join(path.read_text() for path in (
            base.ROOT / 'tempest_plugin').glob('[!t]*/*.py'))
        needed = max(map(int, re.findall(r'^    hosts_needed = (\d+)$', text, re.MULTILINE)))
        disturbing = [job for job in self.jobs.values() if 'SPECREDS_TEMPEST_DESTRUCTIVE' in
                      job.get('vars', {}).get('devstack_localrc', {})]
        self.assertNotEqual([], disturbing)
        for job in disturbing:
            [computes] = [group['nodes'] for group in self.nodesets[job['nodeset']]['groups']
                          if group['name'] == 'compute']
            self.assertEqual(needed, len(computes), job['name'])

    def test_environments_of_tox_exist(self) -> None:
        sections = set()
        for section in base.read_ini('tox.ini').sections():
            before, brace, rest = section.removeprefix('testenv:').partition('{')
            inner, _, after = rest.partition('}')
            sections |= {before + each + after for each in inner.split(',')} if brace else {before}
        self.assertEqual(set(), set(self.environments()) - sections)

    def test_files_of_jobs_exist(self) -> None:
        for job in self.jobs.values():
            for key in _FILES:
                for name in [job[key]] if isinstance(job.get(key), str) else job.get(key, []):
                    self.assertTrue((base.ROOT / name).exists(), name)
            for pattern in job.get('irrelevant-files', []):
                matches = [path for path in _tracked() if re.match(pattern, path)]
                self.assertNotEqual([], matches, f'{job["name"]}: {pattern} matches nothing')

    def test_variables_of_the_devstack_plugin_exist(self) -> None:
        settings = (base.ROOT / 'devstack/settings').read_text()
        for job in self.jobs.values():
            groups = [job.get('vars', {}), *job.get('group-vars', {}).values()]
            for name in {name for group in groups for name in group.get('devstack_localrc', {})}:
                if not _FOREIGN.match(name):
                    self.assertIn(f'{name}=', settings, job['name'])

    def test_plug_ins_of_tempest_are_distributions(self) -> None:
        for job in self.jobs.values():
            # DevStack installs each path below its own directory.
            for path in job.get('vars', {}).get('tempest_plugins', []):
                project, _, directory = path.partition('/')
                if project == 'specreds':
                    self.assertTrue((base.ROOT / directory / 'pyproject.toml').exists(), path)
                    self.assertIn('tempest.test_plugins', (
                        base.ROOT / directory / 'pyproject.toml').read_text(), path)

    def test_tests_of_tempest_exist(self) -> None:
        place = base.ROOT / 'tempest_plugin'
        modules = ['.'.join(path.relative_to(base.ROOT).with_suffix('').parts)
                   for path in place.rglob('test_*.py') if place / 'tests' not in path.parents]
        for job in self.jobs.values():
            wanted = job.get('vars', {}).get('tempest_test_regex')
            if wanted:
                matches = [name for name in modules if re.search(wanted.strip(), name)]
                self.assertNotEqual([], matches, job['name'])


def _tracked() -> list[str]:
    """Return the files of the checkout that a pattern of a job may match."""
    places = ('bench', 'cloud', 'devstack', 'doc', 'releasenotes', 'specreds_cinder',
              'specreds_nova', 'tempest_plugin', 'testing', 'tools', '.ci')
    return [str(path.relative_to(base.ROOT)) for place in ('.', *places)
            for path in ((base.ROOT / place).glob('*') if place == '.'
                         else (base.ROOT / place).rglob('*')) if path.is_file()]
