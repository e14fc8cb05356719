#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over userspace/, and headers and source files that must compile alone.

    scripts/lint.py --build build/release

The build folder has compile_commands.json and the generated headers. Results are cached by content
in ~/.cache/forestall-lint (or $XDG_CACHE_HOME): what passed once does not run again until it, or a
file that it includes, changes.

clang-tidy visits all declarations of a translation unit, and most of them are the standard
library's. So one unit contains many source files: those that do not define or call a name of each
other's anonymous namespaces. A unit that does not compile all the same is checked in halves. A
header is compiled after a precompiled header with what is not ours. A source file is compiled
without any precompiled header, which all builds have, and without the files that a unity build
compiles with it: so it includes what it uses.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

TOP = pathlib.Path(__file__).resolve().parent.parent
TIDY = "clang-tidy-19"
CLANG = "clang++-19"
FILES_PER_UNIT = 32
STANDARD = ["algorithm", "array", "charconv", "chrono", "cstdint", "deque", "functional", "map",
            "memory", "optional", "span", "string", "string_view", "unordered_map", "utility",
            "variant", "vector", "fmt/format.h", "gmock/gmock.h", "gtest/gtest.h"]
ANONYMOUS = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
DEFINED = re.compile(
    r"^(?:template <[^>]*>\s+)?(?:using|struct|class|enum class|enum|union) (?:\w+::)*(\w+)"
    r"|^(?=\w)[\w:<>,*& \[\]]*?\b(\w+)\s*(?:[=\[{(;]|$)", re.MULTILINE)


