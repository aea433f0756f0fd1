"""Calls everything that takes a number with every number and element type, in eager mode and translated.

    python tests/number_sweep/run.py [--only TEXT] [--sample COUNT [--seed SEED]] [--dtype TYPE] [--json FILE] [--keep FILE]

A translated call must give eager mode's bits and element type, or raise an exception of its type. Each number is tried where it is
known to the program (`known`), where it has differed from call to call before (`changing`), and where the operations of a
graph are run one by one (`replayed`). Prints the counts, and each case that differs; the exit status is 1 if one does.
Child processes do the work, since some of eager mode's own calls end the process. `cargo xtask number-sweep` runs it, and goes on where
it was stopped.
"""

import argparse
import collections
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Cases that differ, by place and element type. They are listed, and are no failure.
KNOWN = {
    ("paddle.nn.functional.elu(alpha)", "bfloat16"): "2**31 is refused in eager mode only",
    ("paddle.nn.functional.pad(value)", "bfloat16"): "Paddle 3.0 refuses it in eager mode only",
}

MODES = ("known", "changing", "replayed")
# Translated before a number of this kind is tried where numbers change.
BEFORE = {int: (3, 4), float: (0.3, 0.7)}
# Where these raise, the element type is nothing that is taken there.
PROBES = ("0", "1", "0.1", "True")
SECONDS = 120  # A case that takes longer hangs.
PART = 500  # So many groups of cases are done before what they came to is kept.


def outcome(call, args, number):
    """What a call gives, as something that can be compared: bits, element types, shapes, or the type of the exception."""
    try:
        return told(call(*args, number))
    except Exception as error:
        return type(error).__name__


def told(value):
    import paddle

    if isinstance(value, paddle.Tensor):
        if value.is_sparse():
            value = value.to_dense()
        exact = value.astype("float32") if value.dtype == paddle.bfloat16 else value
        array = exact.detach().numpy()
        if array.dtype.kind in "fc":
            array = array.copy()
            array[array != array] = float("nan")  # Any NaN will do.
        return str(value.dtype), tuple(value.shape), array.tobytes()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(told, value))
    if isinstance(value, dict):
        return tuple((key, told(item)) for key, item in value.items())
    return type(value).__name__, repr(value)


def shown(told):
    """A text of an outcome."""
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


class Worker:
    """Runs cases `(place, dtype, mode, numbers)` in a process of its own and writes what became of each."""

    def __init__(self, progress):
        import warnings

        warnings.simplefilter("ignore")
        import cases
        import sot

        self.sot, self.cases, self.places, self.progress = sot, cases, cases.places(), progress

    def note(self, at, what, **more):
        self.progress.write(json.dumps(dict(more, at=at, what=what)) + "\n")
        self.progress.flush()

    def run(self, cases, start):
        for at, case in enumerate(cases):
            if at >= start:
                self.group(at, *case)
        self.note(len(cases), "done")

    def group(self, at, name, dtype, mode, labels, skip=()):
        place = self.places[name]
        os.environ["MIN_GRAPH_SIZE"] = "1000" if mode == "replayed" else "0"
        self.note(at, "begins")
        try:
            place.make(dtype)
        except Exception:
            return  # There are no such arguments.
        translated = None
        if len(labels) > len(PROBES) and all(self.is_refused(place, dtype, label) for label in PROBES):
            labels = [label for label in labels if label in PROBES]  # Such tensors are not taken at all.
        for label in labels:
            number = self.cases.NUMBERS[label]
            self.note(at, "eager", label=label)
            expected = outcome(place.call, place.make(dtype), number)
            self.note(at, "translated", label=label)
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
                self.note(at, "different", label=label, text=f"{shown(got)} instead of {shown(expected)}")
            elif isinstance(expected, str):
                self.note(at, "raises")
            else:
                self.note(at, "broken" if broken else "equal", label=label, text="; ".join(broken))

    def left(self):
        """What has been left to CPython, by reason."""
        return collections.Counter(self.sot.stats().breaks) + collections.Counter(self.sot.stats().fallbacks)

    def is_refused(self, place, dtype, label):
        return isinstance(outcome(place.call, place.make(dtype), self.cases.NUMBERS[label]), str)


