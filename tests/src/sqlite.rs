use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tempfile::TempDir;

/// A SQLite file of its own for one test, in a temporary folder that goes with this value.
#[derive(Debug)]
pub struct SqliteTestDb {
    dir: TempDir,
    path: PathBuf,
    url: String,
}

impl SqliteTestDb {
    /// Makes the folder; the file appears with the first connection.
    ///
    /// # Panics
    /// When no temporary folder can be made.
    #[expect(clippy::new_without_default, reason = "it makes a folder: that is no default value")]
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("outbox-test-").tempdir().expect("a temporary folder");
        let path = dir.path().join("outbox.db");
        let url = format!("sqlite://{}?mode=rwc", path.display());
        Self { dir, path, url }
    }

    /// The folder, for the test's other files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The URL for a configuration or another process; it creates the file when it is missing.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Connects with the settings that the toolkit asks of a service: write-ahead log, every commit on disk,
    /// five seconds of patience with another writer, foreign keys on.
    ///
    /// # Panics
    /// When the file cannot be opened.
    pub async fn pool(&self) -> SqlitePool {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(5))
            .foreign_keys(true);
        SqlitePoolOptions::new().connect_with(options).await.expect("open the SQLite file of this test")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_has_the_settings_of_a_careful_service() {
        let db = SqliteTestDb::new();
        let pool = db.pool().await;
        let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&pool).await.unwrap();
        let mut numbers = Vec::new();
        for pragma in ["PRAGMA synchronous", "PRAGMA busy_timeout", "PRAGMA foreign_keys"] {
            numbers.push(sqlx::query_scalar::<_, i64>(pragma).fetch_one(&pool).await.unwrap());
        }
        assert_eq!((journal.as_str(), &numbers[..]), ("wal", &[2, 5000, 1][..]));
        assert!(db.path().starts_with(db.dir()) && db.path().is_file());
    }

    #[tokio::test]
    async fn the_url_makes_the_file_and_the_folder_goes_with_the_value() {
        let db = SqliteTestDb::new();
        SqlitePool::connect(db.url()).await.unwrap().close().await;
        let path = db.path().to_owned();
        assert!(path.is_file());
        drop(db);
        assert!(!path.parent().unwrap().exists());
    }
}
