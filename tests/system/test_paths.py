"""Absolute paths of files that a store names."""

from __future__ import annotations

import pytest

from longalign.system.paths import absolute_path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x.paf", "a/b/x.paf"),
        ("../x.paf", "a/x.paf"),
        ("../../c/../x.paf", "x.paf"),
        ("link/../x.paf", "c/x.paf"),
    ],
)
def test_a_path_is_valid_without_the_working_directory(tmp_path, monkeypatch, given, expected):
    for folder in ("a/b", "c/d"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "a/b/link").symlink_to(tmp_path / "c/d")
    monkeypatch.chdir(tmp_path / "a/b")
    assert absolute_path(given) == str(tmp_path / expected)


def test_links_are_kept_where_they_can_be(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    assert absolute_path(str(tmp_path / "link" / "x")) == str(tmp_path / "link" / "x")
