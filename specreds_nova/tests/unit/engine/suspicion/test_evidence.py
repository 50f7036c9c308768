# SPDX-License-Identifier: Apache-2.0
"""The weights of evidence."""

import testtools

from specreds_nova.engine.suspicion import evidence


class EvidenceTest(testtools.TestCase):
    """What is enough for a suspicion, and what operators read."""

    def enough(self, *kinds: str) -> bool:
        return evidence.enough([evidence.of(kind, 1.0, 0.0) for kind in kinds])

    def test_kinds_that_are_enough_alone(self) -> None:
        alone = {kind for kind in evidence.KINDS if self.enough(kind)}
        self.assertEqual({evidence.SILENCE, evidence.STORAGE, evidence.OPERATOR, evidence.CRASH},
                         alone)

    def test_kinds_that_are_not_enough_together(self) -> None:
        self.assertFalse(self.enough(evidence.LIBVIRT, evidence.NOVA))

    def test_partial_evidence_has_a_partial_weight(self) -> None:
        silence = evidence.of(evidence.SILENCE, 0.5, 0.0, share=0.5)
        self.assertFalse(evidence.enough([silence]))
        self.assertTrue(evidence.enough([silence, evidence.of(evidence.LIBVIRT, 20, 0.0)]))

    def test_evidence_is_described_in_words(self) -> None:
        fields = evidence.of(evidence.SILENCE, 0.8, 1234.5).told()
        self.assertEqual({'kind': 'silence', 'words': 'no beat for 0.80 s', 'at': 1234.5}, fields)
        for kind in evidence.KINDS:
            self.assertNotIn('{', evidence.of(kind, 3.0, 0.0).words)
