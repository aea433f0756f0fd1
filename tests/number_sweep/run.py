"""Calls everything that takes a number with every number and element type, in eager mode and translated.

    python tests/number_sweep/run.py [--only TEXT] [--sample COUNT [--seed SEED]] [--dtype TYPE] [--json FILE] [--keep FILE]

A translated call must give eager mode's bits and element type, or raise an exception of its type. Each number is tried where it is
known to the program (`known`), where it has differed from call to call before (`changing`), and where the operations of a
graph are run one by one (`replayed`). Prints the counts, and each case that differs; the exit status is 1 if one does.
A group of cases has one place, element type and mode. Known numbers that eager mode takes are tried in one program first, each
a constant of its own statement; if that breaks or gives anything else, each is tried alone.
Child processes do the work, since some of eager mode's own calls end the process, or take more memory than a case may have.
`cargo xtask number-sweep` runs it, and goes on where it was stopped.
"""

import argparse
import collections
import hashlib
import itertools
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

MODES = ("known", "changing", "replayed")
# In mode `changing`, calls with these numbers come before a number of this type is tried.
BEFORE = {int: (3, 4), float: (0.3, 0.7)}
# If all of these raise, the place does not accept the element type.
PROBES = ("0", "1", "0.1", "True")
SECONDS = 120  # A case that takes longer is considered to hang,
COMPUTED = 5  # and so is a case that uses this many seconds of CPU time.
MEMORY = 3 << 30  # Bytes that a case may use in addition to the libraries.
ENDLESS = "skipped: eager mode does not end"
NO_MEMORY = "more memory than a case may have"
PART = 100  # Number of groups of cases whose outcomes are saved together.


def outcome(call, args, number):
    """Return the outcome of a call in comparable form: bits, element types, shapes, or the type of the exception."""
    try:
        return told(call(*args, number))
    except Exception as error:
        if isinstance(error, MemoryError) or re.search("[Aa]lloc|ResourceExhausted", str(error)):
            return NO_MEMORY
        return type(error).__name__


def together(call):
    """Return a function that takes a list of numbers, and calls `call` with each of them."""

    def calls(*given):
        *args, numbers = given
        return [call(*args, number) for number in numbers]

    return calls


def told(value):
    import paddle

    if isinstance(value, paddle.Tensor):
        if value.is_sparse():
            value = value.to_dense()
        exact = value.astype("float32") if value.dtype == paddle.bfloat16 else value
        array = exact.detach().numpy()
        if array.dtype.kind in "fc":
            array = array.copy()
            array[array != array] = float("nan")  # All NaNs count as equal.
        return str(value.dtype), tuple(value.shape), array.tobytes()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(told, value))
    if isinstance(value, dict):
        return tuple((key, told(item)) for key, item in value.items())
    return type(value).__name__, repr(value)


def shown(told):
    """Return an outcome as text."""
    import numpy

    if isinstance(told, str):
        return f"raises {told}"
    if len(told) == 3 and isinstance(told[2], bytes):
        name = told[0].replace("paddle.", "")
        array = numpy.frombuffer(told[2], "float32" if name == "bfloat16" else name)
        return f"{name}{list(told[1])} {array.tolist()[:6]}"
    if len(told) == 2 and isinstance(told[1], tuple):
        return ", ".join(map(shown, told[1]))
    return str(told)


class Stand:
    """The progress of the run: the next group, and its remaining numbers."""

    def __init__(self, at, labels):
        self.at, self.labels = at, list(labels)
        self.dead = set()  # Numbers with which eager mode ends the process.
        self.alone = False  # True if each number is tried alone.

    def without(self, labels):
        self.labels = [label for label in self.labels if label not in labels]


