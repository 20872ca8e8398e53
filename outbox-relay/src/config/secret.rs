//! Secrets: named in the file, resolved at load, never shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

/// A value that must not appear in logs, errors or reports: `Debug` prints `***`, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret that was found elsewhere, for instance on the command line.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself, for whoever needs it to connect or to sign.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The environment variables of the process, as they were given.
#[derive(Default)]
pub(super) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    pub(super) fn new<K: Into<OsString>, V: Into<OsString>>(
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The variables whose names begin with `prefix`: name, rest of the name, and the value when it is text.
    pub(super) fn prefixed<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)> {
        self.0.iter().filter_map(move |(name, value)| {
            let name = name.to_str()?;
            Some((name, name.strip_prefix(prefix)?, value.to_str()))
        })
    }
}

/// Why a secret that was named cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecretError {
    #[error("the environment variable `{0}` is not set")]
    Unset(String),
    #[error("the environment variable `{0}` is not UTF-8 text")]
    NotText(String),
    #[error("the file `{path}` cannot be read: {kind}")]
    Unreadable { path: String, kind: std::io::ErrorKind },
    #[error("the secret in {0} is empty")]
    Empty(String),
}

/// Resolves `env:NAME` and `file:PATH`; `None` when the text is neither. A file's line end at its end is dropped;
/// a relative path begins in `folder`.
pub(super) fn resolve(text: &str, env: &Environment, folder: &Path) -> Option<Result<Secret, SecretError>> {
    let (found, origin) = if let Some(name) = text.strip_prefix("env:") {
        let value = match env.0.get(std::ffi::OsStr::new(name)).map(|value| value.to_str()) {
            Some(Some(value)) => Ok(value.to_owned()),
            Some(None) => Err(SecretError::NotText(name.to_owned())),
            None => Err(SecretError::Unset(name.to_owned())),
        };
        (value, format!("the environment variable `{name}`"))
    } else {
        let path = text.strip_prefix("file:")?;
        let read = std::fs::read_to_string(folder.join(path)).map_err(|error| {
            let kind = error.kind();
            SecretError::Unreadable { path: path.to_owned(), kind }
        });
        (read, format!("the file `{path}`"))
    };
    Some(found.and_then(|value| {
        let value = value.trim_end_matches(['\r', '\n']);
        if value.is_empty() { Err(SecretError::Empty(origin)) } else { Ok(Secret::new(value)) }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)), "*** Some(\n    ***,\n)");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn resolving() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "from file\r\n").unwrap();
        std::fs::write(folder.path().join("blank"), "\n").unwrap();
        let env = Environment::new([("A", "from env"), ("E", "")]);
        let resolved = |text: &str| {
            resolve(text, &env, folder.path())
                .map(|r| r.map(|s| s.expose().to_owned()).map_err(|e| e.to_string()))
        };
        assert_eq!(resolved("env:A"), Some(Ok("from env".to_owned())));
        assert_eq!(resolved("file:key"), Some(Ok("from file".to_owned())));
        assert_eq!(resolved("env:B"), Some(Err("the environment variable `B` is not set".to_owned())));
        assert_eq!(
            resolved("env:E"),
            Some(Err("the secret in the environment variable `E` is empty".to_owned()))
        );
        assert_eq!(resolved("file:blank"), Some(Err("the secret in the file `blank` is empty".to_owned())));
        let missing = "the file `none` cannot be read: entity not found".to_owned();
        assert_eq!(resolved("file:none"), Some(Err(missing)));
        assert_eq!(resolved("literal"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_no_text() {
        use std::os::unix::ffi::OsStringExt as _;
        let env = Environment::new([("A", OsString::from_vec(vec![0xff]))]);
        let error = resolve("env:A", &env, Path::new("")).unwrap().unwrap_err();
        assert!(matches!(error, SecretError::NotText(name) if name == "A"));
    }
}
