"""Declarations with Airflow templates, which are validated once the task has rendered them."""

from __future__ import annotations

import pytest

from airflow_provider_connect.sources.rest import Flag, NextLink, RestSource
from tests.unit.sources.rest.test_declaring import MINIMAL, PARENT


@pytest.mark.parametrize("as_parent", [False, True])
def test_an_object_with_a_template_keeps_its_kind(*, as_parent: bool) -> None:
    """A union is told by a field that nobody sets, such as the kind of NextLink(…)."""
    paging = NextLink(at="{{ params.at }}", ends=Flag(at="more", last=False))
    parent = RestSource(**MINIMAL | PARENT | {"paging": paging}) if as_parent else None
    request = {"path": "/x/{parent.id}", "params": MINIMAL["request"]["params"]} if as_parent else MINIMAL["request"]
    child = RestSource(**MINIMAL | {"parent": parent, "request": request} | ({} if as_parent else {"paging": paging}))
    checked = child.rendered(lambda text: text.replace("{{ params.at }}", "next")).checked()
    rendered_paging = checked.parent.paging if checked.parent is not None else checked.paging
    assert rendered_paging == NextLink(at="next", ends=Flag(at="more", last=False))
