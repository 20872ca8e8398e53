//! What git knows about the registry folder. Git is a program that is asked; its words are never read, only exit codes
//! and what it prints for programs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What git tells its hooks about the repository that runs them. The folder alone says which repository is meant: in a
/// linked work tree these would make every path one of another place.
const OF_HOOKS: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
];

/// Why git gives no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// There is no such program, or it cannot be started.
    #[error("git cannot be run; install it, or compare without a revision")]
    Missing(#[source] io::Error),
    /// The folder is in no work tree.
    #[error("{} is in no git work tree; run the command inside of one, or compare without a revision", .0.display())]
    NoWorkTree(PathBuf),
    /// The repository here does not have the revision.
    #[error(
        "git knows no revision `{0}` here; fetch it, for example by `git fetch origin main`, or name another one"
    )]
    NoRevision(String),
    /// There is no commit that both come from; in a shallow clone it may just not be there.
    #[error(
        "git finds no commit that HEAD and `{0}` have in common; fetch the whole history (`git fetch --unshallow`, or \
         `fetch-depth: 0` for actions/checkout)"
    )]
    NoCommonCommit(String),
    /// The revision has this registry in another folder, where its history would not be looked for.
    #[error(
        "`{revision}` has this registry in {}, and not in the folder that is checked, so nothing would be compared; move \
         it back, or let the move come to `{revision}` in a change of its own, checked without a revision", .elsewhere.display()
    )]
    Moved {
        /// What was to be compared with.
        revision: String,
        /// The folder there, from the root of the repository.
        elsewhere: PathBuf,
    },
    /// Git failed at something that cannot fail in a sound repository.
    #[error("`git {0}` failed; run it in the registry folder to see why")]
    Failed(&'static str),
}

/// Git, asked from a folder.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    program: OsString,
    folder: PathBuf,
}

impl Git {
    pub(crate) fn at(folder: &Path) -> Self {
        Self::with(OsStr::new("git"), folder)
    }

