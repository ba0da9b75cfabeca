"""Media types that `Local` does not have: the message names the argument, since no header was sent."""

from __future__ import annotations

import pytest

from privacy_bounds import Local
from privacy_bounds.errors import InvalidArgument


def test_unknown_form_of_a_report_is_named() -> None:
    with pytest.raises(
        InvalidArgument, match=r"^form: there is no answer as text/pdf\. Supported: .*text/html"
    ) as raised:
        Local().report((1.1, 0.004, 30), {"delta": 1e-5}, form="text/pdf")
    assert "Accept" not in str(raised.value)
