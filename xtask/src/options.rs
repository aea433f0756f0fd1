//! The command line: one task, some interpreters, and arguments for the programs that the task runs.

use std::path::PathBuf;

use crate::python::Minor;

/// Printed by `cargo xtask help` and after a wrong command line.
pub(crate) const HELP: &str = "\
Usage: cargo xtask <command> [--python 3.x]... [-- arguments]

Commands:
  test    build the extension, run the Rust and Python tests; arguments go to pytest
  demo    translate ResNet-18 and a small GPT, compare with eager and with Paddle's own SOT
  bench   measure eager, Paddle's SOT, sot and the raw program; arguments go to benches/bench.py
  cpython-tests
          run CPython's own tests with their functions translated, and write docs/cpython-tests.md anew from what they came
          to; arguments are names of test files, of which nothing is written
  package-tests
          run the tests of pure-Python packages from PyPI with all their functions translated; arguments are names of
          packages, or none: then those of docs/package-tests.md, which is written anew
  number-sweep
          call all that takes a number with every number and element type, in eager mode and translated: --sample COUNT
          and --seed SEED choose some; what was stopped goes on. Arguments go to tests/number_sweep/run.py
  plugins build the plug-ins in plugins/ as somebody else's would be, and run their tests, and follow the how-tos of docs/ from
          an empty folder, on the newest Python or those asked for; arguments are names of folders there, and of pages
  lint    formatting, clippy, rustdoc, types of the Python package, and where `unsafe` may stand
  wheels  build the wheels and the source distribution into target/dist, audit them, and try each in an empty environment
  new-plugin NAME
          write the crate of a plug-in with tests, into a new folder by its name or --path DIR; with --empty, one that
          registers nothing yet
  wheel --plugin CRATE
          build a wheel of sot with plug-ins in it, for the newest Python found or each --python, into target/plugin-wheels;
          CRATE is the folder of a crate, or name@version of one on crates.io, and may be repeated; --name is the name of the
          distribution, sot-paddle by default
  docs    build the site into target/docs/site, with the output of its examples, and check links and spelling
  help    print this

Options:
  --python 3.x          the interpreter to use, 3.8 to 3.13; may be repeated. Default: every supported one found as
                        python3.x on PATH, below $PYENV_ROOT or ~/.pyenv, or as python3 (lint: the newest found)
  --only rust|python    run only that half of the tests
  --verify              run the Python tests in verify mode: each translated call beside the program's own run
  --release             run the Python tests on the wheel that users get, on each interpreter: as it is, the newest of several
                        has it, and the others what cargo builds for the Rust tests
  --docs                build the site, too, as `docs` does, with the newest interpreter that is tested
  --clean               delete an interpreter's environment and what was built for it once its tests are done: 3 GB of disk
                        at a time instead of 3 GB each";

/// The task to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Test,
    Demo,
    Bench,
    CpythonTests,
    PackageTests,
    NumberSweep,
    Plugins,
    Wheels,
    Wheel,
    NewPlugin,
    Lint,
    Docs,
    Help,
}

/// One half of the tests, selected by `--only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Rust,
    Python,
}

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Options {
    pub(crate) task: Task,
    /// The requested versions. If empty, every supported interpreter that is found.
    pub(crate) pythons: Vec<Minor>,
    pub(crate) only: Option<Half>,
    /// True if each interpreter's files are deleted after its tests.
    pub(crate) clean: bool,
    /// The plug-ins that a wheel includes.
    pub(crate) plugins: Vec<String>,
    /// The name of the wheel's distribution, or of a new plug-in.
    pub(crate) plugin_name: Option<String>,
    /// The folder in which a new plug-in is created.
    pub(crate) path: Option<PathBuf>,
    /// True if a new plug-in registers nothing.
    pub(crate) empty: bool,
    /// True if the Python tests run in verify mode.
    pub(crate) verify: bool,
    /// True if every interpreter tests the wheel that users get.
    pub(crate) release: bool,
    /// True if the site is built, too.
    pub(crate) docs: bool,
    /// The arguments behind `--`.
    pub(crate) passed_on: Vec<String>,
}

