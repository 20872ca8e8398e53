//! The registry folder: which schemas are committed, and nothing that is not safe to read.
//!
//! ```text
//! schemas/registry.toml                        settings; marks the folder
//! schemas/entity.customer.updated/v1.0.json    major 1, first revision
//! schemas/entity.customer.updated/v1.1.json    a compatible revision of major 1
//! schemas/entity.customer.updated/v2.0.json    a breaking change: new major
//! schemas/entity.customer.updated/overrides.toml, removed.toml    what people decided
//! ```

mod decisions;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use self::decisions::{Override, Tombstone};
pub use self::settings::{Compatibility, Settings, is_revision};
use crate::document::{self, SchemaProblem};
use crate::event_type::{EventType, ShapeError};
use crate::fingerprint::{Digest, Fingerprint};

/// The largest file that is read, in bytes.
pub const MAX_FILE_LEN: u64 = 1024 * 1024;

/// The file that makes a folder a registry.
pub const SETTINGS_FILE: &str = "registry.toml";

/// The name of the folder that [`Registry::locate`] looks for.
const FOLDER: &str = "schemas";

/// The file with the findings about an event type that were judged to do no harm.
pub const OVERRIDES_FILE: &str = "overrides.toml";

/// The file that says that an event type is no longer published.
pub const REMOVED_FILE: &str = "removed.toml";

/// One committed schema: a revision of one major of one event type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SchemaFile {
    /// The event type, after the folder.
    pub event_type: EventType,
    /// The major, from 1: the `schema_version` of events.
    pub major: u32,
    /// The revision inside the major, from 0.
    pub minor: u32,
    /// Where the file is.
    pub path: PathBuf,
    /// What the file holds.
    pub schema: Value,
    /// The identity of its meaning.
    pub fingerprint: Fingerprint,
}

/// All committed schemas, as they were when the folder was opened.
///
/// ```no_run
/// use outbox_schema::Registry;
///
/// let registry = Registry::open("schemas")?;
/// for file in registry.files() {
///     println!("{} v{}.{} {}", file.event_type, file.major, file.minor, file.fingerprint);
/// }
/// # Ok::<(), outbox_schema::RegistryError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Registry {
    root: PathBuf,
    settings: Settings,
    /// Minors ascend inside a major.
    types: BTreeMap<EventType, BTreeMap<u32, Vec<SchemaFile>>>,
    overrides: BTreeMap<EventType, Vec<Override>>,
    removed: BTreeMap<EventType, Tombstone>,
    digest: Digest,
}

