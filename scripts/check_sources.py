#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of ARCHITECTURE.md that a program can check.

Layers (allowed includes and imports), unused names, SPDX lines, length of lines, files and
functions, formatting, sleeps, citations, and the fixed top level. Each rule is one function that
yields `path:line: what is wrong`; `--junit FILE` writes one test case per rule.
"""

import argparse
import functools
import io
import pathlib
import re
import subprocess
import sys
import tokenize
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator

TOP = pathlib.Path(__file__).resolve().parent.parent

# The layers of ARCHITECTURE.md, which gives the reasons for each dependency.
MAY_INCLUDE = {
    "base": {"base"},
    "model": {"base", "model"},
    "text": {"base", "text"},
    "rulesets": {"base", "model", "rulesets"},
    "kernel": {"base", "model", "kernel", "bpf"},
    "wire": {"base", "wire"},
    "clients": {"base", "model", "wire", "clients"},
    "kubernetes": {"base", "text", "kubernetes"},
    "sources": {"base", "model", "rulesets", "kernel", "clients", "sources", "bpf"},
    "policy": {"base", "model", "rulesets", "policy"},
    "rebalance": {"base", "model", "rebalance"},
    "prekill": {"base", "prekill"},
    "actuators": {"base", "model", "kernel", "clients", "prekill", "actuators"},
    "exports": {"base", "model", "wire", "exports"},
    "messages": {"base", "model", "text", "messages", "proto"},
    "intake": {"base", "model", "rulesets", "text", "messages", "intake", "proto"},
    "descheduler": {"base", "model", "rebalance", "text", "intake", "descheduler"},
    "service": {"base", "model", "text", "wire", "messages", "exports", "service", "proto"},
    "recording": {"base", "recording"},
    "picture": {"base", "model", "text", "messages", "picture", "proto"},
    "page": {"base", "page"},
    "plot": {"base", "plot", "proto"},
    "tables": {"base", "model", "kernel", "policy", "text", "messages", "tables", "proto"},
}
TOPMOST = {"agent", "daemon", "trace", "replay", "cli", "offline", "top", "cluster"}
ALL = set(MAY_INCLUDE) | TOPMOST | {"bpf", "proto"}
# A process that may kill has no network.
NETWORK = {"kubernetes"}
OFFLINE = {"rebalance", "descheduler", "replay", "offline"}
MAY_INCLUDE["agent"] = ALL - TOPMOST - OFFLINE - {"intake", "service", "tables"} | {"agent"}
MAY_INCLUDE["daemon"] = ALL - TOPMOST - OFFLINE | {"agent", "daemon"}
MAY_INCLUDE["trace"] = ALL - TOPMOST - OFFLINE | {"trace"}
MAY_INCLUDE["replay"] = ALL - TOPMOST | {"replay"}
MAY_INCLUDE["cli"] = ALL - OFFLINE - {"top", "cluster"}
MAY_INCLUDE["offline"] = ALL - {"top", "cluster"}
MAY_INCLUDE["top"] = ALL - OFFLINE - {"cluster"}
for topmost in TOPMOST:
    MAY_INCLUDE[topmost] = MAY_INCLUDE.get(topmost, set()) - NETWORK
MAY_INCLUDE["cluster"] = {"base", "model", "text", "policy", "kubernetes", "wire", "exports",
                          "rebalance", "descheduler",
                          "messages", "intake", "tables", "cli", "cluster", "proto"}

# What the pure core must not use beyond our own layers.
IMPURE = re.compile(
    r"^(unistd|fcntl|thread|mutex|atomic|random|filesystem|fstream|iostream|ctime|time)(\.h)?$"
    r"|^sys/(?!types\.h)|^spdlog/|^bpf/|^systemd/")

NOT_NAMES = re.compile(r"(^|_)(manager|helper|util|utils|misc|common)(_|$)")
TOP_LEVEL = re.compile(
    r"CMakeLists\.txt|CMakePresets\.json|bpf|userspace|proto|scripts|tests|vmtests|README\.md"
    r"|ARCHITECTURE\.md|CHANGELOG\.md|CONTRIBUTING\.md|SECURITY\.md|LICENSE|\..*")

CODE = {".h", ".cc", ".c", ".py", ".sh", ".proto"}
LINES_PER_FILE = 600
LINES_PER_FUNCTION = 70
COLUMNS = 100


def tracked() -> list[pathlib.Path]:
    # git refuses a tree of another user (a CI runner's, a mounted one) by default.
    command = ["git", "-c", f"safe.directory={TOP}", "ls-files", "--cached", "--others",
               "--exclude-standard"]
    names = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True).stdout
    return [TOP / name for name in names.split("\n") if name and (TOP / name).is_file()]


FILES = tracked()


def code_files(*suffixes: str) -> list[pathlib.Path]:
    return [path for path in FILES if path.suffix in (set(suffixes) or CODE)]


def place(path: pathlib.Path, line: int) -> str:
    return f"{path.relative_to(TOP)}:{line}"


def layers() -> Iterator[str]:
    for path in code_files(".h", ".cc"):
        parts = path.relative_to(TOP).parts
        if parts[0] != "userspace":
            continue
        layer = parts[1]
        for number, line in enumerate(path.read_text().split("\n"), 1):
            quoted = re.match(r'\s*#include "([^"]+)"', line)
            angled = re.match(r"\s*#include <([^>]+)>", line)
            if quoted:
                target = quoted[1].split("/")[0]
                target = "proto" if target == "forestall" else target
                if target in ALL and target not in MAY_INCLUDE[layer]:
                    yield f"{place(path, number)}: {layer} may not include {quoted[1]}"
            pure = layer in ("policy", "rulesets", "rebalance", "model")
            if angled and pure and IMPURE.search(angled[1]):
                yield f"{place(path, number)}: {layer} is pure, it may not include <{angled[1]}>"


IMPORT = re.compile(r"""\s*import\s+(?:public\s+|weak\s+)?["']([^"']+)""")


def protos() -> Iterator[str]:
    """What is stored or on the API must not depend on messages that change with each build."""
    for path in code_files(".proto"):
        folder = path.relative_to(TOP).parent.as_posix()
        if not folder.startswith("proto/forestall/"):
            continue
        text = path.read_text()
        package = folder.removeprefix("proto/").replace("/", ".")
        if f"\npackage {package};\n" not in text:
            yield f"{place(path, 1)}: its folder requires package {package}"
        may_import = ["forestall/v1/", "google/protobuf/"]
        may_import += ["forestall/internal/"] if package == "forestall.internal" else []
        for number, line in enumerate(text.split("\n"), 1):
            found = IMPORT.match(line)
            if found and not found[1].startswith(tuple(may_import)):
                yield f"{place(path, number)}: {package} may not import {found[1]}"


def own_header_first() -> Iterator[str]:
    """Compiling a source without precompiled headers then proves that its header stands alone."""
    for path in code_files(".cc"):
        header = path.with_suffix(".h")
        first = re.search(r'^#include ["<]([^">]+)', path.read_text(), re.MULTILINE)
        if header.is_file() and first and not str(header).endswith(f"/{first[1]}"):
            yield f"{place(path, 1)}: includes {first[1]} before its own header"


def names() -> Iterator[str]:
    for path in FILES:
        if NOT_NAMES.search(path.stem.lower()) and path.relative_to(TOP).parts[0] != "tests":
            yield f"{place(path, 1)}: not used as a name (ARCHITECTURE.md, Glossary)"
    # Names of kernel types are fixed.
    for path in [each for each in code_files(".h", ".cc") if each.parent.name != "vmlinux"]:
        for number, line in enumerate(path.read_text().split("\n"), 1):
            found = re.match(r"\s*(?:enum class|class|struct) (\w+)\b(?!.*;)", line)
            if found:
                snake = re.sub(r"(?<!^)(?=[A-Z])", "_", found[1]).lower()
                if NOT_NAMES.search(snake):
                    yield f"{place(path, number)}: {found[1]} is not used as a name"


TYPE = re.compile(r"( *)(?:enum class|enum|class|struct|union) ([A-Z]\w*)\b(?!::)(?![^{]*;)")


@functools.cache
def types() -> list[tuple[pathlib.Path, int, str, bool]]:
    """Type definitions of userspace/. True: it can be named in other files, without a class."""
    found = []
    for path in code_files(".h", ".cc"):
        if path.relative_to(TOP).parts[0] != "userspace":
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if match := TYPE.match(line):
                found.append((path, number, match[2], path.suffix == ".h" and not match[1]))
    return found


def type_names() -> Iterator[str]:
    """A type name means one thing: ARCHITECTURE.md, Glossary."""
    shared = {name: place(path, line) for path, line, name, is_shared in types() if is_shared}
    for path, line, name, is_shared in types():
        other = shared.get(name, place(path, line))
        if other != place(path, line) and (is_shared or name != "Options"):
            yield f"{place(path, line)}: {name} is also the type at {other}"


def layer_of(path: pathlib.Path) -> str:
    return path.relative_to(TOP).parts[1]


def glossary() -> Iterator[str]:
    """Each type has a row, by its name or by the last word of it; each name of a row is a type."""
    document = TOP / "ARCHITECTURE.md"
    families: set[str] = set()
    words_of_ours: set[str] = set()  # "usage line"
    rows: list[tuple[int, list[str], set[str]]] = []  # line, folders (none: all), names
    title = ""
    for number, line in enumerate(document.read_text().split("\n"), 1):
        title = line if line.startswith("#") else title
        if title != "## Glossary" or not line.startswith("| "):
            continue
        first, rest = line[2:].split(" | ", 1)
        families.update(re.findall(r"`…(\w+)`", first))
        words_of_ours.update(re.findall(r"[a-z][a-z ]*", first))
        folders = first.split(", ") if re.fullmatch(r"[a-z, ]+", first) else []
        folders = folders if all((TOP / "userspace" / each).is_dir() for each in folders) else []
        spans = " ".join(re.findall(r"`([^`]+)`", rest if "`…" in first or folders else ""))
        rows.append((number, folders, set(re.findall(r"(?<![\w…])[A-Z]\w*…?", spans))))
    existing: dict[str, set[str]] = {}
    for path, _, name, _ in types():
        existing.setdefault(name, set()).add(layer_of(path))
    for number, folders, names_of_row in rows:
        for name in sorted(names_of_row):
            found = set().union(*(layers_of for each, layers_of in existing.items()
                                  if each == name or name == each[:len(name) - 1] + "…"))
            if not (found & set(folders) if folders else found):
                where = ", ".join(folders) or "userspace"
                yield f"{place(document, number)}: {name} is not a type of {where}"
    families_end = re.compile(rf"[a-z0-9](?:{'|'.join(sorted(families))})(?:s|es)?$")
    for path, line, name, is_shared in types():
        as_words = re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()
        if not is_shared or families_end.search(name) or as_words in words_of_ours:
            continue
        begins = {name} | {name[:end] + "…" for end in range(1, len(name) + 1)}
        if not any(begins & each and (not folders or layer_of(path) in folders)
                   for _, folders, each in rows):
            yield f"{place(path, line)}: {name} has no row in ARCHITECTURE.md, Glossary"


def licences() -> Iterator[str]:
    for path in FILES:
        wants = path.suffix in CODE | {".cmake", ".yaml", ".service"}
        wants = wants or path.name == "CMakeLists.txt"
        if not wants or "corpus" in path.parts or path.is_relative_to(TOP / "tests/data"):
            continue
        head = "\n".join(path.read_text(errors="replace").split("\n")[:3])
        if "SPDX-License-Identifier:" not in head:
            yield f"{place(path, 1)}: no SPDX line"
        elif path.is_relative_to(TOP / "bpf") and path.suffix in {".c", ".h"}:
            if "GPL-2.0-only OR BSD-2-Clause" not in head:
                yield f"{place(path, 1)}: bpf/ is GPL-2.0-only OR BSD-2-Clause"


def sizes() -> Iterator[str]:
    for path in code_files(*CODE, ".js"):
        if "vendor" in path.parts:
            continue
        lines = path.read_text(errors="replace").split("\n")
        if len(lines) > LINES_PER_FILE and path.parts[-2] != "vmlinux":
            yield f"{place(path, 1)}: {len(lines)} lines, the limit is {LINES_PER_FILE}"
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS:
                yield f"{place(path, number)}: {len(line)} columns, the limit is {COLUMNS}"


def functions() -> Iterator[str]:
    """A function's head starts in the first column, its body ends with a brace there;
    clang-format sees to that. Bodies inside classes are short or they would not be there."""
    not_functions = re.compile(
        r"(namespace|struct|class|enum|union|extern|template|typedef|#|//|})")
    for path in code_files(".cc", ".c"):
        head = body = None
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if body is not None:
                if line.startswith("}"):
                    if number - head > LINES_PER_FUNCTION:
                        yield f"{place(path, head)}: function of {number - head} lines"
                    head = body = None
            elif re.match(r"\S", line):
                is_table = line.endswith("= {")
                head = None if is_table or not_functions.match(line) else number
            if head is not None and body is None and line.endswith("{"):
                body = number
            elif head is not None and body is None and line.endswith((";", "}")):
                head = None


def sleeps() -> Iterator[str]:
    # A load generator may sleep to keep its rate; a wait for an event must not sleep.
    sleeping = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\(")
    for path in code_files(".h", ".cc", ".c"):
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if sleeping.search(line) and not line.lstrip().startswith("//"):
                yield f"{place(path, number)}: sleeps; wait for the event instead"


def skips() -> Iterator[str]:
    """A test that cannot run here names its requirement; any other skip is a failure."""
    for path in code_files(".cc"):
        text = path.read_text()
        for found in re.finditer(r'GTEST_SKIP\(\)\s*<<\s*"(?!not applicable: )', text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{place(path, line)}: a skip begins with 'not applicable: '"


def leftovers() -> Iterator[str]:
    marker = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    for path in code_files():
        for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
            if marker.search(line):
                yield f"{place(path, number)}: unfinished work"


def formatting() -> Iterator[str]:
    paths = [str(path) for path in code_files(".h", ".cc") if "vmlinux" not in path.parts]
    ran = subprocess.run(["clang-format", "--dry-run", "-Werror", *paths], cwd=TOP,
                         capture_output=True, text=True)
    seen = set()
    for line in ran.stderr.split("\n"):
        found = re.match(r"(.+?):(\d+):\d+: error: code should be clang-formatted", line)
        if found and found[1] not in seen:
            seen.add(found[1])
            yield f"{place(pathlib.Path(found[1]).resolve(), int(found[2]))}: not clang-formatted"
    if ran.returncode and not seen:
        yield f".clang-format:1: clang-format failed: {ran.stderr.strip()[:200]}"


def executables() -> Iterator[str]:
    """What begins with an interpreter can be run. A checkout has the mode of the index."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "-s"], capture_output=True, text=True,
                            check=False).stdout
    for mode, _, _, name in (line.split(maxsplit=3) for line in listed.splitlines()):
        path = TOP / name
        if mode != "100644" or not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(2) == b"#!":
                yield f"{place(path, 1)}: begins with #! and is not executable"


def top_level() -> Iterator[str]:
    for name in sorted({path.relative_to(TOP).parts[0] for path in FILES}):
        if not TOP_LEVEL.fullmatch(name):
            yield f"{name}:1: outside the fixed top level"


# Words that plain English has a better one for: CONTRIBUTING.md, Language.
BANNED_WORDS = re.compile(
    r"\b(told|tells?|tellings?|tellers?|untold|nobody|somebody|anybody|whoever|whom(?:ever)?"
    r"|beneath|for ever|but for|of late|lends?|lent|vouch(?:es|ed)?|thereof|reckon(?:s|ed)?"
    r"|fores(?:ee|een|aw)|foretold|foresight|know(?:s|ing)?|knew|learn(?:s|t|ed)?|ask(?:s|ed|ing)?"
    r"|someone|anyone|everyone|who|say(?:s|ing)?|said|talks?|speaks?|looks?|looked|looking"
    r"|meets?|meeting|wants?|saw|sees)\b", re.IGNORECASE)
# What may contain them all the same, and why.
ALLOWED_WORDS = re.compile("|".join([
    r"nobody:x:.*",  # a user in /etc/passwd
    r"\bask=a,task=b",  # a kernel message cut short
    r"\blook(?:s|ed)?(?: it| them)? up\b",  # in a table, a cache or a directory
    r"\bmulti-user\.target\.wants\b",  # a folder of systemd
]), re.IGNORECASE)


def prose(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Comments and strings of code, all of a document, with the number of their line."""
    text = path.read_text(errors="replace")
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield token.start[0], re.sub(r"\{[^{}]*\}", "", token.string)
        return
    in_code = re.compile(r'"(?:[^"\\]|\\.)*"|//.*$|/\*.*?\*/')
    for number, line in enumerate(text.split("\n"), 1):
        if path.suffix in {".h", ".cc", ".c", ".proto", ".js"}:
            line = "" if line.startswith("#include") else " ".join(in_code.findall(line))
        yield number, re.sub(r"`[^`]*`", "", line)


def words() -> Iterator[str]:
    suffixes = CODE | {".md", ".txt", ".cmake", ".yaml", ".service", ".8", ".js", ".html", ".css"}
    kept_out = {"vendor", "vmlinux", "corpus", "data", "runtime", "grpc"}
    for path in FILES:
        parts = set(path.relative_to(TOP).parts)
        own = path.name in ("check_sources.py", "test_check_sources.py")
        if path.suffix not in suffixes or parts & kept_out or own:
            continue
        for number, line in prose(path):
            found = BANNED_WORDS.search(ALLOWED_WORDS.sub("", line))
            if found:
                yield f"{place(path, number)}: '{found[0]}' (CONTRIBUTING.md, Language)"


TEST_NAME = re.compile(r"\bTEST(?:_F|_P)?\(\s*\w+,\s*(\w+)\)")


def test_names() -> Iterator[str]:
    """A test's name is a sentence in plain English as well."""
    for path in code_files(".cc"):
        text = path.read_text()
        for found in TEST_NAME.finditer(text):
            word = BANNED_WORDS.search(re.sub(r"(?=[A-Z])", " ", found[1]))
            if word:
                line = text.count("\n", 0, found.start()) + 1
                yield f"{place(path, line)}: '{word[0]}' in {found[1]} (CONTRIBUTING.md, Language)"


# Files that comments cite. Those of the kernel and of Kubernetes are not here: .c files without
# .bpf, .go files, and headers below these folders.
CITED = re.compile(
    r"(?<![\w./*%<{$-])((?:[\w-]+/)*[\w-]+\.(?:h|cc|bpf\.c|py|sh|proto|md|cmake))\b(?! ?[*{(])"
    r"(?: ([A-Za-z_]\w+)\(\))?")
FOREIGN = re.compile(r"(include|linux|asm)/|PROTOCOL-HTTP2\.md$|embedded\.cc$|[A-Z]+\.cc$")
SECTION = re.compile(r"\b([A-Z]+\.md), ([A-Z]\w+)")
NOT_SHIPPED = re.compile(r"\.\./shared|\bshared/|\bdesign\.md")


def comments(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Comments of code, all of a document, with the number of their line."""
    begins = {".py": "#", ".sh": "#", ".cmake": "#", ".yaml": "#", ".md": "", ".txt": "#"}
    begin = begins.get(path.suffix, r"//|/\*|^ \* ")
    for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
        found = re.search(f"(?:{begin}).*", line)
        if found:
            yield number, found[0]


def citations() -> Iterator[str]:
    """What a comment cites ships: a file of ours exists and has the function that is named."""
    cited: dict[str, list[pathlib.Path]] = {}
    for path in FILES:
        parts = path.relative_to(TOP).parts
        for first in range(len(parts)):
            cited.setdefault("/".join(parts[first:]), []).append(path)
    own = pathlib.Path(__file__).resolve()
    for path in FILES:
        foreign = {"vendor", "vmlinux", "corpus", "runtime", "grpc"} & set(path.parts)
        if path == own or foreign or path.suffix not in CODE | {".md", ".cmake", ".yaml", ".txt"}:
            continue
        for number, text in comments(path):
            if found := NOT_SHIPPED.search(text):
                yield f"{place(path, number)}: '{found[0]}' does not ship; cite the source itself"
            for name, function in CITED.findall(text):
                if FOREIGN.search(name):
                    continue
                if name not in cited:
                    yield f"{place(path, number)}: cites {name}, which does not exist"
                elif function and not any(function in each.read_text(errors="replace")
                                          for each in cited[name]):
                    yield f"{place(path, number)}: cites {function}(), which is not in {name}"
            for name, section in SECTION.findall(text):
                if name in cited and not re.search(f"^#+ .*{section}", cited[name][0].read_text(),
                                                   re.MULTILINE):
                    yield f"{place(path, number)}: {name} has no section {section}"


RULES: list[Callable[[], Iterator[str]]] = [
    layers, protos, own_header_first, names, type_names, glossary, licences, sizes, functions,
    sleeps, skips, leftovers, words, test_names, citations, formatting, executables, top_level]


def write_junit(path: str, problems: dict[str, list[str]]) -> None:
    suite = ElementTree.Element("testsuite", name="checks", tests=str(len(problems)))
    for rule, found in problems.items():
        case = ElementTree.SubElement(suite, "testcase", name=rule)
        if found:
            ElementTree.SubElement(case, "failure").text = "\n".join(found)
    ElementTree.ElementTree(suite).write(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--junit", help="write the result as JUnit XML")
    options = parser.parse_args()
    problems = {rule.__name__: list(rule()) for rule in RULES}
    for rule, found in problems.items():
        for problem in found:
            print(f"{problem} [{rule}]")
        print(f"{'ok    ' if not found else 'FAILED'} {rule}")
    if options.junit:
        write_junit(options.junit, problems)
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
