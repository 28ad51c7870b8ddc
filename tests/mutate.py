#!/usr/bin/env python3
"""mutate.py: mutation testing, which measures whether the tests notice small faults.

    tests/mutate.py [--count 40] [--seed 1] [--folder mutants] ROOM...
    tests/mutate.py --list

A ROOM is a folder of the table below, such as lib/optim. A mutant is the library with
one changed line in a file of the room: another comparison, bound, number or operator,
two exchanged arguments, a removed statement, or an early return. The library is built,
and the tests of the room run, the shortest first, until one notices the change: it
fails, crashes, takes more processor time than LIMIT, or waits for so long that it hangs.
A mutant that no test notices is a survivor.
Mutants that do not compile, or whose object file is unchanged, are not counted.

The script works on a copy of the committed tree in FOLDER, which it builds once. Run it
by hand, not in CI: a mutant takes some seconds, a survivor as long as all tests of its
room. FOLDER/ROOM.txt lists the survivors, each with its change. For each survivor,
either a test is missing, or the change has no effect that a caller could see.
docs/testing.md has the table of results.
"""
import argparse
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 120  # seconds of processor time that one test program may take; also the
             # shortest time after which it hangs

# For each room, the folders of its tests, and the groups of golden samples
# that use it.
ROOMS = {
    "lib/ops": (["ops", "autograd"], ["ops"]),
    "lib/autograd": (["autograd", "training"], ["ops"]),
    "lib/optim": (["optim", "training"],
                  ["optim", "schedulers", "training"]),
    "lib/device": (["device", "graph", "data", "trace"], []),
    "lib/kernel": (["kernel", "device"], ["ops"]),
    "lib/nn": (["nn"], ["nn", "training"]),
    "backends/cpu": (["cpu", "ops"], ["ops"]),
}

# The changes: a regular expression and its replacement.
EXCHANGES = [
    (r"(?<![<\-])<(?![<=])", "<="), (r"<=", "<"),
    (r"(?<![>\-])>(?![>=])", ">="), (r">=", ">"),
    (r"==", "!="), (r"!=", "=="), (r"&&", "||"), (r"\|\|", "&&"),
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" / ", " * "),
    (r"\+\+", "--"), (r" \+= ", " -= "), (r" -= ", " += "),
    (r"\b0\b", "1"), (r"\b1\b", "0"), (r"\b1\b", "2"), (r"\b2\b", "3"),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
    (r"!(?=[a-z(])", ""), (r" & ", " | "), (r" \| ", " & "),
    (r" << ", " >> "), (r" >> ", " << "), (r" - 1\b", ""), (r" \+ 1\b", ""),
]


def code_lines(text):
    """Returns the numbers of the lines within functions that are neither comments nor
    part of a macro."""
    inside = comment = macro = False
    for number, line in enumerate(text.split("\n")):
        here = line.strip()
        was_macro, macro = macro, line.endswith("\\")
        if comment or here.startswith("/*"):
            comment = "*/" not in here
            continue
        if here.startswith("#") or was_macro or not here:
            continue
        if line.startswith("{"):
            inside = True
        elif line.startswith("}"):
            inside = False
        elif inside and "static const" not in line and '"' not in line:
            yield number


def changes(line):
    """Returns all mutations of a line."""
    code = line.split("/*")[0]
    for pattern, place in EXCHANGES:
        for found in re.finditer(pattern, code):
            yield line[:found.start()] + place + line[found.end():]
    for found in re.finditer(r"\(([\w.>\-]+), ([\w.>\-]+)\)", code):
        if found[1] != found[2]:
            yield (line[:found.start()] + f"({found[2]}, {found[1]})" +
                   line[found.end():])
    here = code.strip()
    blank = line[:len(line) - len(line.lstrip())]
    if re.fullmatch(r"[\w.>\-\[\]]+( [+\-*/|&]?= .*|\(.*\));", here):
        yield blank + ";"
        yield blank + "return 0;"  # does not compile where a struct is returned
    if here.startswith("if (") and here.endswith(")"):
        yield blank + "if (0)"


def run(command, folder, limit=None, hangs=None):
    def limit_time():
        if limit:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))

    try:
        return subprocess.run(command, cwd=folder, shell=True,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL,
                              preexec_fn=limit_time, timeout=hangs).returncode
    except subprocess.TimeoutExpired:
        return 124