impl Registry {
    /// Opens the registry in the folder `root`.
    ///
    /// # Errors
    /// [`RegistryError::NotFound`] if there is no folder with a `registry.toml`; else all problems of the folder at
    /// once.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, RegistryError> {
        let root = root.into();
        if !root.join(SETTINGS_FILE).exists() {
            return Err(RegistryError::NotFound { looked: root });
        }
        let mut scan = Scan::of(&root);
        scan.run();
        let Scan { settings, types, overrides, removed, mut contents, problems, .. } = scan;
        if !problems.is_empty() {
            return Err(RegistryError::Invalid { root, problems });
        }
        contents.sort();
        let digest =
            Digest::of_parts(contents.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_slice()]));
        Ok(Self { root, settings, types, overrides, removed, digest })
    }

    /// Finds and opens the registry of the crate in `start`: the first folder `schemas` with a `registry.toml`, in
    /// `start` or above it.
    ///
    /// `start` should be absolute, as `CARGO_MANIFEST_DIR` is.
    ///
    /// `registry_override` (the value of `OUTBOX_REGISTRY`, if set) names the folder instead. A relative one is
    /// looked for in `start` and above it too, since tests run in the folder of their crate. An empty one counts as
    /// absent.
    ///
    /// # Errors
    /// As [`Registry::open`].
    pub fn locate(start: &Path, registry_override: Option<&Path>) -> Result<Self, RegistryError> {
        let given = registry_override.filter(|path| !path.as_os_str().is_empty());
        let folder = given.unwrap_or(Path::new(FOLDER));
        // Joining an absolute path replaces what it is joined to.
        let found =
            start.ancestors().map(|above| above.join(folder)).find(|dir| dir.join(SETTINGS_FILE).exists());
        match found {
            Some(root) => Self::open(root),
            None => Err(RegistryError::NotFound { looked: start.join(folder) }),
        }
    }

    /// A registry without a folder and without schemas.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            root: PathBuf::new(),
            settings: Settings::default(),
            types: BTreeMap::new(),
            overrides: BTreeMap::new(),
            removed: BTreeMap::new(),
            digest: Digest::of_parts([]),
        }
    }

    /// The folder; empty for [`Registry::empty`].
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What `registry.toml` says.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The event types that have a schema, sorted.
    pub fn event_types(&self) -> impl Iterator<Item = &EventType> {
        self.types.keys()
    }

    /// The majors of an event type, ascending; none if it is unknown.
    pub fn majors<'a>(&'a self, event_type: &str) -> impl Iterator<Item = u32> + use<'a> {
        self.types.get(event_type).into_iter().flat_map(|majors| majors.keys().copied())
    }

    /// The newest revision of a major.
    #[must_use]
    pub fn newest(&self, event_type: &str, major: u32) -> Option<&SchemaFile> {
        self.types.get(event_type)?.get(&major)?.last()
    }

    /// The newest revision of every major of every event type.
    pub fn newest_of_each(&self) -> impl Iterator<Item = &SchemaFile> {
        self.types.values().flat_map(BTreeMap::values).filter_map(|minors| minors.last())
    }

    /// Every schema, sorted by event type, major and minor.
    pub fn files(&self) -> impl Iterator<Item = &SchemaFile> {
        self.types.values().flat_map(BTreeMap::values).flatten()
    }

    /// The revisions of a major, ascending; none if it is unknown.
    #[must_use]
    pub fn minors(&self, event_type: &str, major: u32) -> &[SchemaFile] {
        self.types.get(event_type).and_then(|majors| majors.get(&major)).map_or(&[], Vec::as_slice)
    }

    /// The findings that were judged to do no harm, sorted by event type and major.
    pub fn overrides(&self) -> impl Iterator<Item = (&EventType, &Override)> {
        self.overrides
            .iter()
            .flat_map(|(event_type, entries)| entries.iter().map(move |entry| (event_type, entry)))
    }

    /// Whether and why an event type is no longer published.
    #[must_use]
    pub fn tombstone(&self, event_type: &str) -> Option<&Tombstone> {
        self.removed.get(event_type)
    }

    /// Changes if and only if the content of the folder does: schemas, settings, overrides and tombstones.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// One thing that is wrong with a registry folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub reason: Reason,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Reasons of several lines (a TOML excerpt, a help) stay under their path.
        write!(f, "{}: {}", self.path.display(), self.reason.to_string().trim_end().replace('\n', "\n    "))
    }
}

/// What is wrong with one file or folder of a registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The operating system refused.
    #[error("cannot be read ({0}); check that it exists and its permissions")]
    Io(io::ErrorKind),
    /// A file or folder that has no place here.
    #[error(
        "has no place here; a registry holds `registry.toml`, `README.md` and one folder per event type; move it elsewhere"
    )]
    NotInRoot,
    /// A file that has no place in an event type's folder.
    #[error(
        "has no place here; the folder of an event type holds `v<major>.<minor>.json` (major from 1, no leading \
         zeros), `overrides.toml` and `removed.toml`; rename or remove it"
    )]
    NotInType,
    /// A folder, pipe or device where a file belongs.
    #[error("is not a regular file; put one here or remove it")]
    NotAFile,
    /// The name of a folder is not an event type.
    #[error(transparent)]
    Name(#[from] ShapeError),
    /// A symbolic link that leaves the registry.
    #[error("leads out of the registry; put the file itself here")]
    Outside,
    /// More than [`MAX_FILE_LEN`] bytes.
    #[error("has more than {MAX_FILE_LEN} bytes; split the schema or remove the file")]
    TooLarge,
    /// `registry.toml` is not as it should be.
    #[error(
        "{0}\nhelp: the keys are `compatibility` (\"full\", \"backward\", \"forward\" or \"none\"), the table \
         `[compatibility_for]` with the same words by event type, and `base`"
    )]
    Settings(String),
    /// `[compatibility_for]` names an event type that has no folder.
    #[error(
        "`[compatibility_for]` names `{0}`, which has no folder here; correct the name or remove the line"
    )]
    UnknownType(EventType),
    /// `overrides.toml` is not as it should be.
    #[error(
        "{0}\nhelp: each entry stands under its major as in `[[1]]` and has `rule`, `pointer`, `old`, `new`, `reason`, \
         `author`, `date`, and `acknowledge_witness = true` where a payload proves the finding"
    )]
    Overrides(String),
    /// `removed.toml` is not as it should be.
    #[error("{0}\nhelp: the keys are `date`, as in `date = 2026-12-01`, and `reason`")]
    Removed(String),
    /// The schema is not one that a registry takes.
    #[error(transparent)]
    Schema(#[from] SchemaProblem),
}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind())
    }
}

