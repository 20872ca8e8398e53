//! Wrong engines for tests: statements with one place changed, and calls in the wrong order. `outbox_sdk::injection`
//! chooses one of them; each must be noticed by a test.

use sqlx::{Error, PgConnection, raw_sql};

use super::read;
use super::statements::Statements;
use crate::backend::{Batch, Read};
use crate::injection::planted;

/// Fault, statement, and a file that says what stands there instead of what.
const CHANGES: &[(&str, &str, &str)] = &[
    ("no-fence", "settle", include_str!("planted/no_fence.sql")),
    ("fence-without-rev", "settle", include_str!("planted/fence_without_rev.sql")),
    ("anchor-read-only", "settle", include_str!("planted/anchor_read_only.sql")),
    ("epoch-reuse", "claim", include_str!("planted/epoch_reuse.sql")),
    ("epoch-reuse", "register", include_str!("planted/epoch_reuse_register.sql")),
    ("separate-limits", "read", include_str!("planted/separate_limits.sql")),
    ("xid-expiry", "holders", include_str!("planted/xid_expiry.sql")),
    ("id-before-lock", "append", include_str!("planted/id_before_lock.sql")),
    ("record-covered", "record", include_str!("planted/record_covered.sql")),
    ("record-unsettled", "record", include_str!("planted/record_unsettled.sql")),
    ("compact-unsettled", "compact", include_str!("planted/compact_unsettled.sql")),
    ("compact-young", "compact", include_str!("planted/compact_young.sql")),
    ("reset-keeps-stalls", "reset_stalls", include_str!("planted/reset_keeps_stalls.sql")),
    ("bulk-without-locks", "append_all", include_str!("planted/bulk_without_locks.sql")),
];

/// The text of a statement, with the chosen fault if that lies in it.
pub(super) fn text(statement: &str, right: &str) -> String {
    let chosen = CHANGES.iter().find(|(fault, in_statement, _)| *in_statement == statement && planted(fault));
    chosen.and_then(|(_, _, change)| changed(right, change)).unwrap_or_else(|| right.to_owned())
}

/// The text with the change made; none when the place is not there (once).
fn changed(right: &str, change: &str) -> Option<String> {
    let (_, rest) = change.split_once("-- instead of\n")?;
    let (old, new) = rest.split_once("-- this\n")?;
    let (before, after) = right.split_once(old)?;
    (!after.contains(old)).then(|| format!("{before}{new}{after}"))
}

/// Stops while a test holds the lock.
pub(super) async fn pause(conn: &mut PgConnection) -> Result<(), Error> {
    raw_sql(include_str!("planted/pause.sql")).execute(conn).await.map(|_| ())
}

/// What follows sees the database as it is now.
pub(super) async fn begin_snapshot(conn: &mut PgConnection) -> Result<(), Error> {
    raw_sql(include_str!("planted/begin_snapshot.sql")).execute(conn).await.map(|_| ())
}

/// Ends [`begin_snapshot`], if it was called.
pub(super) async fn end_snapshot(conn: &mut PgConnection) -> Result<(), Error> {
    raw_sql(include_str!("planted/end_snapshot.sql")).execute(conn).await.map(|_| ())
}

/// Gaps and new rows, each in a snapshot of its own.
pub(super) async fn two_reads(
    conn: &mut PgConnection,
    statements: &Statements,
    read: &Read<'_>,
) -> Result<Batch, Error> {
    let gaps = read::one_batch(conn, statements, &Read { above: i64::MAX, ..read.clone() }).await?;
    pause(conn).await?;
    let mut batch = read::one_batch(conn, statements, &Read { gaps: &[], ..read.clone() }).await?;
    batch.full |= gaps.full;
    batch.events.splice(0..0, gaps.events);
    batch.events.truncate(read.limit as usize);
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::postgres::statements::TEXTS;

    #[test]
    fn every_fault_changes_the_statement_it_names() {
        for (fault, statement, change) in CHANGES {
            let (_, right) = TEXTS.iter().find(|(name, _)| name == statement).unwrap();
            let wrong =
                changed(right, change).unwrap_or_else(|| panic!("{fault} fits nowhere in {statement}"));
            assert_ne!(wrong, *right);
        }
    }
}
