//! What the toolkit's own tests break on purpose: a process that dies at a named point, and engines with one rule
//! planted wrong. Only with the feature `fault-injection`, which release builds refuse; without it both questions are
//! constants, and nothing of them is left in the program.

#[cfg(all(feature = "fault-injection", not(debug_assertions)))]
compile_error!(
    "the feature `fault-injection` lets a relay crash and break its promises on request, for tests: build without it"
);

/// The points at which a process can be made to die, in the order of an event's way.
pub const CRASH_POINTS: &[&str] = &[
    "claimed",
    "before_send",
    "handler_tx_open",
    "handler_committed",
    "sent",
    "before_settle",
    "in_settle",
    "after_settle",
    "stall_written",
    "lane_read",
    "renewed",
    "drain_start",
    "in_record",
    "recorded",
    "in_compact",
    "replay_sent",
];

/// The wrong engines, each with one rule broken. `scripts/planted` names the tests that must notice each of them.
pub const FAULTS: &[&str] = &[
    // Publishing.
    "no-aggregate-lock",
    "id-before-lock",
    "bulk-without-locks",
    // Reading.
    "two-statement-read",
    "one-snapshot",
    "separate-limits",
    "limit-judged",
    "holders-before-read",
    "prepared-ignored",
    "xid-expiry",
    "time-expiry",
    "gap-not-settled",
    "memory-kept",
    "join-with-holes",
    // Ownership and settling.
    "no-fence",
    "fence-without-rev",
    "stall-unfenced",
    "anchor-read-only",
    "epoch-reuse",
    "claim-with-stalls",
    "stall-apart",
    "range-settle",
    "settled-before-answer",
    "send-after-lease",
    // Lanes.
    "attempts-twice",
    "handback-unlooked",
    "head-to-mark",
    "lane-read-unfiltered",
    "late-covered",
    // Duties and changes.
    "record-covered",
    "record-unsettled",
    "compact-young",
    "compact-unsettled",
    "reset-keeps-stalls",
    "resize-keeps-foreign",
];

/// Kills this process at the nth pass over the point `name`, when `OUTBOX_CRASH_POINT` is `name:nth`.
///
/// By an abort: the thread does not come back from it, nothing is unwound, no destructor and no exit handler runs, and the
/// kernel closes the sockets, as after SIGKILL. A SIGKILL to oneself needs `unsafe` or another process, and while that one
/// starts the other threads would run past the point.
#[cfg(feature = "fault-injection")]
pub fn crash_point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static CHOSEN: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSES: AtomicU64 = AtomicU64::new(0);
    debug_assert!(CRASH_POINTS.contains(&name), "CRASH_POINTS lacks {name}");
    let chosen = CHOSEN.get_or_init(|| {
        let value = std::env::var("OUTBOX_CRASH_POINT").ok()?;
        let (point, nth) = value.split_once(':')?;
        Some((point.to_owned(), nth.parse().ok()?))
    });
    if let Some((point, nth)) = chosen
        && point == name
        && PASSES.fetch_add(1, Ordering::Relaxed) + 1 == *nth
    {
        std::process::abort();
    }
}

/// Does nothing without the feature `fault-injection`.
#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
pub const fn crash_point(_: &str) {}

/// Whether `OUTBOX_PLANTED_FAULT` asks for the wrong engine `name`.
#[cfg(feature = "fault-injection")]
#[must_use]
pub fn planted(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    debug_assert!(FAULTS.contains(&name), "FAULTS lacks {name}");
    let chosen = CHOSEN.get_or_init(|| std::env::var("OUTBOX_PLANTED_FAULT").ok());
    chosen.as_deref() == Some(name)
}

/// Never without the feature `fault-injection`.
#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
#[must_use]
pub const fn planted(_: &str) -> bool {
    false
}
