# SPDX-License-Identifier: Apache-2.0
"""The weights of evidence."""

import testtools

from specreds_nova.engine.detection import evidence


class ScalesTest(testtools.TestCase):
    """Default and configured weights."""

    def enough(self, *kinds: str, **weights: float) -> bool:
        pieces = [evidence.of(kind, 1.0, 0.0) for kind in kinds]
        return evidence.Scales(weights).enough(pieces)

    def test_kinds_that_are_enough_alone(self) -> None:
        alone = {kind for kind in evidence.KINDS if self.enough(kind)}
        self.assertEqual({evidence.SILENCE, evidence.STORAGE, evidence.OPERATOR, evidence.CRASH},
                         alone)

    def test_kinds_that_are_enough_together(self) -> None:
        self.assertFalse(self.enough(evidence.LIBVIRT, evidence.NOVA))
        self.assertTrue(self.enough(evidence.LIBVIRT, evidence.NOVA, nova=0.5))

    def test_partial_evidence_has_a_partial_weight(self) -> None:
        silence = evidence.of(evidence.SILENCE, 0.5, 0.0, share=0.5)
        self.assertFalse(evidence.Scales().enough([silence]))
        self.assertTrue(evidence.Scales().enough(
            [silence, evidence.of(evidence.LIBVIRT, 20, 0.0)]))

    def test_weights_can_be_configured(self) -> None:
        self.assertTrue(self.enough(evidence.LIBVIRT, libvirt=1.0))
        self.assertFalse(self.enough(evidence.STORAGE, storage=0.0))

    def test_invalid_weights_raise(self) -> None:
        for weights in ({'weather': 1.0}, {'nova': -1.0}):
            self.assertRaises(ValueError, evidence.Scales, weights)

    def test_evidence_is_described_in_words(self) -> None:
        fields = evidence.of(evidence.SILENCE, 0.8, 1234.5).told()
        self.assertEqual({'kind': 'silence', 'words': 'no beat for 0.80 s', 'at': 1234.5}, fields)
        for kind in evidence.KINDS:
            self.assertNotIn('{', evidence.of(kind, 3.0, 0.0).words)