impl Options {
    /// Parses the arguments that follow the program's name.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let task = parse_task(args.next().as_deref())?;
        let mut options = Options::of(task);
        while let Some(arg) = args.next() {
            let (name, inline) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            let mut value = || inline.clone().or_else(|| args.next()).ok_or(format!("{name} needs a value"));
            match name {
                "--python" => options.add_python(&value()?)?,
                "--sample" | "--seed" if task == Task::NumberSweep => {
                    let value = value()?;
                    options.passed_on.extend([name.to_owned(), value]);
                }
                "--plugin" if task == Task::Wheel => options.plugins.push(value()?),
                "--name" if task == Task::Wheel => options.plugin_name = Some(value()?),
                "--path" if task == Task::NewPlugin => options.path = Some(value()?.into()),
                "--empty" if inline.is_none() && task == Task::NewPlugin => options.empty = true,
                "--only" => options.only = Some(parse_half(&value()?)?),
                "--verify" if inline.is_none() && task == Task::Test => {
                    options.verify = true;
                    options.only = Some(Half::Python);
                }
                "--release" if inline.is_none() && task == Task::Test => options.release = true,
                "--docs" if inline.is_none() && task == Task::Test => options.docs = true,
                "--clean" if inline.is_none() => options.clean = true,
                "--help" | "-h" => options.task = Task::Help,
                "--" => {
                    options.passed_on.extend(args);
                    break;
                }
                name if task == Task::NewPlugin && options.plugin_name.is_none() && !name.starts_with('-') => {
                    options.plugin_name = Some(name.to_owned());
                }
                _ => return Err(format!("unknown argument {arg}; what is meant for the tests comes after --")),
            }
        }
        Ok(options)
    }

    fn of(task: Task) -> Options {
        Options {
            task,
            pythons: Vec::new(),
            only: None,
            clean: false,
            verify: false,
            release: false,
            docs: false,
            plugins: Vec::new(),
            plugin_name: None,
            path: None,
            empty: false,
            passed_on: Vec::new(),
        }
    }

    fn add_python(&mut self, text: &str) -> Result<(), String> {
        let minor = Minor::parse(text)
            .ok_or_else(|| format!("--python {text}: give one of {}", Minor::list(Minor::supported())))?;
        if !self.pythons.contains(&minor) {
            self.pythons.push(minor);
        }
        Ok(())
    }
}

fn parse_task(word: Option<&str>) -> Result<Task, String> {
    match word {
        Some("test") => Ok(Task::Test),
        Some("demo") => Ok(Task::Demo),
        Some("bench") => Ok(Task::Bench),
        Some("cpython-tests") => Ok(Task::CpythonTests),
        Some("package-tests") => Ok(Task::PackageTests),
        Some("number-sweep") => Ok(Task::NumberSweep),
        Some("plugins") => Ok(Task::Plugins),
        Some("lint") => Ok(Task::Lint),
        Some("docs") => Ok(Task::Docs),
        Some("wheels") => Ok(Task::Wheels),
        Some("wheel") => Ok(Task::Wheel),
        Some("new-plugin") => Ok(Task::NewPlugin),
        Some("help" | "--help" | "-h") => Ok(Task::Help),
        Some(other) => Err(format!("unknown command {other}")),
        None => Err("which command?".to_owned()),
    }
}

fn parse_half(text: &str) -> Result<Half, String> {
    match text {
        "rust" => Ok(Half::Rust),
        "python" => Ok(Half::Python),
        _ => Err(format!("--only {text}: give rust or python")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn interpreters_repeat_and_the_rest_is_passed_on() {
        let options =
            parse("test --python 3.8 --python=3.12 --only python --docs --clean -- -k gpt --python").expect("valid");
        assert_eq!(options.pythons, [Minor(8), Minor(12)]);
        assert_eq!(options.only, Some(Half::Python));
        assert!(options.clean && options.docs);
        assert_eq!(options.passed_on, ["-k", "gpt", "--python"]);
    }

    #[test]
    fn the_sample_of_the_sweep_is_passed_on() {
        let options = parse("number-sweep --python 3.12 --sample 300 --seed=7 -- --breaks").expect("valid");
        assert_eq!(options.passed_on, ["--sample", "300", "--seed", "7", "--breaks"]);
        assert!(parse("test --sample 300").is_err());
    }

    #[test]
    fn plug_ins_repeat_and_a_new_one_has_a_name() {
        let options =
            parse("wheel --plugin ../maps --plugin=sot-masks@1.2 --name sot-more --python 3.12").expect("valid");
        assert_eq!(options.plugins, ["../maps", "sot-masks@1.2"]);
        assert_eq!(options.plugin_name.as_deref(), Some("sot-more"));
        let options = parse("new-plugin my-maps --path /tmp/maps").expect("valid");
        assert_eq!((options.plugin_name.as_deref(), &options.path), (Some("my-maps"), &Some("/tmp/maps".into())));
        assert!(!options.empty && parse("new-plugin my-maps --empty").expect("valid").empty);
        assert!(parse("new-plugin one two").is_err() && parse("test --plugin ../maps").is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, part) in [
            ("", "which command"),
            ("tset", "unknown command tset"),
            ("test --python", "needs a value"),
            ("test --python 3.7", "3.8, 3.9"),
            ("test -k gpt", "after --"),
            ("demo --docs", "unknown argument --docs"),
            ("demo --verify", "unknown argument --verify"),
            ("test --clean=yes", "unknown argument --clean=yes"),
            ("test --only all", "rust or python"),
        ] {
            let message = parse(line).expect_err(line);
            assert!(message.contains(part), "{line}: {message}");
        }
    }
}
