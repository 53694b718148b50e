"""What comes with udtw may be used with it under the MIT license."""

from importlib.metadata import PathDistribution

import pytest

from hardening.licenses import license_of, main


def test_nothing_that_users_install_is_under_a_copyleft_license(capsys):
    main()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()[2:]]
    of_users = {license_name: packages for title, license_name, packages in rows if title != "development"}
    assert "torch" in of_users["Apache-2.0 and BSD and MIT"]
    assert not [name for name in of_users if "GPL" in name]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("License-Expression: BSD-3-Clause AND MIT", "BSD and MIT"),
        ("Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)", "GPL"),
        ("License: Apache 2.0", "Apache-2.0"),
        ("License-Expression: LGPL-3.0", "LGPL"),
        ("Summary: nothing", "not stated"),
    ],
)
def test_how_a_license_is_stated(tmp_path, metadata, expected):
    folder = tmp_path / "one-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: one\nVersion: 1.0\n{metadata}\n")
    assert license_of(PathDistribution(folder)) == expected
