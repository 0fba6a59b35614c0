# ruff: noqa: INP001 - a script, run by its path
"""Write the software bill of materials: a CycloneDX file with every locked package, its version and its hashes.

python deploy/sbom.py build/sbom.json
"""

import sys
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

import plugin
from plugin.lock import LOCKS, LockedPackage, read_lock

ROOT = Path(__file__).resolve().parents[1]
PYTORCH = "torch"


def bill_of_materials() -> str:
    """Return the file's text; raise a ValueError if it would not be valid."""
    own = _component("outfox", plugin.__version__, ComponentType.APPLICATION)
    bom = Bom()
    bom.metadata.component = own
    packages = [*read_lock(LOCKS / "runtime.txt"), LockedPackage(PYTORCH, _pytorch_version(), "", ())]
    components = [
        _component(
            one.name,
            one.version,
            ComponentType.LIBRARY,
            [HashType(alg=HashAlgorithm.SHA_256, content=each) for each in one.hashes],
        )
        for one in packages
    ]
    bom.components.update(components)
    bom.register_dependency(own, components)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem:
        raise ValueError(f"the bill of materials is not valid CycloneDX: {problem}")
    return text


def _component(name: str, version: str, kind: ComponentType, hashes: list[HashType] | None = None) -> Component:
    purl = PackageURL("pypi", name=name, version=version)
    return Component(name=name, version=version, type=kind, purl=purl, bom_ref=str(purl), hashes=hashes)


def _pytorch_version() -> str:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in pins if line.startswith(f"{PYTORCH}=="))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(bill_of_materials(), encoding="utf-8")
    print(f"wrote {target}")
