"""How many instructions a warm translation takes, by phase, counted by callgrind: the simulation itself, Paddle building
statements meanwhile, ending the trace (Paddle compiles the program there), and the guards.

`cargo xtask bench --python 3.12 -- --phases` runs this and prints a table. Each model is translated three times before the one
that is counted, so that what is looked up once is known. A phase is what the functions below take with all that they call; the
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

CASES = ["ResNet-18", "GPT block"]

BUILDER = r"<.*PaddleBuilder as .*GraphBuilder>::(call|input|parameter|number|array)$"
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


def translate(folder, case):
    """Translates a model under callgrind, which notes the last translation; this is the process that callgrind watches."""
    import bench
    import paddle

    import sot

    paddle.seed(0)
    with paddle.no_grad():
        bench.warm_up()
        body, x = bench.CASES[case]()
        body.eval()
        target = bench.as_function(body)
        for _ in range(3):
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
