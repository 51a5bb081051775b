"""The built wheel, in a fresh environment, runs the main job: nothing of the checkout is needed."""

import json
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_carries_the_specs_and_runs_the_demo(tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    wheels = tmp_path / "wheels"
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = wheels.glob("goalfsm-*.whl")
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True, capture_output=True)

    def goalfsm(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [environment / "bin" / "goalfsm", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    checked = goalfsm("check")
    assert checked.returncode == 0, checked.stderr
    demo = goalfsm("demo", "--json", "--speed", "10")
    assert demo.returncode == 0, demo.stderr
    fates = {message["state"] for message in json.loads(demo.stdout)["follow_ups"]}
    assert {"delivered", "requeued"} <= fates