def tracked(*patterns: str) -> list[str]:
    command = ["git", "-c", f"safe.directory={TOP}", "ls-files", "--cached", "--others",
               "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in names.split("\n") if name and (TOP / name).is_file())


def compile_flags(build: pathlib.Path, folders: tuple[str, ...]) -> list[str]:
    """Every include folder and macro that some file of the folders is compiled with."""
    flags = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        # The object: a unity build compiles files of the build folder.
        if re.search(rf" -o ({'|'.join(folders)})/", entry["command"]):
            flags |= dict.fromkeys(re.findall(r"-isystem \S+|-[ID]\S+", entry["command"]))
    found = [part.replace("\\", "") for flag in flags for part in flag.split(" ")]
    return ["-std=gnu++20", *found, f"-I{TOP}/tests", f"-I{TOP}/vmtests", "-Wno-unknown-pragmas",
            # libstdc++ 12 builds std::stable_sort on a function that clang refuses as deprecated.
            "-Wno-deprecated-declarations"]


class Cache:
    """Names of passed jobs, by the content of all of our files that they include."""

    def __init__(self, flags: list[str]) -> None:
        home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        self.folder = pathlib.Path(home) / "forestall-lint"
        self.folder.mkdir(parents=True, exist_ok=True)
        folders = [pathlib.Path(flag[2:]) for flag in flags if flag.startswith("-I")]
        self.folders = [each for each in folders if each.is_relative_to(TOP)]
        version = subprocess.run([TIDY, "--version"], check=True, capture_output=True).stdout
        settings = " ".join(flags).replace(str(TOP), "")
        self.base = [version, settings.encode(), (TOP / ".clang-tidy").read_bytes()]

    @functools.lru_cache(maxsize=None)
    def includes(self, path: pathlib.Path) -> tuple[pathlib.Path, ...]:
        names = re.findall(r'^#include ["<]([^">]+)[">]', path.read_text(), re.MULTILINE)
        found = (next((each / name for each in [*self.folders, path.parent]
                       if (each / name).is_file()), None) for name in names)
        return tuple(each for each in found if each)

    def key(self, kind: str, paths: list[pathlib.Path]) -> pathlib.Path:
        seen: dict[pathlib.Path, None] = {}
        waiting = list(reversed(paths))
        while waiting:
            path = waiting.pop()
            if path not in seen:
                seen[path] = None
                waiting.extend(self.includes(path))
        digest = hashlib.sha256(kind.encode())
        for part in [*self.base, *(path.read_bytes() for path in seen)]:
            digest.update(hashlib.sha256(part).digest())
        return self.folder / digest.hexdigest()


def units(sources: list[str]) -> list[list[str]]:
    """Sources by unit. Within one namespace of a unit, a name of an anonymous namespace is neither
    defined nor called by two files: it would hide what the other file means."""
    made: list[tuple[list[str], set[tuple[str, str]], set[tuple[str, str]]]] = []
    for source in sources:
        text = (TOP / source).read_text()
        space = re.search(r"^namespace (forestall[\w:]*) \{", text, re.MULTILINE)
        where = space[1] if space else ""
        names = {(where, first or second)
                 for body in ANONYMOUS.findall(text) for first, second in DEFINED.findall(body)}
        names |= {("", name) for found in re.findall(r"^#define (\w+)|^int (main)\(", text, re.M)
                  for name in found if name}
        called = {(where, name) for name in re.findall(r"(?<![\w.:>])(\w+)\(", text)}
        for unit, defined, used in made:
            if len(unit) < FILES_PER_UNIT and not defined & (names | called) and not used & names:
                unit.append(source)
                defined |= names
                used |= called
                break
        else:
            made.append(([source], names, called))
    return [unit for unit, *_ in made]


def precompile(work: pathlib.Path, build: pathlib.Path, flags: list[str]) -> pathlib.Path:
    messages = sorted(path.relative_to(build / "proto")
                      for path in (build / "proto/forestall").rglob("*.pb.h"))
    header = work / "foreign.h"
    header.write_text("".join(f"#include <{name}>\n" for name in [*STANDARD, *messages]))
    subprocess.run([CLANG, "-x", "c++-header", "-fpch-instantiate-templates", *flags, header, "-o",
                    work / "foreign.pch"], check=True)
    return work / "foreign.pch"


def run(command: list[str]) -> str:
    ran = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    if ran.returncode == 0:
        return ""
    lines = [line for line in (ran.stdout + ran.stderr).replace(f"{TOP}/", "").split("\n")
             if not re.search(r"warnings? (generated|treated)|Suppressed|errors? generated", line)]
    return "\n".join(lines).strip() or f"{command[0]} exited with {ran.returncode}"


def tidy(source: pathlib.Path, unit: list[str], flags: list[str]) -> str:
    source.write_text("".join(f'#include "{each}"\n' for each in unit))
    problem = run([TIDY, "--quiet", source, "--", *flags])
    if "[clang-diagnostic-error]" not in problem or len(unit) == 1:
        return problem
    half = len(unit) // 2
    found = [tidy(source, part, flags) for part in (unit[:half], unit[half:])]
    return "\n".join(filter(None, found))


def once(job: Callable[[], str], passed: pathlib.Path) -> str:
    problem = job()
    if not problem:
        passed.touch()
    return problem


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a built build folder")
    parser.add_argument("--junit", help="write the result as JUnit XML")
    options = parser.parse_args()
    build = options.build.resolve()
    work = build / "lint"
    work.mkdir(exist_ok=True)
    flags = compile_flags(build, ("userspace",))
    folders = ("userspace", "tests", "vmtests")
    all_flags = compile_flags(build, folders)
    cache = Cache(flags)
    jobs: dict[str, Callable[[], str]] = {}
    for number, unit in enumerate(units(tracked("userspace/*.cc"))):
        passed = cache.key("tidy", [TOP / source for source in unit])
        if not passed.exists():
            job = functools.partial(tidy, work / f"unit{number}.cc", unit, flags)
            jobs[f"clang-tidy {number}"] = functools.partial(once, job, passed)
    kept_out = {"vmlinux", "vendor"}
    headers = [name for name in tracked("userspace/*.h", "tests/*.h", "vmtests/*.h")
               if not kept_out & set(pathlib.Path(name).parts)]
    waiting = {name: passed for name in headers
               if not (passed := cache.key("header", [TOP / name])).exists()}
    if waiting:
        precompiled = precompile(work, build, all_flags)
        for name, passed in waiting.items():
            command = [CLANG, "-fsyntax-only", "-x", "c++", "-include-pch", precompiled, *all_flags,
                       "-Wno-pragma-once-outside-header", TOP / name]
            jobs[name] = functools.partial(once, functools.partial(run, command), passed)
    alone = [CLANG, "-fsyntax-only", *all_flags]
    sources = 0
    for name in tracked(*(f"{folder}/*.cc" for folder in folders)):
        if not (passed := cache.key("alone", [TOP / name])).exists():
            sources += 1
            job = functools.partial(run, [*alone, TOP / name])
            jobs[name] = functools.partial(once, job, passed)
    suite = ElementTree.Element("testsuite", name="lint", tests=str(max(len(jobs), 1)))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {pool.submit(job): name for name, job in jobs.items()}
        for ended in concurrent.futures.as_completed(running):
            case = ElementTree.SubElement(suite, "testcase", name=running[ended])
            if problem := ended.result():
                failed += 1
                print(f"== {running[ended]}\n{problem}", flush=True)
                ElementTree.SubElement(case, "failure").text = problem
    if options.junit:
        ElementTree.ElementTree(suite).write(options.junit)
    print(f"lint: {len(jobs) - len(waiting) - sources} units, {len(waiting)} headers and {sources} "
          f"source files run, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