class Worker:
    """Runs groups of cases `(place, dtype, mode, numbers)` and writes the outcome of each."""

    def __init__(self, progress):
        import cases
        import sot

        self.sot, self.cases, self.places, self.progress, self.at = sot, cases, cases.places(), progress, 0

    def note(self, what, *labels, **more):
        """Write which numbers of the group come next, or what their outcome is."""
        self.progress.write(json.dumps(dict(more, at=self.at, what=what, labels=labels)) + "\n")
        self.progress.flush()

    def run(self, groups, stand):
        for self.at in range(stand.at, len(groups)):
            limit_memory()
            name, dtype, mode, labels = groups[self.at]
            self.note("begins")
            here = stand if self.at == stand.at else Stand(self.at, labels)
            self.group(self.places[name], dtype, mode, here)
        self.at = len(groups)
        self.note("done")

    def group(self, place, dtype, mode, stand):
        os.environ["MIN_GRAPH_SIZE"] = "1000" if mode == "replayed" else "0"
        try:
            place.make(dtype)
        except Exception:
            return  # There are no such arguments.
        labels, known = stand.labels, {}

        def eager(label):
            if label not in known:
                self.note("eager", label)
                known[label] = outcome(place.call, place.make(dtype), self.cases.NUMBERS[label])
            return known[label]

        if not stand.alone and len(labels) > 1:
            if all(isinstance(eager(label), str) for label in PROBES if label not in stand.dead):
                labels = [label for label in labels if label in PROBES]  # The place does not accept such tensors.
                self.note("todo", *labels)
            given = [label for label in labels if not isinstance(eager(label), str)] if mode != "changing" else []
            if len(given) > 1:
                self.note("together", *given)
                if self.is_equal_together(place, dtype, given, [known[label] for label in given]):
                    self.note("equal", *given)
                    labels = [label for label in labels if label not in given]
        self.each(place, dtype, mode, labels, eager)

    def is_equal_together(self, place, dtype, labels, expected):
        """Return whether one graph with all numbers has the results of eager mode for each, without a break."""
        self.sot.reset()
        numbers = [self.cases.NUMBERS[label] for label in labels]
        got = outcome(self.sot.symbolic_translate(together(place.call)), place.make(dtype), numbers)
        return got == ("list", tuple(expected)) and not self.left()

    def each(self, place, dtype, mode, labels, eager):
        """Try each number separately, or after other numbers of its type."""
        translated = None
        for label in labels:
            number = self.cases.NUMBERS[label]
            expected = eager(label)
            if expected == NO_MEMORY:
                self.note(f"skipped: {NO_MEMORY}", label)
                continue
            self.note("translated", label)
            kind = type(number)
            if mode != "changing" or translated is not kind:
                self.sot.reset()
                fast, translated = self.sot.symbolic_translate(place.call), kind
                if mode == "changing":
                    for earlier in BEFORE[kind]:
                        outcome(fast, place.make(dtype), earlier)
            before = self.left()
            got = outcome(fast, place.make(dtype), number)
            broken = self.left() - before
            if got != expected:
                self.note("different", label, text=f"{shown(got)} instead of {shown(expected)}")
            elif isinstance(expected, str):
                self.note("raises", label)
            else:
                self.note("broken" if broken else "equal", label, text="; ".join(broken))

    def left(self):
        """Return the counts of breaks and fallbacks, by reason."""
        return collections.Counter(self.sot.stats().breaks) + collections.Counter(self.sot.stats().fallbacks)


def limit_memory():
    """Limit the memory that the process may use in addition. Paddle does not release the stacks of its threads."""
    taken = int(re.search(r"VmData:\s*(\d+)", Path("/proc/self/status").read_text()).group(1)) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (taken + MEMORY, resource.RLIM_INFINITY))


def child(work, progress_file):
    """Start a process that does the work and writes its progress. Return its id."""
    sys.stdout.flush()
    number = os.fork()
    if number:
        return number
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("ignore")
        with open(progress_file, "a") as progress:
            try:
                work(Worker(progress))
            except BaseException:
                failed = {"what": "failed", "at": 0, "labels": [], "text": traceback.format_exc()}
                progress.write(json.dumps(failed) + "\n")
    finally:
        os._exit(0)


