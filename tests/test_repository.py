"""Workflows, hooks and templates: they parse, and the commands that they call exist."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
if not (ROOT / ".github").is_dir():
    pytest.skip("not a clone of the repository", allow_module_level=True)

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
CLASSIFIERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]


def load(path):
    return yaml.load(path.read_text(), yaml.BaseLoader)  # as strings: YAML 1.1 reads the key "on" as true


def steps_of(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_all_workflows_are_here():
    assert [path.stem for path in WORKFLOWS] == ["docs", "release", "tests"]
    assert [path.stem for path in FORMS] == ["bug", "feature"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_make_targets_that_exist(path):
    workflow = load(path)
    assert workflow["on"]
    assert workflow["permissions"] == {"contents": "read"}, "a job asks for more if it needs it"
    called = {name for step in steps_of(workflow) for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
    assert called
    assert called <= TARGETS
    for step in steps_of(workflow):
        assert ("run" in step) != ("uses" in step)
        assert "@" in step.get("uses", "@"), "actions are pinned to a version"


def test_the_tested_versions_of_python_are_the_declared_ones():
    tested = load(ROOT / ".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: 3."
    assert tested == [one.rpartition(" ")[2] for one in CLASSIFIERS if one.startswith(prefix)]


def test_a_release_is_published_only_after_the_wheel_was_checked():
    jobs = load(ROOT / ".github/workflows/release.yml")["jobs"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert any(step.get("run") == "make release DEMO_ARGS=--quick" for step in jobs["build"]["steps"])
    command = ["make", "--dry-run", "release", "DEMO_ARGS=--quick"]
    commands = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "udtw demo --out release/demo --quick" in commands


def test_hooks_call_tools_that_make_lint_calls():
    hooks = [hook for repo in load(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {"end-of-file-fixer", "check-added-large-files"} <= {hook["id"] for hook in hooks}
    lint = subprocess.run(["make", "--dry-run", "lint"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for hook in (hook for hook in hooks if "entry" in hook):
        command = hook["entry"].removesuffix(" --fix")
        assert any(line.startswith(command) for line in lint.splitlines()), command


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_has_what_github_requires(path):
    form = load(path)
    assert form["name"]
    assert form["description"]
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)
    assert all(field["type"] in {"textarea", "input", "dropdown"} for field in form["body"])
    assert all(field["attributes"]["label"] for field in form["body"])


def test_targets_named_in_the_pages_for_contributors_exist():
    pages = ["CONTRIBUTING.md", "SECURITY.md", ".github/pull_request_template.md", ".ci/run"]
    text = "\n".join((ROOT / page).read_text() for page in pages)
    called = set(re.findall(r"(?:`|^|&& |\|\| )make ([a-z-]+)", text, re.MULTILINE))
    assert called
    assert called <= TARGETS
