//! The statements' texts, rendered once for a schema.

use std::sync::Arc;
use std::time::Duration;

use sqlx::AssertSqlSafe;

use super::query::Query;

#[cfg(feature = "fault-injection")]
use super::planted::text;

/// The advisory locks' first key: which outbox lock it is. The second is the aggregate's bucket, or the schema.
const LANE_LOCK: &str = "1870099554";
const ADMIN_LOCK: &str = "1870099555";

/// Later statements of a transaction must see what was committed while the first one waited for its lock. A relay that
/// is stopped, or cut off without a word, between two statements must not keep the row of its slot locked: the server
/// ends such a session, and another relay takes over. On the path of names lies nothing but the server's own: whoever may
/// create a function or an operator in a schema of the database must not have it run by a relay.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '5s'; \
     SET LOCAL search_path = pg_catalog, pg_temp";

/// How long a batch of recorder or retention waits for a lock: so it is known that it was one, and not the batch's size.
const BATCH_LOCK_WAIT: Duration = Duration::from_secs(1);

/// The longest name of a channel, as of anything in PostgreSQL.
const MAX_NAME: usize = 63;

/// The text of a statement; tests can ask for a wrong one.
#[cfg(not(feature = "fault-injection"))]
const fn text(_: &str, right: &'static str) -> &'static str {
    right
}

/// Declares one field per `.sql` file of this folder, so that a statement's name is written once.
macro_rules! statements {
    ($($name:ident)+) => {
        /// Every statement's text, with the schema's name quoted in it.
        pub(crate) struct Statements {
            channel: String,
            schema: String,
            begin: Arc<str>,
            begin_batch: Arc<str>,
            session: Option<Arc<str>>,
            pub(super) settle_moved: Statement,
            $(pub(super) $name: Statement,)+
        }

        impl Statements {
            /// Renders all texts for `schema`, a name as the server stores it: unquoted, of any characters; `tenant_setting`
            /// has been checked. `pooled`: for a pooler in transaction mode; `limit`: the time of a statement.
            pub(crate) fn render(
                schema: &str,
                tenant_setting: &str,
                pooled: bool,
                limit: Option<Duration>,
            ) -> Self {
                // A session of its own has the limit already.
                let begin: Arc<str> = match limit.filter(|_| pooled) {
                    Some(limit) => format!("{BEGIN}; {}", limited(limit, true)).into(),
                    None => BEGIN.into(),
                };
                let lock_wait = limit.map_or(BATCH_LOCK_WAIT, |limit| (limit / 2).min(BATCH_LOCK_WAIT));
                let lock_wait = millis(lock_wait);
                let renderer = Renderer::new(schema, tenant_setting, pooled.then(|| Arc::clone(&begin)));
                let settle = text("settle", include_str!("settle.sql"));
                Self {
                    channel: channel(schema),
                    schema: schema.to_owned(),
                    begin_batch: format!("{begin}; SET LOCAL lock_timeout = {lock_wait}").into(),
                    begin,
                    session: limit.filter(|_| !pooled).map(|limit| {
                        include_str!("session.sql").replace("{limit}", &limited(limit, false)).into()
                    }),
                    settle_moved: renderer.statement(&settle.replace("{place}", "")),
                    $($name: renderer.statement(&text(
                        stringify!($name),
                        include_str!(concat!(stringify!($name), ".sql")),
                    )),)+
                }
            }
        }

        /// The name and the text of each.
        #[cfg(all(test, feature = "fault-injection"))]
        pub(super) const TEXTS: &[(&str, &str)] =
            &[$((stringify!($name), include_str!(concat!(stringify!($name), ".sql"))),)+];
    };
}

statements! {
    append append_unordered append_all append_all_unordered append_once idempotency_event
    holders read lane lane_single lane_ids
    admin_lock register_any register_existing register_stored register relays_ended
    look leave want change_look pause resume
    resize_lanes resize_fewer resize_kept resize_more reset_start reset reset_stalls
    reset_dead_letters reset_duties
    remove remove_stalls remove_replays remove_attempts rename_taken rename rename_stalls rename_dead_letters rename_attempts
    claim claim_refused note_refusal stalls checks settle settle_refused stall_delete stall_upsert dead_letter_upsert due_stalls
    replay_requests discarded_heads replay_result
    inbox_insert inbox_insert_all inbox_guard inbox_unguard inbox_tenant inbox_holds
    inbox_compact inbox_forget inbox_forget_event inbox_copy
    notify notify_pause
    admin_lock_shared duty_lock duty_take duty_end duties record overdue registered compact compactable
    consumers lag dead_letters dead_letter_counts dead_letter_keys dead_letter_decide dead_letter_acknowledge
    event event_ids events events_in_time stored published_majors standing writers
    attempts_note attempts_of
}

impl Statements {
    /// The text of the statement that writes one event.
    pub(crate) fn append_text(&self, ordered: bool) -> Arc<str> {
        let statement = if ordered { &self.append } else { &self.append_unordered };
        Arc::clone(&statement.text)
    }

    /// The channel on which relays listen for commits.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// How a transaction begins.
    pub(super) fn begin(&self) -> AssertSqlSafe<Arc<str>> {
        // Safe, as the two below: texts of this folder, with a number in them.
        AssertSqlSafe(Arc::clone(&self.begin))
    }

    /// How a batch of recorder or retention begins, which waits for locks but a moment.
    pub(super) fn begin_batch(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(Arc::clone(&self.begin_batch))
    }

    /// What makes a session one of a relay's own; `None` behind a pooler, where sessions are nobody's.
    pub(super) fn session(&self) -> Option<AssertSqlSafe<Arc<str>>> {
        self.session.clone().map(AssertSqlSafe)
    }

    /// The schema's name, unquoted.
    pub(super) fn schema(&self) -> &str {
        &self.schema
    }
}

/// A rendered text. Only [`Renderer`] makes one, from a file of this folder.
pub(super) struct Statement {
    text: Arc<str>,
    pooled: Option<Arc<str>>,
}

impl Statement {
    /// The statement, ready for its values.
    pub(super) fn query(&self) -> Query {
        // Safe: a text of this folder, in which the schema's name is the only part that varies, quoted by `Renderer`.
        Query::new(sqlx::query(AssertSqlSafe(Arc::clone(&self.text))), self.pooled.clone())
    }

    /// The same, planned anew each time: for statements that run seldom and whose best plan depends on how much there
    /// is to do.
    pub(super) fn planned(&self) -> Query {
        Query::new(sqlx::query(AssertSqlSafe(Arc::clone(&self.text))).persistent(false), self.pooled.clone())
    }
}

/// Puts names for placeholders.
struct Renderer {
    schema: String,
    tenant_setting: String,
    pooled: Option<Arc<str>>,
}

impl Renderer {
    fn new(schema: &str, tenant_setting: &str, pooled: Option<Arc<str>>) -> Self {
        Self {
            schema: format!("\"{}\"", schema.replace('"', "\"\"")),
            tenant_setting: format!("'{tenant_setting}'"),
            pooled,
        }
    }

    fn statement(&self, text: &str) -> Statement {
        Statement { text: self.render(text).into(), pooled: self.pooled.clone() }
    }

    /// In one pass, so that a schema's name which looks like a placeholder stays a name.
    fn render(&self, text: &str) -> String {
        let mut rendered = String::with_capacity(text.len() + 256);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            rendered.push_str(before);
            let (name, behind) = after.split_once('}').unwrap_or(("", after));
            rest = behind;
            match name {
                "schema" => rendered.push_str(&self.schema),
                "tenant_setting" => rendered.push_str(&self.tenant_setting),
                "event" | "event_id_seq" | "epoch" => rendered.push_str(&self.literal(name)),
                "sees_all_rows" => {
                    // Parts of a statement hold placeholders themselves.
                    rendered.push_str(&self.render(include_str!("sees_all_rows.sql").trim_end()));
                }
                "known" => rendered.push_str(&self.render(include_str!("known.sql").trim_end())),
                "blocked_head" => {
                    rendered.push_str(&self.render(include_str!("blocked_head.sql").trim_end()));
                }
                "covered" => rendered.push_str(&self.render(include_str!("covered.sql").trim_end())),
                "walked" => rendered.push_str(&self.render(include_str!("walked.sql").trim_end())),
                "first_since" => {
                    rendered.push_str(&self.render(include_str!("first_since.sql").trim_end()));
                }
                "expired" => rendered.push_str(&self.render(include_str!("expired.sql").trim_end())),
                "slot_columns" => {
                    rendered.push_str(&self.render(include_str!("slot_columns.sql").trim_end()));
                }
                "event_columns" => rendered.push_str(include_str!("event_columns.sql").trim_end()),
                "event_filter" => rendered.push_str(include_str!("event_filter.sql").trim_end()),
                "letter_filter" => rendered.push_str(include_str!("letter_filter.sql").trim_end()),
                "page" => rendered.push_str(include_str!("page.sql").trim_end()),
                "place" => rendered.push_str("ctid = $14::tid AND"),
                "lane_lock" => rendered.push_str(LANE_LOCK),
                "admin_lock" => rendered.push_str(ADMIN_LOCK),
                _ => {
                    rendered.push('{');
                    rest = after;
                }
            }
        }
        rendered.push_str(rest);
        rendered
    }

    /// The name of an object of the schema as a string literal, to be cast to `regclass`. The E form reads a backslash
    /// in the same way whatever `standard_conforming_strings` says.
    fn literal(&self, object: &str) -> String {
        let name = format!("{}.{object}", self.schema);
        format!("E'{}'", name.replace('\\', "\\\\").replace('\'', "''"))
    }
}