    pub(crate) fn with(program: &OsStr, folder: &Path) -> Self {
        Self { program: program.to_owned(), folder: folder.to_owned() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .current_dir(&self.folder)
            // Only looking: no lock for a refreshed index, no question to anybody.
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        for name in OF_HOOKS {
            command.env_remove(name);
        }
        command
    }

    fn ask(&self, args: &[&str]) -> Result<Output, GitError> {
        self.command(args).output().map_err(GitError::Missing)
    }

    /// The name of the commit that a revision stands for.
    fn commit(&self, revision: &str) -> Result<String, GitError> {
        let inside = self.ask(&["rev-parse", "--is-inside-work-tree"])?;
        if !inside.status.success() || inside.stdout.trim_ascii() != b"true" {
            return Err(GitError::NoWorkTree(self.folder.clone()));
        }
        let peeled = format!("{revision}^{{commit}}");
        let found = self.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled])?;
        word(&found).ok_or_else(|| GitError::NoRevision(revision.to_owned()))
    }

    /// The commit that HEAD and a revision come from.
    pub(crate) fn merge_base(&self, revision: &str) -> Result<String, GitError> {
        let other = self.commit(revision)?;
        let head = self.commit("HEAD")?;
        let found = self.ask(&["merge-base", &head, &other])?;
        word(&found).ok_or_else(|| GitError::NoCommonCommit(revision.to_owned()))
    }

    /// The files below the folder that the commit has, and that are not in the folder as they are there. The files
    /// themselves are looked at: git's index can be told to take a file for unchanged.
    pub(crate) fn differing(&self, commit: &str) -> Result<Vec<PathBuf>, GitError> {
        let listed = self.ask(&["ls-tree", "-r", "-z", commit, "--", "."])?;
        if !listed.status.success() {
            return Err(GitError::Failed("ls-tree"));
        }
        let mut differing = Vec::new();
        let mut present = Vec::new();
        for entry in listed.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
            let (about, path) = (&entry[..tab], path_of(&entry[tab + 1..]));
            let id = about.rsplit(|byte| *byte == b' ').next().unwrap_or_default().to_vec();
            let file = self.folder.join(&path);
            if !fs::symlink_metadata(&file).is_ok_and(|found| found.is_file()) {
                differing.push(path);
            } else if path.to_str().is_some_and(|name| !name.contains('\n')) {
                present.push((path, id));
            } else if fs::read(&file).ok() != Some(self.content(commit, &path)?) {
                differing.push(path);
            }
        }
        let ids = self.ids(present.iter().map(|(path, _)| path.as_path()))?;
        if ids.len() != present.len() {
            return Err(GitError::Failed("hash-object"));
        }
        let changed = present.into_iter().zip(ids).filter(|((_, committed), now)| committed != now);
        differing.extend(changed.map(|((path, _), _)| path));
        differing.sort();
        Ok(differing)
    }

    /// What git would call the content of each of some files below the folder.
    fn ids<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Result<Vec<Vec<u8>>, GitError> {
        let root = fs::canonicalize(&self.folder).map_err(GitError::Missing)?;
        let names: String = paths.map(|path| format!("{}\n", root.join(path).display())).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut child = self
            .command(&["hash-object", "--no-filters", "--stdin-paths"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(GitError::Missing)?;
        let input = child.stdin.take();
        let hashed = std::thread::scope(|scope| {
            // While the answers are read, so that neither side waits for the other. If git ends early its exit code says so.
            scope.spawn(|| input.map(|mut input| input.write_all(names.as_bytes())));
            child.wait_with_output()
        })
        .map_err(GitError::Missing)?;
        if !hashed.status.success() {
            return Err(GitError::Failed("hash-object"));
        }
        let lines = hashed.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(<[u8]>::to_vec).collect())
    }

    /// All files of the commit, from the root of the repository.
    pub(crate) fn files(&self, commit: &str) -> Result<Vec<PathBuf>, GitError> {
        let listed = self.ask(&["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit])?;
        if !listed.status.success() {
            return Err(GitError::Failed("ls-tree"));
        }
        Ok(listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(path_of).collect())
    }

    /// The root of the work tree.
    pub(crate) fn top(&self) -> Result<PathBuf, GitError> {
        let found = self.ask(&["rev-parse", "--show-toplevel"])?;
        word(&found).map(PathBuf::from).ok_or(GitError::Failed("rev-parse"))
    }

    /// What a file below the folder holds in the commit.
    pub(crate) fn content(&self, commit: &str, file: &Path) -> Result<Vec<u8>, GitError> {
        // The relative form is looked up from the folder.
        let name = format!("{commit}:./{}", file.display());
        let shown = self.ask(&["cat-file", "blob", &name])?;
        if shown.status.success() { Ok(shown.stdout) } else { Err(GitError::Failed("cat-file")) }
    }

    /// Whether the commit has a file of this name in the folder.
    pub(crate) fn has(&self, commit: &str, name: &str) -> Result<bool, GitError> {
        let listed = self.ask(&["ls-tree", "--name-only", "-z", commit, "--", name])?;
        if listed.status.success() { Ok(!listed.stdout.is_empty()) } else { Err(GitError::Failed("ls-tree")) }
    }

    /// Whether git says that it does not know a file of this name in the folder. No git and no repository are no such
    /// answer.
    pub(crate) fn is_untracked(&self, name: &str) -> bool {
        /// What `ls-files --error-unmatch` exits with for a file that is not in the index.
        const UNMATCHED: i32 = 1;
        self.ask(&["ls-files", "--error-unmatch", "--", name])
            .is_ok_and(|answer| answer.status.code() == Some(UNMATCHED))
    }
}

/// The one word of a successful answer.
fn word(answer: &Output) -> Option<String> {
    let text = String::from_utf8(answer.stdout.clone()).ok()?;
    let word = text.lines().next()?.trim();
    (answer.status.success() && !word.is_empty()).then(|| word.to_owned())
}

/// Names of the registry are UTF-8; another one is no file of it, whatever becomes of its bytes.
fn path_of(name: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;
    use tempfile::TempDir;

    /// Runs git for a test, with an identity of its own.
    pub(crate) fn git(folder: &Path, args: &[&str]) {
        let identity =
            ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
        let mut command = Command::new("git");
        for name in OF_HOOKS {
            command.env_remove(name);
        }
        let done = command
            .args(identity)
            .args(args)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(done.success(), "git {args:?}");
    }

    /// A repository with a first commit, whose branch is `main`.
    pub(crate) fn repository() -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "--quiet", "--initial-branch=main"]);
        git(dir.path(), &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        dir
    }

    fn commit(dir: &Path, message: &str) {
        git(dir, &["add", "--all"]);
        git(dir, &["commit", "--quiet", "-m", message]);
    }

    #[test]
    fn what_differs_is_seen_from_the_folder_against_the_work_tree() {
        let dir = repository();
        let folder = dir.path().join("a folder/schemas");
        fs::create_dir_all(folder.join("t")).unwrap();
        for name in ["t/kept", "t/rewritten", "t/gone", "t/Ü \n"] {
            fs::write(folder.join(name), "1\n").unwrap();
        }
        fs::write(dir.path().join("outside"), "1").unwrap();
        commit(dir.path(), "second");
        let git_here = Git::at(&folder);
        let base = git_here.merge_base("main").unwrap();
        assert!(git_here.differing(&base).unwrap().is_empty());
        fs::write(folder.join("t/rewritten"), "2\n").unwrap();
        fs::write(folder.join("t/added"), "2\n").unwrap();
        fs::write(dir.path().join("outside"), "2").unwrap();
        fs::remove_file(folder.join("t/gone")).unwrap();
        fs::remove_file(folder.join("t/Ü \n")).unwrap();
        let expected: Vec<PathBuf> = ["t/gone", "t/rewritten", "t/Ü \n"].map(PathBuf::from).into();
        assert_eq!(git_here.differing(&base).unwrap(), expected);
        commit(dir.path(), "third");
        assert_eq!(git_here.differing(&base).unwrap(), expected, "committed or not");
        assert_eq!(git_here.content(&base, Path::new("t/rewritten")).unwrap(), b"1\n");
        assert!(git_here.has(&base, "t/gone").unwrap() && !git_here.has(&base, "t/added").unwrap());
        assert!(!git_here.is_untracked("t/added") && git_here.is_untracked("t/none"));
    }

    #[test]
    fn a_file_that_the_index_is_told_to_pass_over_differs_all_the_same() {
        let dir = repository();
        let folder = dir.path().join("schemas");
        fs::create_dir_all(&folder).unwrap();
        for name in ["skipped", "assumed", "kept"] {
            fs::write(folder.join(name), "1\n").unwrap();
        }
        commit(dir.path(), "second");
        git(&folder, &["update-index", "--skip-worktree", "skipped"]);
        git(&folder, &["update-index", "--assume-unchanged", "assumed"]);
        for name in ["skipped", "assumed"] {
            fs::write(folder.join(name), "2\n").unwrap();
        }
        let here = Git::at(&folder);
        let base = here.merge_base("main").unwrap();
        assert_eq!(here.differing(&base).unwrap(), ["assumed", "skipped"].map(PathBuf::from));
    }

    #[test]
    fn a_branch_is_measured_by_what_it_began_with() {
        let dir = repository();
        let here = Git::at(dir.path());
        let first = here.merge_base("main").unwrap();
        git(dir.path(), &["checkout", "--quiet", "-b", "work"]);
        git(dir.path(), &["commit", "--quiet", "--allow-empty", "-m", "mine"]);
        git(dir.path(), &["checkout", "--quiet", "main"]);
        git(dir.path(), &["commit", "--quiet", "--allow-empty", "-m", "theirs"]);
        git(dir.path(), &["checkout", "--quiet", "work"]);
        assert_eq!(here.merge_base("main").unwrap(), first);
        git(dir.path(), &["checkout", "--quiet", "--orphan", "other"]);
        git(dir.path(), &["commit", "--quiet", "--allow-empty", "-m", "alone"]);
        assert!(matches!(here.merge_base("main"), Err(GitError::NoCommonCommit(_))));
    }

    #[test]
    fn no_git_no_repository_and_no_revision_are_told_apart() {
        let nowhere = tempfile::tempdir().unwrap();
        let missing = Git::with(OsStr::new("outbox-there-is-no-such-program"), nowhere.path());
        assert!(matches!(missing.merge_base("main"), Err(GitError::Missing(_))));
        assert!(!missing.is_untracked("a"), "nobody to ask");
        assert!(matches!(Git::at(nowhere.path()).merge_base("main"), Err(GitError::NoWorkTree(_))));
        assert!(!Git::at(nowhere.path()).is_untracked("a"));
        let dir = repository();
        for revision in ["origin/main", "--all", "HEAD~1", "v1^{tree}"] {
            let error = Git::at(dir.path()).merge_base(revision).unwrap_err();
            assert!(matches!(&error, GitError::NoRevision(name) if name == revision), "{error:?}");
        }
        let empty = tempfile::tempdir().unwrap();
        git(empty.path(), &["init", "--quiet"]);
        assert!(matches!(Git::at(empty.path()).merge_base("HEAD"), Err(GitError::NoRevision(_))));
    }
}
