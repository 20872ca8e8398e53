//! The folder against what git has committed: revisions are append-only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::compare;
use crate::document;
use crate::event_type::EventType;
use crate::fingerprint::Fingerprint;
use crate::git::{Git, GitError};
use crate::registry::{REMOVED_FILE, Registry, SETTINGS_FILE, version_of};

/// What became of committed revisions that are not in the folder as they were.
#[derive(Clone, Debug)]
pub struct Base {
    revision: String,
    has_folder: bool,
    changed: Vec<Committed>,
}

/// A committed revision that the folder does not have as it was committed.
#[derive(Clone, Debug)]
struct Committed {
    event_type: EventType,
    major: u32,
    minor: u32,
    /// From the folder.
    path: PathBuf,
    /// As committed; `None` if it was no schema of a registry.
    schema: Option<Value>,
}

/// A rule about committed revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HistoryRule {
    /// A committed revision means something else now.
    RevisionRewritten,
    /// A committed revision is gone.
    RevisionRemoved,
    /// All revisions of an event type are gone, and nothing says so.
    EventRemoved,
}

impl HistoryRule {
    /// The rule's id in reports.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::RevisionRewritten => "revision-rewritten",
            Self::RevisionRemoved => "revision-removed",
            Self::EventRemoved => "event-removed",
        }
    }
}

/// A committed revision, or a whole event type, that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryFinding {
    /// Which rule says so.
    pub rule: HistoryRule,
    /// The event type.
    pub event_type: EventType,
    /// The file, or the folder of the event type.
    pub path: PathBuf,
    /// What happened.
    pub message: String,
    /// What to do.
    pub help: String,
    /// What differs, a line each; at most ten.
    pub changes: Vec<String>,
}

impl Base {
    /// Asks git what HEAD has in common with `revision`, and what of it the folder does not have as it was.
    ///
    /// # Errors
    /// [`GitError`]: no git, no work tree, no such revision, a history too short to tell, or a folder that was moved.
    pub fn of(registry: &Registry, revision: &str) -> Result<Self, GitError> {
        let git = Git::at(registry.root());
        let commit = git.merge_base(revision)?;
        let mut changed = Vec::new();
        for path in git.differing(&commit)? {
            let Some((event_type, major, minor)) = revision_of(&path) else { continue };
            let text = git.content(&commit, &path)?;
            let schema = document::parse(&text).ok().filter(|schema| document::problems(schema).is_empty());
            changed.push(Committed { event_type, major, minor, path, schema });
        }
        changed.sort_by(|a, b| (&a.event_type, a.major, a.minor).cmp(&(&b.event_type, b.major, b.minor)));
        let has_folder = git.has(&commit, SETTINGS_FILE)?;
        if !has_folder && let Some(elsewhere) = moved_from(&git, &commit, registry)? {
            return Err(GitError::Moved { revision: revision.to_owned(), elsewhere });
        }
        Ok(Self { revision: revision.to_owned(), has_folder, changed })
    }

    pub(super) fn revision(&self) -> &str {
        &self.revision
    }

    pub(super) fn has_folder(&self) -> bool {
        self.has_folder
    }

    /// What is wrong with the folder, seen from the committed revisions.
    pub(super) fn findings(&self, registry: &Registry) -> Vec<HistoryFinding> {
        let mut by_type: BTreeMap<&EventType, Vec<&Committed>> = BTreeMap::new();
        for committed in &self.changed {
            by_type.entry(&committed.event_type).or_default().push(committed);
        }
        let mut findings = Vec::new();
        for (event_type, changed) in by_type {
            if registry.majors(event_type.as_str()).next().is_some() {
                findings.extend(changed.into_iter().filter_map(|committed| committed.finding(registry)));
            } else if registry.tombstone(event_type.as_str()).is_none() {
                findings.push(HistoryFinding {
                    rule: HistoryRule::EventRemoved,
                    event_type: event_type.clone(),
                    path: registry.root().join(event_type.as_str()),
                    message: format!("the schemas of `{event_type}` are gone, and stored events still need them"),
                    help: format!(
                        "restore them (`git checkout {} -- FILE`); or, when no event of the type is stored any more, say so in \
                         `{event_type}/{REMOVED_FILE}`: `date = ..` and `reason = \"..\"`",
                        self.revision
                    ),
                    changes: Vec::new(),
                });
            }
        }
        findings
    }
}

impl Committed {
    fn finding(&self, registry: &Registry) -> Option<HistoryFinding> {
        // What never was a schema of a registry protects nobody.
        let committed = self.schema.as_ref()?;
        let minors = registry.minors(self.event_type.as_str(), self.major);
        let finding = |rule, message: String, help: String, changes| {
            let (event_type, path) = (self.event_type.clone(), registry.root().join(&self.path));
            Some(HistoryFinding { rule, event_type, path, message, help, changes })
        };
        let Some(now) = minors.iter().find(|file| file.minor == self.minor) else {
            return finding(
                HistoryRule::RevisionRemoved,
                format!(
                    "v{}.{} was committed and is gone; stored events and pinned consumers still need it",
                    self.major, self.minor
                ),
                "restore the file; revisions are only ever added".to_owned(),
                Vec::new(),
            );
        };
        if now.fingerprint == Fingerprint::of(committed) {
            return None;
        }
        finding(
            HistoryRule::RevisionRewritten,
            format!("v{}.{} was committed and means something else now", self.major, self.minor),
            "restore the file; `OUTBOX_BLESS=1 cargo test` writes the change as the next minor".to_owned(),
            compare::changes(committed, &now.schema).into_iter().take(10).collect(),
        )
    }
}

/// Where the commit has the registry, if it has it in another folder: a registry that is gone from there, or one with
/// schemas of the same event types.
fn moved_from(git: &Git, commit: &str, registry: &Registry) -> Result<Option<PathBuf>, GitError> {
    let top = git.top()?;
    let known = |path: &Path| {
        let event_type = revision_of(path)?.0;
        registry.majors(event_type.as_str()).next()
    };
    for file in git.files(commit)? {
        let Some(folder) = file.parent() else { continue };
        let is_settings = file.file_name().is_some_and(|name| name == SETTINGS_FILE);
        let gone = || !top.join(&file).exists();
        let of_event_type = || {
            let above = folder.parent()?;
            known(file.strip_prefix(above).ok()?).map(|_| above)
        };
        if is_settings && gone() {
            return Ok(Some(folder.to_owned()));
        }
        if let Some(above) = of_event_type() {
            return Ok(Some(above.to_owned()));
        }
    }
    Ok(None)
}

/// Which revision a path below the folder stands for.
fn revision_of(path: &Path) -> Option<(EventType, u32, u32)> {
    let (folder, name) = path.to_str()?.split_once('/')?;
    let (major, minor) = version_of(name)?;
    Some((EventType::new(folder).ok()?, major, minor))
}
