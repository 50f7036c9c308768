# SPDX-License-Identifier: Apache-2.0
"""Nova's operations on servers whose overlays are not merged: prepared, delayed or refused."""
