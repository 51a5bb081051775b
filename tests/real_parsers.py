"""The real parsers of Mermaid and of Graphviz (compiled for node), installed from the npm registry on first use."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "mermaid"
FILES = ("package.json", "parse.mjs")


class Parsers:
    """Asks one node process, which lives until `close`."""

    def __init__(self, folder):
        words = [shutil.which("node"), "parse.mjs"]
        self.node = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def close(self):
        self.node.stdin.close()
        self.node.stdout.close()
        self.node.wait(timeout=60)

    def read(self, kind, *texts):
        """Give what the parser of that kind (mermaid, dot) understood of each text; a complaint fails the test."""
        return [self._read(kind, text) for text in texts]

    def _read(self, kind, text):
        self.node.stdin.write(json.dumps({"kind": kind, "text": text}) + "\n")
        self.node.stdin.flush()
        line = self.node.stdout.readline()
        assert line, "the parsers' process has ended"
        answer = json.loads(line)
        assert "error" not in answer, f"{answer['error']}\n{text}"
        return answer


def install(cache):
    """Give the parsers, installed once for this version of their package file."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return missing("node and npm are not installed")
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in FILES)).hexdigest()[:12]
    folder = Path(cache) / digest
    if not folder.exists():
        Path(cache).mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=cache))
        for name in FILES:
            shutil.copy(HERE / name, fresh)
        words = [
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--no-package-lock",
            "--loglevel=error",
        ]
        done = subprocess.run(words, cwd=fresh, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            shutil.rmtree(fresh)
            return missing(f"npm could not install the parsers: {done.stderr.strip()[-300:]}")
        try:
            fresh.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(fresh)
    return Parsers(folder)


def missing(why):
    if os.environ.get("CI"):
        pytest.fail(f"on CI the real parsers must be there: {why}")
    pytest.skip(why)