/// A registry that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryError {
    /// There is no registry folder.
    NotFound {
        /// The first place looked at.
        looked: PathBuf,
    },
    /// The folder is there; these are all its problems.
    Invalid {
        /// The folder.
        root: PathBuf,
        /// At least one, sorted by path.
        problems: Vec<Problem>,
    },
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { looked } => write!(
                f,
                "no schema registry at {}\nhelp: run `outbox schema init`, or create a folder `{FOLDER}` with a file \
                 `{SETTINGS_FILE}` containing `compatibility = \"full\"`",
                looked.display()
            ),
            Self::Invalid { root, problems } => {
                let noun = if problems.len() == 1 { "problem" } else { "problems" };
                write!(f, "the schema registry {} has {} {noun}:", root.display(), problems.len())?;
                problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for RegistryError {}

/// One walk over the folder, which goes on after a problem.
struct Scan<'a> {
    root: &'a Path,
    real_root: PathBuf,
    settings: Settings,
    types: BTreeMap<EventType, BTreeMap<u32, Vec<SchemaFile>>>,
    overrides: BTreeMap<EventType, Vec<Override>>,
    removed: BTreeMap<EventType, Tombstone>,
    /// Name below the root, with `/`, and content of each file read.
    contents: Vec<(String, Vec<u8>)>,
    problems: Vec<Problem>,
}

