//! The state of the checkout's sources: its commit, and the contents of each file that git does not ignore. A command
//! that builds several artifacts compares two states, to be sure that all artifacts are built from the same sources.

use std::collections::hash_map::DefaultHasher;
use std::collections::BTreeMap;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

/// Number of changed files that a message names.
const NAMED: usize = 5;

/// The state of the sources at one time.
pub(crate) struct Sources {
    root: PathBuf,
    commit: String,
    /// A hash of each file's contents; `None` for a file that cannot be read, such as a deleted one.
    contents: BTreeMap<String, Option<u64>>,
}

impl Sources {
    /// Returns the present state; `None` if the folder is not in a checkout of git.
    pub(crate) fn of(root: &Path) -> Option<Sources> {
        let commit = git(root, &["rev-parse", "HEAD"])?.trim().to_owned();
        let files = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let files = files.split('\0').filter(|file| !file.is_empty());
        let contents = files.map(|file| (file.to_owned(), hash_of(&root.join(file)))).collect();
        Some(Sources { root: root.to_owned(), commit, contents })
    }

    /// Returns the files that differ from the commit, or that it does not have.
    pub(crate) fn uncommitted(&self) -> Vec<String> {
        let status = git(&self.root, &["status", "--porcelain", "--untracked-files=all"]).unwrap_or_default();
        status.lines().filter_map(|line| line.get(3..).map(str::to_owned)).collect()
    }

    /// Fails if the sources are no longer in this state.
    pub(crate) fn check_unchanged(&self) -> Result<(), Failure> {
        let now = Sources::of(&self.root).ok_or("the checkout of git is gone")?;
        let changed = self.changes(&now);
        if changed.is_empty() {
            return Ok(());
        }
        Err(format!(
            "The sources changed during the build ({}), so the files in target/dist would not be of one version.\n\
             Do not edit, commit or switch branches until the command has finished, and run it again.",
            shown(&changed)
        ))
    }

    fn changes(&self, now: &Sources) -> Vec<String> {
        let commit = (self.commit != now.commit).then(|| format!("commit {} instead of {}", now.commit, self.commit));
        let files = self.contents.keys().chain(now.contents.keys().filter(|file| !self.contents.contains_key(*file)));
        let differs = |file: &&String| self.contents.get(*file) != now.contents.get(*file);
        commit.into_iter().chain(files.filter(differs).cloned()).collect()
    }
}

/// Joins the first few names, and counts the others.
pub(crate) fn shown(names: &[String]) -> String {
    let first = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn hash_of(file: &Path) -> Option<u64> {
    let contents = fs::read(file).ok()?;
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    Some(hasher.finish())
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a checkout with one commit; `None` if git cannot be run.
    fn checkout(name: &str) -> Option<PathBuf> {
        let dir = std::env::temp_dir().join(format!("xtask-sources-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).ok()?;
        fs::write(dir.join("kept.rs"), "fn kept() {}").ok()?;
        fs::write(dir.join(".gitignore"), "target/\n").ok()?;
        git(&dir, &["init", "--quiet"])?;
        commit(&dir)?;
        Some(dir)
    }

    fn commit(dir: &Path) -> Option<String> {
        git(dir, &["add", "."])?;
        git(dir, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "state"])
    }

    #[test]
    fn changed_new_and_ignored_files_are_told_apart() {
        let Some(dir) = checkout("files") else { return };
        let before = Sources::of(&dir).expect("a checkout");
        assert_eq!(before.uncommitted(), Vec::<String>::new());
        fs::create_dir_all(dir.join("target")).and_then(|()| fs::write(dir.join("target/out"), "x")).expect("writable");
        assert_eq!(before.check_unchanged(), Ok(()));
        fs::write(dir.join("kept.rs"), "fn changed() {}").expect("writable");
        fs::write(dir.join("new.rs"), "").expect("writable");
        let failure = before.check_unchanged().expect_err("two files changed");
        assert!(failure.contains("(kept.rs, new.rs)"), "{failure}");
        let uncommitted = Sources::of(&dir).expect("a checkout").uncommitted();
        assert_eq!(uncommitted, ["kept.rs", "new.rs"]);
        let _ = fs::remove_dir_all(&dir);
    }

    #[test]
    fn another_commit_of_the_same_files_is_a_change() {
        let Some(dir) = checkout("commits") else { return };
        fs::write(dir.join("new.rs"), "").expect("writable");
        let before = Sources::of(&dir).expect("a checkout");
        commit(&dir).expect("a second commit");
        let failure = before.check_unchanged().expect_err("the commit changed");
        assert!(failure.contains("(commit ") && !failure.contains("new.rs"), "{failure}");
        let _ = fs::remove_dir_all(&dir);
    }

    #[test]
    fn a_long_list_of_files_is_cut() {
        let names: Vec<String> = (0..7).map(|number| format!("f{number}")).collect();
        assert_eq!(shown(&names), "f0, f1, f2, f3, f4 and 2 more");
    }
}