class Tree:
    """A copy of the committed tree, which is built."""

    def __init__(self, folder):
        self.source = folder.resolve() / "source"
        self.build = self.source / "build"
        if not (self.build / "Makefile").exists():
            self.source.mkdir(parents=True, exist_ok=True)
            steps = [f"git -C {ROOT} archive HEAD | tar -x -C {self.source}",
                     f"cd {self.source} && autoreconf -fi",
                     f"mkdir -p {self.build} && cd {self.build} && "
                     "../configure CFLAGS='-O1 -g0' --disable-dependency-tracking"
                     " && make -j2 && make -j2 check TESTS="]
            for step in steps:
                if run(step, "."):
                    sys.exit(f"mutate.py: failed: {step}")
        self.environment = (f"top_srcdir={self.source} "
                            f"top_builddir={self.build} "
                            f"TENON_PLUGIN_PATH={self.build}/tenon-1 ")

    def tests(self, room):
        """Returns the commands that run the tests of a room, the shortest first."""
        folders, groups = ROOMS[room]
        programs = [f"tests/{f}/{p.name}" for f in folders
                    for p in sorted((self.build / "tests" / f).glob("test_*"))
                    if p.suffix == "" and p.is_file()]
        commands = [f"./{p}" for p in programs]
        samples = self.build / "tests/golden/samples"
        for group in groups:
            if (samples / group).is_dir():
                commands.append("./tests/golden/run "
                                f"tests/golden/samples/{group}/*.safetensors")
        timed = []
        for command in commands:
            begun = time.time()
            code = run(self.environment + command, self.build, LIMIT, 5 * LIMIT)
            if code in (0, 77):
                timed.append((time.time() - begun, command))
            else:
                print(f"left out, since it fails as it is: {command}")
        # A test hangs if it takes five times as long as without a fault.
        return [(command, max(LIMIT, 5 * took)) for took, command in sorted(timed)]

    def links(self, tests):
        return " ".join(t.split()[0][2:] for t, _ in tests)


def object_of(tree, path):
    """Returns a file's machine code as text, to compare it with another version."""
    objects = sorted(tree.build.glob(f"{path.parent}/**/*{path.stem}.o"))
    return [o.read_bytes() for o in objects]


def noticed(tree, tests):
    for test, hangs in tests:
        code = run(tree.environment + test, tree.build, LIMIT, hangs)
        if code not in (0, 77):
            return test, code
    return None, 0


def mutants(tree, room, count, seed):
    pristine = {}
    chance = random.Random(f"{room} {seed}")
    files = [p for p in sorted((tree.source / room).rglob("*.c"))]
    lines = [(p, n) for p in files for n in code_lines(p.read_text())]
    tests = tree.tests(room)
    build = ("make -j2 libtenon.la tn_cpu.la tenon-1/.stamp "
             f"{tree.links(tests)}")
    done = 0
    while done < count:
        path, number = chance.choice(lines)
        text = path.read_text()
        split = text.split("\n")
        may = sorted(set(changes(split[number])) - {split[number]})
        if not may:
            continue
        change = chance.choice(may)
        relative = path.relative_to(tree.source)
        before = pristine.setdefault(path, object_of(tree, relative))
        try:
            path.write_text("\n".join(split[:number] + [change] +
                                      split[number + 1:]))
            if run(build, tree.build, hangs=1800):
                continue
            if object_of(tree, relative) == before:
                continue
            done += 1
            test, code = noticed(tree, tests)
        finally:
            path.write_text(text)
        yield relative, number + 1, split[number], change, test, code
    run(build, tree.build)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default="mutants")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("rooms", nargs="*", metavar="ROOM")
    options = parser.parse_args()
    if options.list or not options.rooms:
        print("\n".join(ROOMS))
        return
    for room in options.rooms:
        if room not in ROOMS:
            parser.error(f"no room {room}; there are: {', '.join(ROOMS)}")
    tree = Tree(pathlib.Path(options.folder))
    for room in options.rooms:
        survivors = total = 0
        listing = pathlib.Path(options.folder) / (room.replace("/", "-") +
                                                  ".txt")
        with listing.open("w") as out:
            for where, line, old, new, test, code in mutants(
                    tree, room, options.count, options.seed):
                total += 1
                survivors += test is None
                told = f"noticed by {test} ({code})" if test else "SURVIVES"
                print(f"{where}:{line}: {told}", flush=True)
                out.write(f"{where}:{line}: {told}\n- {old.strip()}\n"
                          f"+ {new.strip()}\n\n")
                out.flush()
        print(f"{room}: {total - survivors} of {total} noticed", flush=True)


if __name__ == "__main__":
    main()
