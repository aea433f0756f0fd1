//! Runs other programs: quietly, with a log that is shown only on failure; openly, with lines that are shown and
//! kept; or beside an open step.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{workspace, Failure};

/// Interval at which a quiet step reports that it is still running.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Time after which tests are considered to hang and are stopped. They normally need a third of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Number of lines that are shown of a failed step's log.
const SHOWN_LINES: usize = 60;

/// Runs a step whose output matters only if it fails. The output goes to a log file in `target/xtask-logs`.
pub(crate) fn quietly(what: &str, command: &mut Command) -> Result<Duration, Failure> {
    let started = Instant::now();
    println!("[{what}] …");
    let log = workspace::target().join("xtask-logs").join(log_name(what));
    let status = spawn_logged(command, &log).and_then(|child| wait_with_heartbeat(what, child, started, Duration::MAX));
    let taken = started.elapsed();
    match status {
        Ok(status) if status.success() => {
            println!("[{what}] done in {:.1} s", taken.as_secs_f64());
            Ok(taken)
        }
        Ok(status) => Err(format!("[{what}] failed ({status}); the end of {}:\n{}", log.display(), tail(&log))),
        Err(error) => Err(cannot_run(what, command)(error)),
    }
}

/// A finished command, with the lines that were shown.
pub(crate) struct Shown {
    pub(crate) status: ExitStatus,
    /// The lines of standard output.
    pub(crate) lines: Vec<String>,
    pub(crate) taken: Duration,
}

/// Runs a step with visible output, and keeps the lines of standard output.
pub(crate) fn openly(what: &str, command: &mut Command) -> Result<Shown, Failure> {
    openly_for(what, command, Duration::MAX)
}

/// As [`openly`], with a time limit.
pub(crate) fn openly_for(what: &str, command: &mut Command, limit: Duration) -> Result<Shown, Failure> {
    let started = Instant::now();
    println!("[{what}] …");
    let failed = cannot_run(what, command);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(&failed)?;
    let (out, process) = (child.stdout.take(), child.id());
    let lines = thread::scope(|scope| {
        let (done, waits) = mpsc::channel::<()>();
        scope.spawn(move || {
            if waits.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                stop(what, process, limit);
            }
        });
        let lines = out.map(shown_lines).unwrap_or_default();
        drop(done);
        lines
    });
    let status = child.wait().map_err(&failed)?;
    Ok(Shown { status, lines, taken: started.elapsed() })
}

/// Prints each line as it arrives, and returns all lines.
fn shown_lines(out: impl Read) -> Vec<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        lines.push(line);
    }
    lines
}

/// Kills a process that exceeds its time limit, and its child processes.
fn stop(what: &str, process: u32, limit: Duration) {
    println!("[{what}] stopped: not done after {} minutes", limit.as_secs() / 60);
    let process = process.to_string();
    let _ = Command::new("pkill").args(["-KILL", "-P", &process]).status();
    let _ = Command::new("kill").args(["-KILL", &process]).status();
}

/// Runs a step concurrently with an open one, for at most [`LIMIT`]. Its output is shown as a whole at the end.
pub(crate) fn beside(what: &str, command: &mut Command) -> Result<Shown, Failure> {
    let started = Instant::now();
    println!("[{what}] …");
    let failed = cannot_run(what, command);
    let log = workspace::target().join("xtask-logs").join(log_name(what));
    let child = spawn_logged(command, &log).map_err(&failed)?;
    let status = wait_with_heartbeat(what, child, started, LIMIT).map_err(&failed)?;
    let taken = started.elapsed();
    let lines = lines_of(&log);
    println!("[{what}] done in {:.1} s\n{}", taken.as_secs_f64(), lines.join("\n"));
    Ok(Shown { status, lines, taken })
}

fn cannot_run(what: &str, command: &Command) -> impl Fn(std::io::Error) -> Failure {
    let (what, program) = (what.to_owned(), command.get_program().to_string_lossy().into_owned());
    move |error| format!("[{what}] cannot run {program}: {error}")
}

fn log_name(what: &str) -> String {
    let name: String = what.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("{name}.log")
}

fn spawn_logged(command: &mut Command, log: &Path) -> std::io::Result<Child> {
    if let Some(dir) = log.parent() {
        fs::create_dir_all(dir)?;
    }
    let out = File::create(log)?;
    let err = out.try_clone()?;
    command.stdin(Stdio::null()).stdout(out).stderr(err).spawn()
}

fn wait_with_heartbeat(what: &str, mut child: Child, started: Instant, limit: Duration) -> std::io::Result<ExitStatus> {
    let mut next = HEARTBEAT;
    let mut stopped = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() >= next {
            println!("[{what}] at work for {} s", next.as_secs());
            next += HEARTBEAT;
        }
        if !stopped && started.elapsed() >= limit {
            stop(what, child.id(), limit);
            stopped = true;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn tail(log: &Path) -> String {
    let lines = lines_of(log);
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

fn lines_of(log: &Path) -> Vec<String> {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
