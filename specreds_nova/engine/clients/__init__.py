# SPDX-License-Identifier: Apache-2.0
"""The cloud as the engine asks it: :mod:`specreds_nova.engine.interfaces` by REST and RPC."""
