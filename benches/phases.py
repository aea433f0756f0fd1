"""How many instructions a warm translation takes, by phase, counted by callgrind: the simulation itself, Paddle building
statements meanwhile, ending the trace (Paddle compiles the program there), and the guards.

`cargo xtask bench --python 3.12 -- --phases` runs this and prints a table. Each function is translated three times before the
one that is counted, so that what is looked up once is known, but for the case that is the first one of its process. A phase is what the functions below take with all that they call; the
simulation is the run of the outermost frame without what the builder of statements takes. `sot.stats().seconds` tells the
same phases apart by the clock (`simulate`, `build`, `compile`). Needs valgrind.
"""

import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import count

FIRST = "ResNet-18, the first of the process"
CASES = ["ResNet-18", FIRST, "GPT block", "a chain of 1,000 operations", "pure Python"]

BUILDER = r"<.*PaddleBuilder as .*GraphBuilder>::(call|input|parameter|number|array|value_meta)$"
PHASES = {
    "frames": r"(OpcodeExecutor>?|inline)::run_frame(_from)?$",
    "build": BUILDER,
    "end of the trace": r"trace::end_at_return$",
    "guards": r"Guards::compile$",
}


def inclusive(file):
    """Instructions of calls from other functions, by callee."""
    names, found, current, callee, calls = {}, collections.Counter(), None, None, False
    for line in file:
        kind, _, rest = line.rstrip("\n").partition("=")
        if kind in ("fn", "cfn"):
            number, _, name = rest.partition(" ")
            name = names.setdefault(number, re.sub(r"::h[0-9a-f]{16}", "", name))
            current, callee = (name, callee) if kind == "fn" else (current, name)
        elif kind == "calls":
            calls = True
        elif calls and re.match(r"[+\-*\d]", line):
            if callee != current:
                found[callee] += int(line.split()[1])
            calls = False
    return found


def phase(found, pattern):
    """Instructions of a phase: of the outermost function that its pattern fits, where one calls the other."""
    fitting = [n for name, n in found.items() if re.search(pattern, name)]
    return sum(fitting) if pattern == BUILDER else max(fitting, default=0)


def chain(x):
    for _ in range(1000):
        x = x + 1.0
    return x


def pure_python(x, words=("one", "two", "three", "four")):
    """Loops over numbers, texts and dicts around one operation."""
    total, seen, names = 0, {}, []
    for i in range(40):
        total = total + i * 2 if i % 3 == 0 else total - 1
        word = words[i % len(words)]
        seen[word] = seen.get(word, 0) + 1
    for word, count_of in seen.items():
        names.append(f"{word}={count_of}")
        total += count_of
    return x * (total + len(",".join(names)))


def target_of(case):
    """The function of a case and its argument."""
    import bench
    import paddle

    if case in FUNCTIONS:
        return FUNCTIONS[case], paddle.randn([4, 4])
    body, x = bench.CASES[case.split(",")[0]]()
    body.eval()
    return bench.as_function(body), x


FUNCTIONS = {"a chain of 1,000 operations": chain, "pure Python": pure_python}


def translate(folder, case):
    """Translates a model under callgrind, which notes the last translation; this is the process that callgrind watches."""
    import bench
    import paddle

    import sot

    paddle.seed(0)
    with paddle.no_grad():
        bench.warm_up()
        target, x = target_of(case)
        sot._sot.reset()
        for _ in range(0 if case == FIRST else 3):
            sot.symbolic_translate(target)(x)
            sot._sot.reset()
        count.control("--instr=on")
        sot.symbolic_translate(target)(x)
        count.control("--instr=off")
    print(sot._sot.stats()["instructions"])


def counted(case):
    """The bytecode instructions of a case, and what its phases take."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out.%p"]
        command += [sys.executable, os.path.abspath(__file__), folder, case]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed ({done.returncode})")
        found = collections.Counter()
        for name in glob.glob(f"{folder}/out.*"):
            with open(name, errors="replace") as file:
                found.update(inclusive(file))
    return int(done.stdout.split()[-1]), {name: phase(found, pattern) for name, pattern in PHASES.items()}


def main():
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed; on Debian: apt-get install valgrind")
    print("| case | bytecode instructions | simulation | an instruction | Paddle builds | end of the trace | guards |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        steps, taken = counted(case)
        own = taken["frames"] - taken["build"]
        cells = [f"{steps:,}", f"{own:,}", f"{own // steps:,}"]
        cells += [f"{taken[name]:,}" for name in ("build", "end of the trace", "guards")]
        print(f"| {case} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        translate(*sys.argv[1:])
    else:
        main()