/// The statement that sets the limit: in the transaction, else in the session.
fn limited(limit: Duration, local: bool) -> String {
    let text = include_str!("limit.sql").trim_end();
    text.replace("{limit}", &millis(limit).to_string())
        .replace("{local}", if local { "true" } else { "false" })
}

/// At least one millisecond, since 0 stands for no limit, and no more than the server's setting holds.
fn millis(length: Duration) -> i32 {
    i32::try_from(length.as_millis()).unwrap_or(i32::MAX).max(1)
}

/// `<schema>_event`. A schema's name too long for that is cut; then two outboxes may share a channel, and their relays
/// wake each other, which costs a read and no more.
fn channel(schema: &str) -> String {
    const SUFFIX: &str = "_event";
    let length = schema.floor_char_boundary(MAX_NAME - SUFFIX.len());
    format!("{}{SUFFIX}", &schema[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_wherever_they_stand() {
        let renderer = Renderer::new(r#"a'b\c"d{schema}"#, "app.tenant_id", None);
        assert_eq!(renderer.render("{schema}.event '{}' {"), r#""a'b\c""d{schema}".event '{}' {"#);
        assert_eq!(renderer.render("{event}::regclass"), r#"E'"a''b\\c""d{schema}".event'::regclass"#);
    }

    #[test]
    fn no_placeholder_is_left() {
        let statements =
            Statements::render("outbox", "app.tenant_id", false, Some(Duration::from_millis(525)));
        let session = statements.session.clone().unwrap();
        assert!(session.contains("525 * interval") && !session.contains('{'), "{session}");
        for statement in [
            &statements.settle,
            &statements.settle_moved,
            &statements.read,
            &statements.append,
            &statements.duties,
            &statements.record,
            &statements.overdue,
            &statements.compact,
            &statements.compactable,
            &statements.inbox_insert,
            &statements.inbox_insert_all,
            &statements.inbox_tenant,
        ] {
            assert!(!statement.text.replace("'{}'", "").contains('{'), "{}", statement.text);
        }
        assert!(statements.settle.text.contains("ctid = $14"));
        assert!(!statements.settle_moved.text.contains("$14"));
    }

    #[test]
    fn a_channel_is_a_name_that_the_server_takes() {
        assert_eq!(channel("outbox"), "outbox_event");
        assert_eq!(channel(&"x".repeat(63)).len(), 63);
        let cut = channel(&"ä".repeat(31));
        assert!(cut.len() <= 63 && cut.ends_with("ä_event"), "{cut}");
    }
}
