use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::PATIENCE;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Asks `holds` again and again until it answers true: for states that nothing announces, such as rows in a
/// database.
///
/// # Panics
/// When it is still false after [`PATIENCE`]; `what` says in the text what was waited for.
pub async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    eventually_within(PATIENCE, what, holds).await;
}

async fn eventually_within(limit: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    while !holds().await {
        assert!(started.elapsed() < limit, "waited {} s in vain until {what}", limit.as_secs_f32());
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn asks_until_the_answer_is_yes() {
        let mut asked = 0;
        eventually("the third question", async || {
            asked += 1;
            asked == 3
        })
        .await;
        assert_eq!(asked, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "in vain until pigs fly")]
    async fn gives_up_with_the_reason() {
        eventually_within(Duration::from_millis(20), "pigs fly", async || false).await;
    }
}