def run(groups, breaks=False):
    """Return the counts of outcomes, and the cases that differ as `(place, dtype, mode, label, text)`."""
    counts, different, groups = collections.Counter(), [], list(groups)

    def count(what, at, labels, text=""):
        counts[what] += len(labels)
        for label in labels:
            if what == "different":
                different.append((*groups[at][:3], label, text))
            if what == "different" or what == "broken" and breaks:
                print(what, *groups[at][:3], label, text[:300], sep=" | ", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        progress_file = Path(folder, "progress")
        stand = Stand(0, groups[0][3] if groups else ())
        while stand.at < len(groups):
            progress_file.write_text("")
            ends = watch(child(lambda worker: worker.run(groups, stand), progress_file), progress_file)
            told = None
            for line in progress_file.read_text().splitlines():
                told = json.loads(line)
                what, at, labels = told["what"], told["at"], told["labels"]
                if what == "failed":
                    raise RuntimeError(told["text"])
                if at != stand.at:
                    stand = Stand(at, groups[at][3] if at < len(groups) else ())
                if what in ("different", "raises", "broken", "equal") or what.startswith("skipped"):
                    count(what, at, labels, told.get("text", ""))
                    stand.without(labels)
                    stand.alone = True
                elif what == "todo":
                    stand.labels = labels
            if told is None:
                raise RuntimeError("the child process did not start")
            if what == "together":
                stand.alone = True
            elif what == "translated":
                count("different", at, labels, "the translated call ends the process")
                stand.without(labels)
            elif what == "eager":
                what = "eager mode ends the process" if ends else ENDLESS
                count(what, at, [label for label in labels if label in stand.labels])
                stand.dead.update(labels)
                stand.without(labels)
                if not ends:
                    # The same holds for other element types, so these cases are skipped.
                    for later in range(at + 1, len(groups)):
                        name, dtype, mode, numbers = groups[later]
                        if name == groups[at][0]:
                            count(ENDLESS, later, [label for label in numbers if label in labels])
                            groups[later] = (name, dtype, mode, [label for label in numbers if label not in labels])
            elif what != "done":
                count("eager mode ends the process", at, stand.labels)
                stand = Stand(at + 1, groups[at + 1][3] if at + 1 < len(groups) else ())
    return counts, different


def watch(number, progress_file):
    """Wait for a process, and end it if it writes nothing for long. Return whether it has ended by itself."""
    size, since, computed = -1, time.time(), 0.0
    while os.waitpid(number, os.WNOHANG) == (0, 0):
        time.sleep(0.05)
        now = progress_file.stat().st_size
        if now != size:
            size, since, computed = now, time.time(), seconds_of(number)
        elif time.time() - since > SECONDS or seconds_of(number) - computed > COMPUTED:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
            return False
    return True


def seconds_of(number):
    """Return the CPU time of a process, in seconds."""
    fields = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_in_parts(cases, options):
    """Run all parts, except those whose outcomes are already in the file."""
    counts, different = collections.Counter(), []
    name = hashlib.sha256(json.dumps(cases).encode()).hexdigest()
    done = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.is_file() else []
    done = [part for part in done if part["cases"] == name]
    parts = range(0, len(cases), PART)
    if len(done) == len(parts):
        done = []  # The earlier run is complete, so everything is run again.
    options.keep.write_text("".join(json.dumps(part) + "\n" for part in done))
    for part in done:
        counts.update(part["counts"])
        different += map(tuple, part["different"])
    for start in parts[len(done) :]:
        new, others = run(cases[start : start + PART], options.breaks)
        counts.update(new)
        different += others
        with options.keep.open("a") as kept:
            kept.write(json.dumps({"cases": name, "counts": new, "different": others}) + "\n")
        print(f"{min(start + PART, len(cases))} of {len(cases)} groups:", told_counts(counts), flush=True)
    return counts, different


def told_counts(counts):
    return f"{sum(counts.values())} cases: " + ", ".join(f"{n} {what}" for what, n in counts.items())


def chosen(options):
    """The cases that the options ask for: `(place, dtype, mode, numbers)`. What is imported here, all child processes have."""
    import cases
    import sot  # noqa: F401

    groups, asked = [], options.number.split(",")
    for name, place in cases.places().items():
        if options.only not in name:
            continue
        for dtype in [options.dtype] if options.dtype else cases.DTYPES:
            for mode in MODES if not options.mode else [options.mode]:
                numbers = [label for label in place.numbers(dtype, mode) if label in asked or not options.number]
                if numbers:
                    groups.append((name, dtype, mode, numbers))
    if options.sample:
        random.Random(options.seed).shuffle(groups)
        counts = itertools.accumulate(len(group[3]) for group in groups)
        return [group for group, count in zip(groups, counts) if count <= options.sample]
    return groups


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="only places with this in their names")
    parser.add_argument("--dtype", help="only this element type")
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--number", default="", help="only these numbers, as `cases.py` names them, with commas between")
    parser.add_argument("--breaks", action="store_true", help="list the cases that end a graph, with the reason")
    parser.add_argument("--sample", type=int, help="whole groups of at most so many cases, chosen by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the cases that differ")
    parser.add_argument("--keep", type=Path, help="a file that keeps what was done; with the same options it goes on from there")
    options = parser.parse_args()
    os.environ.update(GLOG_minloglevel="4", OMP_NUM_THREADS="1")
    warnings.simplefilter("ignore")
    cases = chosen(options)
    counts, different = run_in_parts(cases, options) if options.keep else run(cases, options.breaks)
    if options.json:
        options.json.write_text("\n".join(map(json.dumps, different)))
    print(f"seed {options.seed}:", told_counts(counts))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
