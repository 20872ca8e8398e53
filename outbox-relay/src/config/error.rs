//! What is wrong with a configuration: all findings at once, each with its place and what to do.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str};

use super::document::Place;
use super::redact::redact;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read as text.
    #[error("the configuration file {} cannot be read; name an existing UTF-8 file with --config", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration was read and has mistakes.
    #[error("{0}")]
    Invalid(Report),
}

impl ConfigError {
    /// The report for a terminal; with `color`, styled by ANSI sequences. Without, it is the same text as `Display`.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        match self {
            Self::Read { source, .. } => format!("error: {self}: {source}"),
            Self::Invalid(report) => report.render(color),
        }
    }

    /// The findings, in the order of the file; those of the environment follow. None for a file that cannot be read.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Read { .. } => &[],
            Self::Invalid(report) => &report.findings,
        }
    }
}

/// All findings about one configuration, with the text they point into. Secrets in the text are masked.
#[derive(Debug, Clone)]
pub struct Report {
    source: Source,
    findings: Vec<Finding>,
}

impl Report {
    fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut text = String::new();
        for finding in &self.findings {
            text.push_str(&renderer.render(&[finding.group(&self.source)]));
            text.push_str("\n\n");
        }
        let count = self.findings.len();
        let noun = if count == 1 { "mistake" } else { "mistakes" };
        text.push_str(&format!("{count} {noun} in the configuration {}", self.source.name()));
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub(super) message: String,
    pub(super) help: String,
    pub(super) place: Place,
    /// Another place that explains this one, and what is there.
    pub(super) related: Option<(Place, String)>,
    location: Option<(usize, usize)>,
}

impl Finding {
    /// The message may quote what the user wrote: control characters and what looks like a secret are replaced.
    pub(super) fn new(place: Place, message: impl AsRef<str>, help: impl AsRef<str>) -> Self {
        let message = normalize_untrusted_str(&redact(message.as_ref(), &[]));
        let help = normalize_untrusted_str(help.as_ref());
        Self { message, help, place, related: None, location: None }
    }

    pub(super) fn related(mut self, place: Place, what: impl Into<String>) -> Self {
        self.related = Some((place, what.into()));
        self
    }

    /// What is wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> &str {
        &self.help
    }

    /// Line and column in the file, both from 1, the column in characters. `None` when the mistake is in the
    /// environment or in nothing that was written.
    #[must_use]
    pub const fn location(&self) -> Option<(usize, usize)> {
        self.location
    }

    /// The environment variable that the mistake is in.
    #[must_use]
    pub fn variable(&self) -> Option<&str> {
        match &self.place {
            Place::Env(name) => Some(name),
            Place::File(_) | Place::Whole => None,
        }
    }

    fn group<'a>(&'a self, source: &'a Source) -> Group<'a> {
        let title = match self.variable() {
            Some(name) => {
                Level::ERROR.primary_title(format!("{}: {}", normalize_untrusted_str(name), self.message))
            }
            None => Level::ERROR.primary_title(self.message.as_str()),
        };
        let mut snippet =
            Snippet::source(source.text.as_str()).path(source.path.to_string_lossy().into_owned());
        let mut pictured = false;
        let mut notes = Vec::new();
        if let Place::File(span) = &self.place {
            snippet = snippet.annotation(AnnotationKind::Primary.span(source.clip(span)));
            pictured = true;
        }
        match &self.related {
            Some((Place::File(span), what)) => {
                snippet =
                    snippet.annotation(AnnotationKind::Context.span(source.clip(span)).label(what.as_str()));
                pictured = true;
            }
            Some((Place::Env(name), what)) => notes.push(format!("{what}: {name}")),
            Some((Place::Whole, what)) => notes.push(what.clone()),
            None => {}
        }
        let group = if pictured {
            title.element(snippet)
        } else if self.place == Place::Whole && source.is_file() {
            title.element(Origin::path(source.path.to_string_lossy().into_owned()))
        } else {
            Group::with_title(title)
        };
        group
            .elements(notes.into_iter().map(|note| Level::NOTE.message(note)))
            .element(Level::HELP.message(self.help.as_str()))
    }
}

/// The file as it is shown: its path, and its text with secrets masked.
#[derive(Debug, Clone, Default)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// Of the same length as the file, byte for byte.
    pub(super) text: String,
}

impl Source {
    /// The folder that relative paths of the configuration begin in.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn is_file(&self) -> bool {
        !self.path.as_os_str().is_empty()
    }

    fn name(&self) -> String {
        if self.is_file() { self.path.display().to_string() } else { "of the environment".to_owned() }
    }

    /// The span, made fit for a picture: inside the text and on character boundaries.
    fn clip(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.ceil_char_boundary(span.end).max(start);
        start..end
    }

    fn locate(&self, place: &Place) -> Option<(usize, usize)> {
        let Place::File(span) = place else { return None };
        let before = self.text.get(..self.clip(span).start)?;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Some((before.matches('\n').count() + 1, before[line_start..].chars().count() + 1))
    }

    /// The error made of these findings.
    pub(super) fn refuse(&self, mut findings: Vec<Finding>) -> ConfigError {
        for finding in &mut findings {
            finding.location = self.locate(&finding.place);
        }
        findings.sort_by_key(|finding| match &finding.place {
            Place::File(span) => (0, span.start, String::new()),
            Place::Env(name) => (1, 0, name.clone()),
            Place::Whole => (2, 0, String::new()),
        });
        ConfigError::Invalid(Report { source: self.clone(), findings })
    }
}

/// Collects findings while sections and their parts are being read.
#[derive(Debug, Default)]
pub(super) struct Findings(RefCell<Vec<Finding>>);

impl Findings {
    pub(super) fn push(&self, finding: Finding) {
        self.0.borrow_mut().push(finding);
    }

    pub(super) fn into_vec(self) -> Vec<Finding> {
        self.0.into_inner()
    }
}
