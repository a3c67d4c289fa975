"""Targets that an earlier version of this package wrote, frozen, and how they are written, kept and laid out again.

``python tests/equipment/earlier/write.py`` of a checkout's own interpreter wrote the files in ``1.0.0rc1`` once.
"""

import pytest

pytest.register_assert_rewrite(f"{__name__}.cases")
