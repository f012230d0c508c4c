"""What importing longalign must not do, in an interpreter that has imported nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from longalign import recurrence

MODULES = ["longalign.errors", "longalign.scoring", "longalign.boundary", "longalign.backends.base"]


def loaded_by(module: str) -> set[str]:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_recurrence_imports_nothing():
    tree = ast.parse(Path(recurrence.__file__).read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


@pytest.mark.parametrize("unwanted", ["numba.cuda", "hypothesis", "pytest", "dask"])
def test_the_package_imports_without(unwanted):
    assert unwanted not in loaded_by("longalign")


@pytest.mark.parametrize("module", MODULES)
def test_the_words_of_the_project_need_no_compiler(module):
    assert "numba" not in loaded_by(module)