impl<'a> Scan<'a> {
    fn of(root: &'a Path) -> Self {
        Self {
            root,
            real_root: PathBuf::new(),
            settings: Settings::default(),
            types: BTreeMap::new(),
            overrides: BTreeMap::new(),
            removed: BTreeMap::new(),
            contents: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn run(&mut self) {
        match fs::canonicalize(self.root) {
            Ok(real_root) => self.real_root = real_root,
            Err(error) => self.problem(self.root.to_owned(), error),
        }
        let mut folders = BTreeSet::new();
        for (name, path) in self.entries(self.root) {
            match name.to_str() {
                Some(SETTINGS_FILE) => {
                    let read = |text: &[u8]| decisions::parse(text).map_err(Reason::Settings);
                    if let Some(settings) = self.read_as(&path, SETTINGS_FILE.to_owned(), read) {
                        self.settings = settings;
                    }
                }
                Some("README.md") => {}
                Some(name) if path.is_dir() => match EventType::new(name) {
                    Ok(event_type) => {
                        let majors = self.event_type(&event_type, &path);
                        folders.insert(event_type.clone());
                        if !majors.is_empty() {
                            self.types.insert(event_type, majors);
                        }
                    }
                    Err(error) => self.problem(path, error),
                },
                _ => self.problem(path, Reason::NotInRoot),
            }
        }
        let unknown: Vec<EventType> =
            self.settings.compatibility_for.keys().filter(|name| !folders.contains(*name)).cloned().collect();
        for name in unknown {
            self.problem(self.root.join(SETTINGS_FILE), Reason::UnknownType(name));
        }
    }

    fn event_type(&mut self, event_type: &EventType, folder: &Path) -> BTreeMap<u32, Vec<SchemaFile>> {
        let mut majors: BTreeMap<u32, Vec<SchemaFile>> = BTreeMap::new();
        if let Err(reason) = self.inside(folder) {
            self.problem(folder.to_owned(), reason);
            return majors;
        }
        for (name, path) in self.entries(folder) {
            let Some(name) = name.to_str() else {
                self.problem(path, Reason::NotInType);
                continue;
            };
            let below_root = format!("{event_type}/{name}");
            if name == OVERRIDES_FILE {
                let read = |text: &[u8]| decisions::overrides(text).map_err(Reason::Overrides);
                if let Some(entries) = self.read_as(&path, below_root, read) {
                    self.overrides.insert(event_type.clone(), entries);
                }
                continue;
            }
            if name == REMOVED_FILE {
                let read = |text: &[u8]| decisions::tombstone(text).map_err(Reason::Removed);
                if let Some(tombstone) = self.read_as(&path, below_root, read) {
                    self.removed.insert(event_type.clone(), tombstone);
                }
                continue;
            }
            let Some((major, minor)) = version_of(name) else {
                self.problem(path, Reason::NotInType);
                continue;
            };
            let Some(text) = self.read(&path, below_root) else { continue };
            match document::parse(&text) {
                Ok(schema) => {
                    for problem in document::problems(&schema) {
                        self.problem(path.clone(), problem);
                    }
                    let fingerprint = Fingerprint::of(&schema);
                    let event_type = event_type.clone();
                    let file = SchemaFile { event_type, major, minor, path, schema, fingerprint };
                    majors.entry(major).or_default().push(file);
                }
                Err(problem) => self.problem(path, problem),
            }
        }
        majors.values_mut().for_each(|minors| minors.sort_by_key(|file| file.minor));
        majors
    }

    /// What a folder holds, sorted by name, without hidden entries.
    fn entries(&mut self, folder: &Path) -> Vec<(std::ffi::OsString, PathBuf)> {
        let mut entries = Vec::new();
        match fs::read_dir(folder) {
            Ok(listing) => {
                for entry in listing {
                    match entry {
                        Ok(entry) if !is_hidden(&entry.file_name()) => {
                            entries.push((entry.file_name(), entry.path()));
                        }
                        Ok(_) => {}
                        Err(error) => self.problem(folder.to_owned(), error),
                    }
                }
            }
            Err(error) => self.problem(folder.to_owned(), error),
        }
        entries.sort();
        entries
    }

    fn read(&mut self, path: &Path, below_root: String) -> Option<Vec<u8>> {
        match self.inside(path).and_then(|()| read_capped(path)) {
            Ok(text) => {
                self.contents.push((below_root, text.clone()));
                Some(text)
            }
            Err(reason) => {
                self.problem(path.to_owned(), reason);
                None
            }
        }
    }

    fn read_as<T>(
        &mut self,
        path: &Path,
        below_root: String,
        parse: impl FnOnce(&[u8]) -> Result<T, Reason>,
    ) -> Option<T> {
        let text = self.read(path, below_root)?;
        parse(&text).map_err(|reason| self.problem(path.to_owned(), reason)).ok()
    }

    fn inside(&self, path: &Path) -> Result<(), Reason> {
        if fs::canonicalize(path)?.starts_with(&self.real_root) { Ok(()) } else { Err(Reason::Outside) }
    }

    fn problem(&mut self, path: PathBuf, reason: impl Into<Reason>) {
        self.problems.push(Problem { path, reason: reason.into() });
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn read_capped(path: &Path) -> Result<Vec<u8>, Reason> {
    // Asked before opening: opening a pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(Reason::NotAFile);
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_FILE_LEN + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE_LEN { Err(Reason::TooLarge) } else { Ok(text) }
}

/// The major and minor that a file name `v<major>.<minor>.json` stands for, in its one spelling.
pub(crate) fn version_of(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.strip_prefix('v')?.strip_suffix(".json")?.split_once('.')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    (major > 0 && file_name(major, minor) == name).then_some((major, minor))
}

/// The name of a schema's file.
pub(crate) fn file_name(major: u32, minor: u32) -> String {
    format!("v{major}.{minor}.json")
}

#[cfg(test)]
mod tests;
