"""Imports go one way, the core is pure, and every public name is exported once."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import goalfsm

PACKAGE = Path(goalfsm.__file__).parent

# Lower layers first. A module imports only from layers before its own, or from its own.
LAYERS = [
    ["_errors", "events", "effects", "_lines", "_ir"],
    ["_draft", "_pictured", "_read", "_check", "_spec", "_kernel"],
    ["_diagram_text", "_render_mermaid", "_render_dot", "_render_table", "_picture"],
    ["_guards", "_machines", "_builtin", "_states"],
    ["_core", "_effecting", "_routing", "_compose"],
    [
        "_values",
        "_adapter",
        "_clock",
        "_log",
        "_pulse",
        "_journal_protocol",
        "_journal",
        "_sqlite_schema",
        "_sqlite_file",
        "_sqlite_rows",
        "_sqlite_tables",
        "_sqlite_writer",
        "_sqlite",
        "_sqlite_reader",
        "_fold",
    ],
    ["_message", "_words", "_run", "_timers", "_performing", "_snapshot", "_lease"],
    ["_thread", "_stopping", "_cancelling", "_recovery", "_handles", "_engine"],
    ["_sync", "interop"],
    ["adapters"],
    ["_recording", "_observed", "_observed_message", "_replay_report", "_replay", "_shown"],
    ["_sequence", "_history", "_verify", "_compacting", "diagrams", "_generated"],
    ["testing"],
    ["cli", "__main__"],
]
PURE = [name for layer in LAYERS[:5] for name in layer]
IMPURE = {
    "time", "uuid", "random", "threading", "asyncio", "anyio", "sqlite3", "logging", "structlog", "os", "socket",
    "subprocess", "datetime", "secrets", "queue", "concurrent",
}  # fmt: skip
# Only these read spec files: loading a machine is how a core gets its tables.
READS_FILES = {"_read", "_builtin"}


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
        for path in sorted(PACKAGE.rglob("*.py"))
        if "specs" not in path.parts
    }


def imported(path: Path, *, at_run_time: bool = True) -> set[str]:
    tree = ast.parse(path.read_text())
    skipped = set()
    if at_run_time:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                skipped |= {id(inner) for inner in ast.walk(node)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            if node.module == "goalfsm":
                names |= {f"goalfsm.{alias.name}" for alias in node.names}
    return names


def layer_of(module: str) -> int:
    top = module.partition(".")[0]
    for index, layer in enumerate(LAYERS):
        if top in layer:
            return index
    raise AssertionError(f"goalfsm/{module} stands in no layer: add it to LAYERS")


@pytest.mark.parametrize("module", [name for name in modules() if name != "__init__"])
def test_a_module_imports_only_from_its_own_layer_or_lower_ones(module: str) -> None:
    own = layer_of(module)
    for name in imported(modules()[module]):
        if name.startswith("goalfsm."):
            target = name.removeprefix("goalfsm.")
            assert layer_of(target) <= own, f"{module} imports {target} from a higher layer"


@pytest.mark.parametrize("module", PURE)
def test_the_core_imports_no_clock_no_thread_no_io(module: str) -> None:
    tops = {name.split(".")[0] for name in imported(modules()[module])}
    assert not tops & IMPURE
    if module not in READS_FILES:
        calls = [node for node in ast.walk(ast.parse(modules()[module].read_text())) if isinstance(node, ast.Call)]
        assert "open" not in {ast.unparse(call.func) for call in calls}


@pytest.mark.parametrize("module", PURE)
def test_nothing_in_the_core_awaits_or_prints(module: str) -> None:
    nodes = list(ast.walk(ast.parse(modules()[module].read_text())))
    assert not [node for node in nodes if isinstance(node, ast.Await | ast.AsyncFunctionDef)]
    assert not [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "print"]


def test_no_adapter_imports_another() -> None:
    public = {name for name in modules() if name.startswith("adapters.") and not name.split(".")[1].startswith("_")}
    for module in public:
        others = {f"goalfsm.{name}" for name in public - {module}}
        assert not imported(modules()[module]) & others


def test_transitions_is_imported_only_by_the_bridge_and_only_when_used() -> None:
    users = {name for name, path in modules().items() if any(n.startswith("transitions") for n in imported(path))}
    assert users <= {"interop", "diagrams"}
    assert "transitions" not in _loaded_by("import goalfsm; goalfsm.builtin_spec('goal'); goalfsm.open")


def test_importing_goalfsm_loads_no_provider_no_command_line_and_no_test_library() -> None:
    loaded = _loaded_by("import goalfsm; goalfsm.open; goalfsm.open_sync; goalfsm.ThreadCore")
    assert not loaded & {"goalfsm.adapters.codex", "click", "rich", "pytest", "hypothesis", "transitions"}


def _loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_public_name_is_exported_once_and_says_it_lives_in_goalfsm() -> None:
    assert len(set(goalfsm.__all__)) == len(goalfsm.__all__)
    for name in goalfsm.__all__:
        value = getattr(goalfsm, name)
        if isinstance(value, type) or callable(value):
            assert value.__module__ in ("goalfsm", "goalfsm.events", "goalfsm.interop"), name


def test_the_surface_has_the_designed_names() -> None:
    designed = {
        "open", "open_sync", "Policy", "Timeouts", "load_spec", "builtin_spec", "step", "to_transitions", "ThreadCore",
        "events", "effects", "Event", "GoalfsmError", "SpecError", "IllegalCommand", "ProviderRefused",
        "TransportClosed", "GoalFailed", "StaleOwner", "JournalError",
    }  # fmt: skip
    assert designed <= set(goalfsm.__all__)


def test_everything_public_has_a_docstring() -> None:
    for name in goalfsm.__all__:
        value = getattr(goalfsm, name)
        assert value.__doc__, name
        if isinstance(value, type):
            for attribute, member in vars(value).items():
                function = getattr(member, "fget", member)
                if not attribute.startswith("_") and callable(function) and not isinstance(member, type):
                    assert function.__doc__, f"{name}.{attribute}"
