from __future__ import annotations

import pytest

pytest.importorskip("tomllib")  # Python 3.11

import mutants


@pytest.mark.skipif(not (mutants.ROOT / "cunpool").exists(), reason="the sources are not here")
def test_every_planted_bug_can_be_planted():
    bugs = mutants.planted("")
    assert 40 < len(bugs) <= 80
    assert len({(bug.file, bug.name) for bug in bugs}) == len(bugs)
    assert len(mutants.PLANTED.read_text().splitlines()) <= 900


SOURCE = '''"""Text with 1 < 2."""
from cython cimport view


cdef extern from *:
    """
    #define LINES 4 /* 5 */
    static int above(int x) {
        if (x > 3) {
            x = 0; // and not 7
        }
        return x;
    }
    """


cdef int inside(int x, int y):  # 6
    if x < y:
        x += 1
    return x
'''


def test_what_is_changed(tmp_path, monkeypatch):
    """Code in C and Cython, but no text, comment or import; each change in its place."""
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    path = tmp_path / "cunpool" / "deep" / "a.pyx"
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE)
    found = {
        number: {(change.old, change.new) for change in changes} for number, changes in mutants.changes(path).items()
    }
    lines = SOURCE.splitlines()
    assert {lines[number].strip() for number in found} == {
        *("#define LINES 4 /* 5 */", "if (x > 3) {", "x = 0; // and not 7", "return x;", "if x < y:", "x += 1"),
        "return x",
    }
    assert found[lines.index("    if x < y:")] == {("<", "<="), ("<", ">="), ("x < y", "True"), ("x < y", "False")}
    assert {("x += 1", "pass"), ("1", "2"), ("1", "0"), ("+=", "="), ("+=", "-=")} == found[
        lines.index("        x += 1")
    ]
    assert ("x > 3", "0") in found[lines.index("        if (x > 3) {")]
    listed = mutants.randomly(1, "")
    assert listed == mutants.randomly(1, "")
    assert mutants.randomly(1, "", ["deep"]) == []
    assert len(listed) == len(found)
    first = listed[0]
    first.plant(tmp_path)
    assert path.read_text() == SOURCE[: first.begin] + first.new + SOURCE[first.begin + len(first.old) :]
