"""The README's plain lines, as somebody without make runs them:  python3 tools/first_hour.py  (make
first-hour)

A fresh clone of the last commit, in a temporary folder, with an environment made by these lines
alone. Needs git and the package index; nothing of this checkout's own environment is used.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "vit_theory"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        text = (clone / "README.md").read_text(encoding="utf-8")
        plain_lines = re.search(r"Without make.*?```bash\n(.*?)```", text, re.S)
        if not plain_lines:
            sys.exit("README.md has no plain lines after 'Without make'")
        outside = [
            directory
            for directory in os.environ["PATH"].split(os.pathsep)
            if not directory.startswith(str(ROOT))
        ]
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS")
        }
        for line in plain_lines[1].splitlines():
            print(f"$ {line}", flush=True)
            start = time.monotonic()
            finished = subprocess.run(
                ["bash", "-c", line],
                cwd=clone,
                env={**environment, "PATH": os.pathsep.join(outside)},
            )
            print(f"  status {finished.returncode}, {time.monotonic() - start:.0f} s\n", flush=True)
            if finished.returncode:
                sys.exit(f"failed: {line}")
        if not (clone / "claims" / "index.html").exists():
            sys.exit("claims/index.html was not written")
        print("all lines of the README passed; claims/index.html is there")


if __name__ == "__main__":
    main()
