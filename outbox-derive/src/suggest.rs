//! Which known word a misspelt one was meant to be.

/// The candidate that is nearest to `word`, if one is near enough to be what was meant: at most one edit for
/// every three characters. Of several equally near ones the first wins.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let reach = word.chars().count().div_ceil(3);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance: insertions, deletions and replacements, one row of the table at a time.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (1..=to.len()).collect();
    let mut last = to.len();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        last = i + 1;
        for (b, above) in to.iter().zip(&mut row) {
            last = (diagonal + usize::from(a != *b)).min(last + 1).min(*above + 1);
            diagonal = std::mem::replace(above, last);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn distance_counts_single_edits() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("event_typ", "event_type", 1),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("größe", "grösse", 2),
        ] {
            assert_eq!(distance(from, to), expected, "{from} -> {to}");
            assert_eq!(distance(to, from), expected, "{to} -> {from}");
        }
    }

    #[test]
    fn only_near_words_are_suggested() {
        let keys = ["event_type", "schema_version", "aggregate_type"];
        assert_eq!(nearest("event_typ", keys), Some("event_type"));
        assert_eq!(nearest("schemaVersion", keys), Some("schema_version"));
        assert_eq!(nearest("aggregat_typ", keys), Some("aggregate_type"));
        assert_eq!(nearest("name", keys), None);
        assert_eq!(nearest("", keys), None);
    }
}
