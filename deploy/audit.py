# ruff: noqa: INP001 - a script, run by its path
"""Compare the locked packages with known vulnerabilities, with pip-audit.

python deploy/audit.py

Exit codes: 0 no vulnerability is known, 1 a package is vulnerable, 2 the audit could not be done. A service that does
not answer is a failed audit: no answer is not a good one.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "plugin" / "locks"
CLEAN, VULNERABLE, FAILED = 0, 1, 2
ADVICE = (
    "The audit failed, so nothing is known about these packages. Check that this machine can reach the advisory "
    "service, then run `make audit` again. Or write build/sbom.json with `make sbom`, copy it to a machine that can "
    "reach the service, and scan it there."
)


def audit(requirements: Path) -> list[str]:
    """Return the vulnerabilities of a file's packages, one line each; raise a RuntimeError if they are unknown."""
    options = ["--requirement", str(requirements), "--no-deps", "--disable-pip", "--strict", "--format", "json"]
    command = [sys.executable, "-m", "pip_audit", *options, "--progress-spinner", "off"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(ran.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (ran.stderr.strip().splitlines() or ["no output"])[-1]
        raise RuntimeError(last) from None
    skipped = [one["name"] for one in packages if "vulns" not in one]
    if not packages or skipped:
        raise RuntimeError(f"not audited: {', '.join(skipped) or 'no package'}")
    return [
        f"{one['name']} {one['version']}: {each['id']}, fixed in {', '.join(each['fix_versions']) or 'no version yet'}"
        for one in packages
        for each in one["vulns"]
    ]


def main() -> int:
    """Audit all locks and the version of PyTorch; return the exit code."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        torch = Path(folder) / "torch.txt"
        torch.write_text("\n".join(line for line in pins if line.startswith("torch==")), encoding="utf-8")
        found = []
        for path in (*sorted(LOCKS.glob("*.txt")), torch):
            try:
                found += audit(path)
            except RuntimeError as error:
                print(f"{path.name}: {error}\n{ADVICE}", file=sys.stderr)
                return FAILED
    print("\n".join(found) or "no vulnerability is known in the locked packages")
    return VULNERABLE if found else CLEAN


if __name__ == "__main__":
    sys.exit(main())
