"""Imports run down: no module imports one of a higher layer, and none imports itself in a circle.

Imports are read from the source, those inside functions and for type checkers too.
"""

import ast
import graphlib
from functools import cache
from pathlib import Path

import mr_dedup

PACKAGE = Path(mr_dedup.__file__).parent

# from bottom to top; those of one layer do not import one another
LAYERS = (
    {"redaction"},
    {"mr_dedup", "errors", "extras", "interrupts", "progress_bars"},
    {"kernels"},
    {"files"},
    {"storage"},
    {"formats"},
    {"features", "hamming", "urls"},
    {"fingerprints"},
    {"clusters"},
    {"contamination", "index", "passages", "signatures"},
    {"jobs"},
    {"engines"},
    {"pipeline"},
    {"report", "server"},
    {"cli"},
    {"api"},
    {"__main__"},
)


def is_program(node):
    """Whether a statement runs only where the module is run as a program."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def imported(source):
    """The dotted names that a module imports, with those of what it imports from modules."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not is_program(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def graph_of(sources):
    """The modules that each module imports; a package only where a name of its own is imported."""
    graph = {}
    for name, source in sources.items():
        found = {other for other in imported(source) if other in sources and other != name}
        graph[name] = {
            other for other in found if not any(longer.startswith(f"{other}.") for longer in found)
        }
    return graph


@cache
def graph():
    sources = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = (PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)
        sources[".".join(parts).removesuffix(".__init__")] = path.read_text()
    # the names that it offers are imported when they are used
    sources[PACKAGE.name] = ""
    return graph_of(sources)


def top(module):
    """The package or module right below mr_dedup that a module belongs to."""
    return [*module.split("."), module][1]


def layer(module):
    return next(number for number, names in enumerate(LAYERS) if top(module) in names)


def arrows_up(edges):
    return {
        (one, other)
        for one, other in edges
        if top(one) != top(other) and layer(one) <= layer(other)
    }


def cycle(edges):
    """The modules of a cycle of imports, empty if there is none."""
    sorter = graphlib.TopologicalSorter()
    for one, other in edges:
        sorter.add(one, other)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def edges():
    return {(one, other) for one, others in graph().items() for other in others}


def test_every_module_is_on_a_layer():
    names = {top(module) for module in graph()}
    assert names == set.union(*LAYERS)


def test_no_import_goes_up():
    # so no package imports itself in a circle either
    assert arrows_up(edges()) == set()


def test_no_module_imports_itself_in_a_circle():
    assert cycle(edges()) == []


def test_imports_are_found_wherever_they_stand():
    sources = {
        "a": "import a.b\nfrom a import c as other",
        "a.b": "def function():\n    from a.c import name\n",
        "a.c": "if TYPE_CHECKING:\n    import a.b, os\n",
    }
    found = graph_of(sources)
    assert found == {"a": {"a.b", "a.c"}, "a.b": {"a.c"}, "a.c": {"a.b"}}
    assert set(cycle({(one, other) for one in found for other in found[one]})) == {"a.b", "a.c"}
    assert arrows_up({("mr_dedup.formats.x", "mr_dedup.jobs.y")})
    assert arrows_up({("mr_dedup.urls.x", "mr_dedup.hamming.y")})
    assert not arrows_up({("mr_dedup.urls.x", "mr_dedup.urls.y"), ("mr_dedup.jobs.x", "mr_dedup")})
