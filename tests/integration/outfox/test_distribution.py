"""`outfox-client`: the client as a separate distribution, in an environment that has nothing else of Outfox."""

import json
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import outfox
import plugin

ROOT = Path(__file__).resolve().parents[3]
REQUIRED = {"pandas", "pyarrow", "requests"}
PROGRAM = """
import json, sys
from importlib.metadata import requires
import outfox
data = outfox.open("sentiment", path=sys.argv[1], verify=True)
files = data.export("datasets", sys.argv[2])
try:
    outfox.load("sentiment", url="http://127.0.0.1:9", token="x y")
except outfox.InvalidArgument:
    pass
ours = {"plugin", "round_manager", "ml_backend", "mturk", "crowd", "templates", "common"}
others = {"torch", "transformers", "sqlalchemy", "flask", "click", "boto3", "pydantic"}
print(json.dumps({
    "file": outfox.__file__, "requires": requires("outfox-client"), "rows": len(data.examples()),
    "mer": data.metrics()["mer"].tolist(), "files": len(files), "loaded": sorted((ours | others) & set(sys.modules)),
}))
"""


def required_distributions(names: set[str]) -> set[str]:
    """Return these distributions and everything that they require, extras left out."""
    found: set[str] = set()
    wanted = set(names)
    while wanted:
        name = wanted.pop()
        found.add(name)
        for line in distribution(name).requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted |= {requirement.name} - found
    return found


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the built client, and links to the three libraries that it requires."""
    root = tmp_path_factory.mktemp("client")
    # A build leaves files next to its source.
    for name in ("client", "outfox"):
        shutil.copytree(
            ROOT / name, root / "source" / name, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        )
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", str(root)]
    subprocess.run([sys.executable, "-m", "pip", *build, str(root / "source" / "client")], check=True)
    (wheel,) = root.glob("outfox_client-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "env")], check=True)
    python = root / "env" / "bin" / "python"
    install = ["--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    (site,) = (root / "env" / "lib").glob("python*/site-packages")
    for name in required_distributions(REQUIRED):
        one = distribution(name)
        for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(str(one.locate_file(top)))
    return python


def test_the_installed_client_loads_and_exports_an_archive_and_imports_nothing_else(
    environment: Path, archives: Path, tmp_path: Path
) -> None:
    command = [str(environment), "-I", "-c", PROGRAM, str(archives), str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert Path(found["file"]).is_relative_to(environment.parents[1])
    assert set(found["requires"]) == REQUIRED
    assert (found["rows"], found["files"], found["loaded"]) == (80, 3, [])
    assert found["mer"] == outfox.metrics("sentiment", path=archives)["mer"].tolist()


def test_the_client_has_the_version_of_the_program() -> None:
    assert outfox.__version__ == plugin.__version__
