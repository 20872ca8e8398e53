//! Names of the schema as names of the generated language: the same input gives the same names, whatever else is pinned.

use std::collections::BTreeSet;

/// Words that are no identifiers in Rust, of every edition.
const KEYWORDS: [&str; 53] = [
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do",
    "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield", "_",
];

/// Keywords that not even `r#` makes identifiers.
const NEVER_RAW: [&str; 5] = ["Self", "crate", "self", "super", "_"];

/// Types that the generated text names without a path: a type of the schema with such a name gets a number.
const PRELUDE: [&str; 17] = [
    "Box", "Clone", "Copy", "Debug", "Default", "Eq", "Err", "From", "None", "Ok", "Option", "Result",
    "Self", "Some", "String", "TryFrom", "Vec",
];

/// The words of a name: parts between characters that are no ASCII letters or digits, split where a capital begins a word.
/// Other letters are told by their code, so that two names stay two.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    let chars: Vec<char> = name.chars().collect();
    for (i, &c) in chars.iter().enumerate() {
        if c.is_ascii_alphanumeric() {
            let before = i.checked_sub(1).and_then(|i| chars.get(i));
            let after = chars.get(i + 1);
            let begins = c.is_ascii_uppercase()
                && (before.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
                    || before.is_some_and(char::is_ascii_uppercase)
                        && after.is_some_and(char::is_ascii_lowercase));
            if !open || begins {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push(c.to_ascii_lowercase());
            }
            open = true;
        } else {
            open = false;
            if !c.is_ascii() {
                words.push(format!("u{:04x}", u32::from(c)));
            }
        }
    }
    words
}

/// `likeThis` as `like_this`; never empty, never begins with a digit.
pub(crate) fn snake(name: &str) -> String {
    let snake = words(name).join("_");
    match snake.chars().next() {
        None => "empty".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("n{snake}"),
        Some(_) => snake,
    }
}

/// `like-this` as `LikeThis`; never empty, never begins with a digit.
pub(crate) fn pascal(name: &str) -> String {
    let mut pascal = String::new();
    for word in words(name) {
        let (head, tail) = word.split_at(1);
        // Two numbers must not become one.
        if pascal.ends_with(|c: char| c.is_ascii_digit()) && head.starts_with(|c: char| c.is_ascii_digit()) {
            pascal.push('_');
        }
        pascal.push_str(&head.to_ascii_uppercase());
        pascal.push_str(tail);
    }
    match pascal.chars().next() {
        None => "Empty".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("N{pascal}"),
        Some(_) => pascal,
    }
}

/// The identifier in Rust's text: keywords are written raw.
pub(crate) fn raw(ident: &str) -> String {
    if NEVER_RAW.contains(&ident) {
        format!("{ident}_")
    } else if KEYWORDS.contains(&ident) {
        format!("r#{ident}")
    } else {
        ident.to_owned()
    }
}

/// Names that are taken in one scope.
#[derive(Debug, Default)]
pub(crate) struct Scope(BTreeSet<String>);

impl Scope {
    /// The scope of types in a module.
    pub(crate) fn of_types() -> Self {
        Self(PRELUDE.iter().map(ToString::to_string).collect())
    }

    /// The name, with the first free number behind it if it is taken.
    pub(crate) fn take(&mut self, name: String) -> String {
        if self.0.insert(name.clone()) {
            return name;
        }
        let separator = if name.ends_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
        (2_u64..)
            .map(|n| format!("{name}{separator}{n}"))
            .find(|numbered| self.0.insert(numbered.clone()))
            .unwrap_or(name)
    }
}

/// One identifier for each name, in the order of `names`. A name that is an identifier already keeps it, so that what is
/// added beside it later does not rename it.
pub(crate) fn identifiers<'n>(
    names: impl IntoIterator<Item = &'n str> + Clone,
    convert: fn(&str) -> String,
    mut scope: Scope,
) -> (Vec<String>, Scope) {
    let exact: BTreeSet<&str> = names.clone().into_iter().filter(|name| convert(name) == *name).collect();
    let kept: BTreeSet<&str> = exact.into_iter().filter(|name| scope.0.insert((*name).to_owned())).collect();
    let one = |name: &str| if kept.contains(name) { name.to_owned() } else { scope.take(convert(name)) };
    let identifiers = names.into_iter().map(one).collect();
    (identifiers, scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, snake_case, pascal_case) in [
            ("customer_id", "customer_id", "CustomerId"),
            ("customerId", "customer_id", "CustomerId"),
            ("CustomerID", "customer_id", "CustomerId"),
            ("HTTPServer", "http_server", "HttpServer"),
            ("draft-one", "draft_one", "DraftOne"),
            ("a.b c", "a_b_c", "ABC"),
            ("2fa", "n2fa", "N2fa"),
            ("v1.2", "v1_2", "V1_2"),
            ("", "empty", "Empty"),
            ("+", "empty", "Empty"),
            ("größe", "gr_u00f6_u00df_e", "GrU00f6U00dfE"),
            ("名", "u540d", "U540d"),
            ("__x__", "x", "X"),
        ] {
            assert_eq!((snake(name).as_str(), pascal(name).as_str()), (snake_case, pascal_case), "{name}");
        }
    }

    #[test]
    fn keywords_are_raw() {
        for (ident, text) in
            [("type", "r#type"), ("gen", "r#gen"), ("self", "self_"), ("Self", "Self_"), ("id", "id")]
        {
            assert_eq!(raw(ident), text);
        }
    }

    #[test]
    fn a_collision_gets_a_number_and_renames_nobody() {
        let of = |names: &[&str]| identifiers(names.iter().copied(), snake, Scope::default()).0;
        assert_eq!(of(&["fooBar", "foo_bar"]), ["foo_bar2", "foo_bar"]);
        assert_eq!(of(&["foo-bar", "fooBar", "foo_bar2"]), ["foo_bar", "foo_bar3", "foo_bar2"]);
        assert_eq!(of(&["+", "-", ""]), ["empty", "empty2", "empty3"]);
        let types = identifiers(["String", "option"], pascal, Scope::of_types()).0;
        assert_eq!(types, ["String2", "Option2"]);
    }
}