def work(cases_file, start, skip, progress_file):
    with open(progress_file, "a") as progress:
        worker = Worker(progress)
        cases = json.loads(Path(cases_file).read_text())
        if skip:
            # What ended the process before is left out.
            name, dtype, mode, labels = cases[start]
            cases[start] = (name, dtype, mode, labels[labels.index(skip) + 1 :])
        worker.run(cases, start)


def run(cases, breaks=False):
    """Outcomes of cases: counts, and the different ones as `(place, dtype, mode, label, text)`."""
    counts, different = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        cases_file, progress_file = Path(folder, "cases"), Path(folder, "progress")
        cases_file.write_text(json.dumps(cases))
        start, skip, ended = 0, "", None
        while True:
            progress_file.write_text("")
            arguments = ["--work", str(cases_file), str(start), skip, str(progress_file)]
            environment = dict(os.environ, GLOG_minloglevel="4", OMP_NUM_THREADS="1")
            child = subprocess.Popen(
                [sys.executable, __file__, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            watch(child, progress_file)
            last = None
            for line in progress_file.read_text().splitlines():
                last = json.loads(line)
                what = last["what"]
                if what == "different":
                    different.append((*cases[last["at"]][:3], last["label"], last["text"]))
                    print(*different[-1][:4], different[-1][4][:300], sep=" | ", flush=True)
                if what == "broken" and breaks:
                    print("broken", *cases[last["at"]][:3], last["label"], last["text"], sep=" | ", flush=True)
                if what in ("different", "raises", "broken", "equal"):
                    counts[what] += 1
            if last is None:
                raise RuntimeError("the child process did not start")
            if last["what"] == "done":
                break
            start, skip = last["at"], last.get("label", "")
            name, dtype, mode, _ = cases[start]
            if last["what"] == "translated":
                counts["different"] += 1
                different.append((name, dtype, mode, skip, "the translated call ends the process"))
                print(*different[-1], sep=" | ", flush=True)
            elif last["what"] in ("eager", "begins"):
                counts["eager mode ends the process"] += 1
                # A second time in one place: there will be more.
                start, skip, ended = (start + 1, "", None) if not skip or ended == start else (start, skip, start)
            else:
                start, skip = start + 1, ""
    return counts, different


def watch(child, progress_file):
    size, since = -1, time.time()
    while child.poll() is None:
        time.sleep(0.2)
        now = progress_file.stat().st_size
        if now != size:
            size, since = now, time.time()
        elif time.time() - since > SECONDS:
            child.kill()


def run_in_parts(cases, options):
    """The same, going on behind the parts that the file has."""
    counts, different = collections.Counter(), []
    name = hashlib.sha256(json.dumps(cases).encode()).hexdigest()
    done = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.is_file() else []
    done = [part for part in done if part["cases"] == name]
    parts = range(0, len(cases), PART)
    if len(done) == len(parts):
        done = []  # It has been run to the end: once more.
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
    """The cases that the options ask for: `(place, dtype, mode, numbers)`."""
    import cases

    groups, asked = [], options.number.split(",")
    for name, place in cases.places().items():
        if options.only not in name:
            continue
        for dtype in [options.dtype] if options.dtype else cases.DTYPES:
            for mode in MODES if not options.mode else [options.mode]:
                numbers = place.numbers(dtype, mode)
                groups.append((name, dtype, mode, [label for label in numbers if label in asked or not options.number]))
    if options.sample:
        each = [(*group[:3], [label]) for group in groups for label in group[3]]
        each = random.Random(options.seed).sample(each, min(options.sample, len(each)))
        return each
    return groups


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="only places with this in their names")
    parser.add_argument("--dtype", help="only this element type")
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--number", default="", help="only these numbers, as `cases.py` names them, with commas between")
    parser.add_argument("--breaks", action="store_true", help="list the cases that end a graph, with the reason")
    parser.add_argument("--sample", type=int, help="so many cases, chosen by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the cases that differ")
    parser.add_argument("--keep", type=Path, help="a file that keeps what was done; with the same options it goes on from there")
    options = parser.parse_args()
    cases = chosen(options)
    counts, different = run_in_parts(cases, options) if options.keep else run(cases, options.breaks)
    if options.json:
        options.json.write_text("\n".join(map(json.dumps, different)))
    print(f"seed {options.seed}:", told_counts(counts))
    sys.exit(1 if any(case[:2] not in KNOWN for case in different) else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        main()
