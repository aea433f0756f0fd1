"""`python -m sot`: programs run as in plain Python, and `doctor` works even where sot does not."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import sot
from sot import _command, _report_files

pytestmark = pytest.mark.divided

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(sot.__file__)))


def python(*arguments, cwd=None, **variables):
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "GLOG_minloglevel": "2", **variables}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=100
    )


def same_as_python(*arguments, cwd=None):
    """Run a program with Python and with `python -m sot run`: exit code and output must be equal."""
    plain, traced = python(*arguments, cwd=cwd), python("-m", "sot", "run", *arguments, cwd=cwd)
    assert (traced.returncode, traced.stdout, traced.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    return traced


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def alone(tmp_path):
    """A folder that has only the package. The folder of an installed package also has Paddle."""
    os.symlink(os.path.join(FOLDER, "sot"), tmp_path / "sot")
    return tmp_path


MODEL = """
import paddle

class Model(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(3, 3)

    def forward(self, x):
        return paddle.nn.functional.relu(self.linear(x))

def step(model, batch):
    return model(batch["x"]).sum()

def described(n):
    return [n] * 3

paddle.seed(1)
model = Model()
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
for epoch in range(3):
    loss = step(model, {"x": paddle.ones([2, 3])})
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    described(epoch)
    print(loss.item())
"""
COUNTS = """
import sot
from sot import _command
seen = sot.stats()
print("counts", seen.translations, seen.graphs, seen.hits, seen.breaks, seen.fallbacks)
"""


def test_functions_that_are_given_tensors_are_translated(write):
    program = write("train.py", MODEL)
    expected = python(program).stdout
    traced = python("-m", "sot", "run", "--fail-on-break", write("counted.py", MODEL + COUNTS))
    assert traced.returncode == 0, traced.stderr
    losses, _, counts = traced.stdout.partition("counts ")
    assert losses == expected and counts.strip() == "1 1 2 {} {}"


def test_a_break_fails_if_asked(write):
    program = write("breaking.py", MODEL.replace("return paddle.nn", "print(x.numpy().sum()); return paddle.nn"))
    done = python("-m", "sot", "run", "--fail-on-break", program)
    assert done.returncode == 1 and "breaks:" in done.stderr and "breaking.py" in done.stderr
    assert python("-m", "sot", "run", program).returncode == 0


def test_a_program_finds_what_python_gives_it(write):
    write("beside.py", "here = __name__")
    program = write(
        "program.py",
        """
        import atexit, pickle, sys
        import beside
        class Kept: pass
        kept = pickle.loads(pickle.dumps(Kept()))
        print(type(kept) is Kept, sys.argv, sys.path[0], beside.here, sorted(globals()))
        print(type(__builtins__), __name__, __file__, __package__, __spec__, __doc__, __cached__, type(__loader__).__name__)
        atexit.register(lambda: print("left", Kept.__name__))
        def deep(n):
            if n: deep(n - 1)
            raise ValueError("mine")
        deep(2)
        """,
    )
    done = same_as_python(program, "--report", "x", "-m", "run")
    assert done.returncode == 1 and "deep(2)" in done.stderr and "sot" not in done.stderr.replace(str(program), "")


@pytest.mark.parametrize(
    "text, status",
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('said')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import atexit\natexit.register(print, 'left')\nraise KeyboardInterrupt", -signal.SIGINT),
        ("class Stop(KeyboardInterrupt): pass\nraise Stop", 1),
        ("import os\nprint('said', flush=True)\nos._exit(5)", 5),
        ("import sys\nsys.excepthook = lambda *error: print('own', error[0].__name__)\nx = 1 +", 1),
        ("import sys\nsys.excepthook = lambda *error: print('own', error[0].__name__)\n1 / 0", 1),
    ],
)
def test_a_program_leaves_as_it_does_in_python(write, text, status):
    assert same_as_python(write("leaving.py", text)).returncode == status


def test_modules_and_folders_run(write, tmp_path):
    write("package/__init__.py", "")
    write("package/__main__.py", "import sys; print(sys.argv, __name__, __package__, __spec__.name, sys.path[0])")
    same_as_python("-m", "package", "--fail-on-break", cwd=tmp_path)
    write("folder/__main__.py", "import sys; print(sys.argv, __name__, sys.path[0]); sys.exit(4)")
    assert same_as_python("folder", "x", cwd=tmp_path).returncode == 4


def test_a_run_says_where_its_report_is(write, tmp_path):
    program = write("train.py", MODEL)
    done = python("-m", "sot", "run", "--report", "out", program, cwd=tmp_path)
    index = tmp_path / "out" / "index.html"
    assert index.exists() and f"sot: report: {index}" in done.stderr
    assert done.stdout == python(program).stdout
    plain = write("plain.py", "print('nothing')")
    done = python("-m", "sot", "run", "--report", "none", plain, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "nothing\n")
    assert "nothing was translated" in done.stderr and not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "end, status",
    [
        ("import os, atexit\natexit.register(print, 'not run')\nos._exit(3)", 3),
        ("from os import _exit\n_exit(status=4)", 4),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os\nif os.fork():\n    os.wait()\nelse:\n    os._exit(0)\nos._exit(0)", 0),
        ("import os\nsot = __import__('sot')\nsot.symbolic_translate(lambda x: x * 2 and os._exit(7))(paddle.ones([1]))", 7),
    ],
)
def test_a_report_is_written_however_the_program_leaves(write, tmp_path, end, status):
    program = write("train.py", MODEL + end)
    done = python("-m", "sot", "run", "--report", "out", program, cwd=tmp_path)
    assert done.returncode == status and "not run" not in done.stdout
    assert (tmp_path / "out" / "index.html").exists(), done.stderr
    assert done.stderr.count("sot: report:") == 1
    assert len(list((tmp_path / "out").glob("process-*"))) == 1, "a fork that has translated nothing has no report"


def test_what_is_not_understood_is_said():
    for arguments, said in [
        ((), "a command is needed"),
        (("run",), "a script, or -m and a module"),
        (("run", "--verifies", "x.py"), "unrecognized arguments: --verifies"),
        (("runn",), "invalid choice"),
    ]:
        done = python("-m", "sot", *arguments)
        assert done.returncode == 2 and said in done.stderr
    done = python("-m", "sot", "run", "nowhere.py")
    assert done.returncode == 2 and "can't open file" in done.stderr


def test_wrong_arguments_are_shown_with_the_usage_of_their_command():
    for arguments in (("run",), ("run", "--verifies", "x.py")):
        with pytest.raises(SystemExit):
            _command.parse(list(arguments))
    done = python("-m", "sot", "run", "--verifies", "x.py")
    assert "usage: python -m sot run [--report DIR]" in done.stderr


def test_a_folder_for_reports_that_cannot_be_written_is_said_before_the_program_runs(write, tmp_path):
    program, file = write("train.py", "import sot\nprint('runs')"), write("file", "")
    for folder in (file, file / "inner"):
        done = python("-m", "sot", "run", "--report", folder, program)
        assert (done.returncode, done.stdout) == (2, "") and f"{file} is not a folder" in done.stderr
        done = python(program, SOT_REPORT=str(folder), PYTHONWARNINGS="default")
        assert (done.returncode, done.stdout) == (0, "runs\n") and f"there will be no report: {file} is not a folder" in done.stderr


def test_a_folder_in_which_nobody_can_write_is_said_before_the_program_runs(write):
    program = write("train.py", "import sot\nprint('runs')")
    for folder in ("/proc/reports", "/proc"):
        done = python("-m", "sot", "run", "--report", folder, program)
        assert (done.returncode, done.stdout) == (2, "") and "/proc cannot be written to: " in done.stderr
        done = python(program, SOT_REPORT=folder, PYTHONWARNINGS="default")
        assert (done.returncode, done.stdout) == (0, "runs\n")
        assert "there will be no report: /proc cannot be written to: " in done.stderr


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path):
    for folder in (tmp_path, tmp_path / "new" / "inner"):
        assert _report_files.problem_with(folder) is None
    assert not list(tmp_path.iterdir())


def test_an_empty_name_of_a_folder_is_an_error_of_usage(write):
    program = write("train.py", "print('runs')")
    for arguments in (("--report", ""), ("--report=",), ("--report", " ")):
        done = python("-m", "sot", "run", *arguments, program)
        assert (done.returncode, done.stdout) == (2, "") and "--report: the name of a folder is needed" in done.stderr


def test_the_minimiser_needs_a_script_and_says_where_it_cannot_write(write, tmp_path):
    done = python("-m", "sot", "minimise")
    assert done.returncode == 2 and "the following arguments are required: SCRIPT\n" in done.stderr
    assert "usage: python -m sot minimise [-o FILE] [--seconds SECONDS] SCRIPT [ARG ...]" in done.stderr
    assert "is no number of seconds above 0" in python("-m", "sot", "minimise", "--seconds", "0", "x.py").stderr
    script = write("train.py", "raise RuntimeError('runs')")
    for target in ("/proc/x/y.py", "/proc/y.py", tmp_path):
        done = python("-m", "sot", "minimise", "-o", target, script)
        assert done.returncode == 2 and f"{target} cannot be written: " in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and "runs" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_the_minimiser_says_why_there_is_no_difference(write, tmp_path):
    waits = write("waits.py", "import time; time.sleep(60)")
    raises = write("raises.py", "def f():\n    raise KeyError(3)\nf()")
    ends, leaves = write("ends.py", "x = 3"), write("leaves.py", "import sys; sys.exit('enough')")
    for script, arguments, said in [
        (waits, ["--seconds", "0.5"], "the run was stopped after 0.5 seconds, before its end; --seconds gives it more"),
        (raises, [], "verify mode finds no difference before the script fails (exit status 1):"),
        (raises, [], f'  File "{raises}", line 2, in f'),
        (raises, [], "  KeyError: 3"),
        (leaves, [], "  enough"),
        (ends, [], "verify mode finds no difference; `python -m sot run --verify` says what was compared"),
    ]:
        done = python("-m", "sot", "minimise", *arguments, script)
        assert done.returncode == 1 and said in done.stderr, done.stderr


def test_the_minimiser_says_what_it_cannot_read(write, tmp_path):
    for script in (tmp_path / "nowhere.py", write("broken.py", "def f(:"), tmp_path):
        done = python("-m", "sot", "minimise", script)
        assert done.returncode == 2 and f"{script} cannot be read as a Python script" in done.stderr
        assert "Traceback" not in done.stderr


def test_help_and_version_need_no_paddle(alone):
    for arguments, said in [(("--help",), "doctor"), (("run", "--help"), "--fail-on-break"), (("--version",), "sot ")]:
        done = python("-S", "-m", "sot", *arguments, PYTHONPATH=alone)
        assert done.returncode == 0 and said in done.stdout, done.stderr


def test_the_version_without_paddle_is_that_of_the_build(alone):
    done = python("-S", "-m", "sot", "--version", PYTHONPATH=alone)
    assert f"sot {sot.__version__} (Paddle that cannot be imported" in done.stdout, done.stdout


def test_the_doctor(alone):
    well = python("-m", "sot", "doctor")
    assert well.returncode == 0 and well.stdout.count("[ok]") == 6 and sot.__version__ in well.stdout
    ill = python("-m", "sot", "doctor", SOT_LOG_LEVL="1")
    assert ill.returncode == 1 and "did you mean SOT_LOG_LEVEL?" in ill.stdout
    without = python("-S", "-m", "sot", "doctor", PYTHONPATH=alone)
    assert without.returncode == 1 and "pip install paddlepaddle" in without.stdout and "Traceback" not in without.stderr


def test_the_doctor_on_an_interpreter_that_is_not_supported(write, tmp_path):
    # Python imports this module at start, and it replaces the version.
    write("sitecustomize.py", "import sys; sys.version_info = (3, 7, 1, 'final', 0)")
    done = python("-m", "sot", "doctor", PYTHONPATH=f"{tmp_path}{os.pathsep}{FOLDER}")
    assert done.returncode == 1 and "sot supports CPython 3.8 to 3.13 and this is 3.7" in done.stdout


def test_plugins_names_what_is_linked_in():
    done = python("-m", "sot", "plugins", "--all")
    assert done.returncode == 0
    for said in ("1 backend\n", "opcodes", "sot-variables", "list.append  sot-variables/src/", "paddle  sot-paddle/src/lib.rs:"):
        assert said in done.stdout


def test_who_reads_the_list_may_stop_early(monkeypatch):
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        _command.main(["plugins", "--all"])


def test_only_the_command_itself_is_run_as_one(write, tmp_path):
    write("other/__init__.py", "import sot")
    write("other/__main__.py", "import sot; print(sot.stats().hits)")
    done = python("-m", "other", "doctor", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "0\n")
