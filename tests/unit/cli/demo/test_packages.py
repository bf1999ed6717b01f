"""What a package says about itself, and what it weighs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from threadmark.cli.demo import licences
from threadmark.cli.demo.census import Share, census
from threadmark.cli.demo.packages import Found, NoPython, Package, find, interpreter, measured, name_of, required

GPL3 = "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"


@pytest.mark.parametrize(
    ("expression", "classifiers", "field", "licence", "family"),
    [
        ("MIT", [], "", "MIT", "MIT"),
        ("Apache-2.0 OR MIT", [GPL3], "", "Apache-2.0 OR MIT", "Apache"),
        ("", ["License :: OSI Approved :: MIT License"], "see file", "MIT", "MIT"),
        ("", [GPL3], "", "GPLv3", "GPL"),
        ("", ["License :: OSI Approved", "Topic :: Games"], "ISC", "ISC", "BSD"),
        ("", ["License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)"], "", "MPL 2.0", "MPL"),
        ("", [], "LGPLv3+", "LGPLv3+", "GPL"),
        ("", [], "PSF-2.0", "PSF-2.0", "Python"),
        ("", [], "My own terms", "My own terms", "other"),
        ("", [], "UNKNOWN", "", "not stated"),
        ("", [], "", "", "not stated"),
        ("", [], "Permission is hereby granted, free of charge, to any person obtaining a copy of this", "MIT", "MIT"),
    ],
)
def test_licences(expression: str, classifiers: list[str], field: str, licence: str, family: str) -> None:
    assert licences.stated(expression, classifiers, field) == licence
    assert licences.family(licence) == family


def test_requirements_are_names_and_extras_do_not_count() -> None:
    lines = [
        "Foo_Bar[x]>=1",
        "baz ; python_version < '3.8'",
        "tests-only; extra == 'test'",
        'dev>1; (python_version>"3") and extra=="dev"',
        "foo.bar",
        "zope.interface @ https://example.org/z.zip",
    ]
    assert required(lines) == ("foo-bar", "baz", "zope-interface")


def package(site: Path, name: str, metadata: str, record: str | None = None) -> Found:
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}")
    if record is not None:
        (folder / "RECORD").write_text(record)
    return Found(str(folder), "environment")


def test_a_package_weighs_what_its_record_names_and_the_disk_has(tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_bytes(b"x" * 100)
    record = "thing.py,sha256=abc,1\nthing.py,,\ngone.py,,50\nthing-1.0.dist-info/RECORD,,\n"
    found = measured(package(tmp_path, "thing", "License: MIT\nRequires-Dist: other", record))
    assert found == Package("thing", "1.0", "environment", 100 + len(record), 2, "MIT", "MIT", ("other",))


def test_a_package_without_a_record_weighs_what_its_modules_do(tmp_path: Path) -> None:
    (tmp_path / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "inner" / "deep" / "a.py").write_bytes(b"x" * 30)
    (tmp_path / "other.py").write_bytes(b"x" * 1000)
    found = package(tmp_path, "outer", "")
    (Path(found.path) / "top_level.txt").write_text("inner\n")
    own = sum(path.stat().st_size for path in Path(found.path).iterdir())
    assert measured(found).bytes == 30 + own
    assert measured(found).family == "not stated"


def test_a_licence_is_recognised_by_its_text(tmp_path: Path) -> None:
    found = package(tmp_path, "quiet", "License-File: LICENSE\n", "")
    (Path(found.path) / "licenses").mkdir()
    (Path(found.path) / "licenses" / "LICENSE").write_text("Apache License\nVersion 2.0")
    assert measured(found).licence == "Apache-2.0"


def test_metadata_in_a_single_old_file_is_read(tmp_path: Path) -> None:
    old = tmp_path / "ancient-0.1-py3.11.egg-info"
    old.write_text("Metadata-Version: 1.0\nName: ancient\nVersion: 0.1\nLicense: GPLv2\n")
    (tmp_path / "ancient.py").write_bytes(b"x" * 7)
    found = measured(Found(str(old), "installation"))
    assert (found.name, found.version, found.family) == ("ancient", "0.1", "GPL")
    assert found.bytes == 7 + old.stat().st_size


def test_metadata_that_says_nothing_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "empty-2.0.dist-info").mkdir()
    found = measured(Found(str(tmp_path / "empty-2.0.dist-info"), "base"))
    assert (found.name, found.version, found.bytes) == ("empty", "2.0", 0)


def test_names_are_read_off_folders() -> None:
    assert name_of(Found("/x/Foo_Bar-1.0.dist-info", "base")) == "foo-bar"
    assert name_of(Found("/x/foo.egg-info", "base")) == "foo"


def test_the_running_interpreter_and_its_base_are_listed() -> None:
    version, found = find(interpreter(None))
    assert version == sys.version.split()[0]
    assert "pytest" in {name_of(item) for item in found}
    assert len({item.place for item in found}) == 1 if sys.prefix == sys.base_prefix else 2
    assert len({(item.place, name_of(item)) for item in found}) == len(found)


def test_an_interpreter_is_named_by_path_by_command_or_by_environment(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    assert interpreter(None) == sys.executable
    assert interpreter(sys.executable) == sys.executable
    assert interpreter(str(tmp_path)) == str(tmp_path / "bin" / "python")
    assert interpreter("sh").endswith("/sh")
    with pytest.raises(NoPython, match="no-such-thing"):
        interpreter("no-such-thing")
    with pytest.raises(NoPython):
        find(interpreter("sh"))


def made(name: str, bytes: int, family: str = "MIT", place: str = "base", requires: tuple[str, ...] = ()) -> Package:
    return Package(name, "1", place, bytes, 1, family, family, requires)


def test_a_census_does_not_depend_on_the_order_of_measuring() -> None:
    found = [
        made("b", 5, requires=("A-a", "gone")),
        made("A_a", 9, "BSD", "environment", ("a-a",)),
        made("a.a", 9, "BSD"),
        made("c", 7, requires=("a-a", "b")),
    ]
    one, other = census("3.11", found), census("3.11", found[::-1])
    assert one == other
    assert [p.name for p in one.packages] == ["a.a", "A_a", "c", "b"]
    assert (one.bytes, one.files) == (30, 4)
    assert one.shares == (Share("MIT", 2, 12), Share("BSD", 2, 18))
    assert [(needed.name.lower(), needed.by) for needed in one.needed] == [("a.a", 1), ("b", 1)]
