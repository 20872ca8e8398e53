//! English past tense, as far as event names need it: refuse a verb that is certainly not in it, and take a name
//! from a struct only if its verb certainly is.

use std::error::Error;
use std::fmt;

use crate::event_type::{MAX_LEN, is_well_formed, verb_of, words};

/// Irregular verbs: base form, past participle, and the simple past where it differs.
const IRREGULAR: [(&str, &str, &str); 58] = [
    ("become", "become", "became"),
    ("begin", "begun", "began"),
    ("bind", "bound", "bound"),
    ("break", "broken", "broke"),
    ("bring", "brought", "brought"),
    ("build", "built", "built"),
    ("buy", "bought", "bought"),
    ("catch", "caught", "caught"),
    ("choose", "chosen", "chose"),
    ("come", "come", "came"),
    ("deal", "dealt", "dealt"),
    ("do", "done", "did"),
    ("draw", "drawn", "drew"),
    ("drive", "driven", "drove"),
    ("fall", "fallen", "fell"),
    ("feed", "fed", "fed"),
    ("find", "found", "found"),
    ("forbid", "forbidden", "forbade"),
    ("forget", "forgotten", "forgot"),
    ("freeze", "frozen", "froze"),
    ("get", "gotten", "got"),
    ("give", "given", "gave"),
    ("go", "gone", "went"),
    ("grow", "grown", "grew"),
    ("hide", "hidden", "hid"),
    ("hold", "held", "held"),
    ("keep", "kept", "kept"),
    ("know", "known", "knew"),
    ("lead", "led", "led"),
    ("leave", "left", "left"),
    ("lend", "lent", "lent"),
    ("lose", "lost", "lost"),
    ("make", "made", "made"),
    ("meet", "met", "met"),
    ("overdraw", "overdrawn", "overdrew"),
    ("override", "overridden", "overrode"),
    ("pay", "paid", "paid"),
    ("rebuild", "rebuilt", "rebuilt"),
    ("repay", "repaid", "repaid"),
    ("resend", "resent", "resent"),
    ("rewrite", "rewritten", "rewrote"),
    ("rise", "risen", "rose"),
    ("run", "run", "ran"),
    ("sell", "sold", "sold"),
    ("send", "sent", "sent"),
    ("show", "shown", "showed"),
    ("speak", "spoken", "spoke"),
    ("spend", "spent", "spent"),
    ("stand", "stood", "stood"),
    ("steal", "stolen", "stole"),
    ("take", "taken", "took"),
    ("teach", "taught", "taught"),
    ("tell", "told", "told"),
    ("throw", "thrown", "threw"),
    ("undo", "undone", "undid"),
    ("win", "won", "won"),
    ("withdraw", "withdrawn", "withdrew"),
    ("write", "written", "wrote"),
];

/// More irregular verbs, of which only the past is needed: their base form is not certainly wrong, or is the same.
const PAST_ONLY: &str = "\
    beaten broadcast cast forecast foreseen hit hurt overtaken preset put quit read reread reset resold \
    seen set shut split spread sunk unset upheld upset";

/// Regular verbs that events are often named after, in the base form. A base form that also is a noun, a state or
/// its own past is left out unless nobody would end an event's name with it.
const REGULAR: &str = "\
    abort accept acknowledge activate add adjust allocate apply approve archive assign attach authorize \
    block book calculate cancel capture change charge check clear close collect complete confirm connect \
    convert copy correct create credit deactivate debit decline delete deliver deny deploy detach \
    disable disconnect dispatch download drop edit enable end enroll exceed execute expire export extend \
    fail finish fulfill generate grant import initiate insert install invite invoice issue join link \
    load lock log merge modify move notify open order pause place post process provision publish receive \
    refund register reject release remove rename renew replace request reserve resolve restore resume \
    retry return revoke save schedule ship sign start stop submit subscribe suspend terminate transfer \
    trigger unlock unsubscribe update upgrade upload validate verify";

/// Words that end in `-ed` and are no past tense.
const NOT_PAST: &str = "\
    bed biped bloodshed embed flatbed hotbed hundred infrared kindred med moped naked red riverbed \
    sacred seabed shed shred sled testbed watershed wed";

/// The past forms among the words that end in `-eed`; the others are nouns and base forms (feed, seed, need, exceed).
const PAST_IN_EED: &str = "agreed decreed disagreed freed guaranteed refereed";

/// Words that may follow the verb and belong to it, as in `signed_up`.
const PARTICLES: &str =
    "across again ahead apart around away back by down forward in off on out over through together up";

/// An explicit name whose verb is certainly not in the past tense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenseError {
    /// The last segment of the name.
    pub verb: String,
    /// The whole name with the verb in the past tense, if that can be told.
    pub suggestion: Option<String>,
}

impl TenseError {
    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> String {
        match &self.suggestion {
            Some(name) => format!("write `{name}`"),
            None => "write the verb in the past tense, as in `customer.updated`".to_owned(),
        }
    }
}

impl fmt::Display for TenseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = &self.verb;
        write!(f, "`{verb}` is not in the past tense: an event says what happened\nhelp: {}", self.help())
    }
}

impl Error for TenseError {}

/// Refuses an explicit name only if its verb is certainly wrong: a well-known base form (`create`, `send`) or `-ing`.
///
/// Says nothing about the shape; see [`check_shape`](crate::check_shape).
///
/// ```
/// use outbox_schema::check_tense;
///
/// assert!(check_tense("customer.put_on_hold").is_ok());
/// assert!(check_tense("customer.update").unwrap_err().to_string().ends_with("help: write `customer.updated`"));
/// ```
///
/// # Errors
/// The verb, and the name with its past form where it is known.
pub fn check_tense(name: &str) -> Result<(), TenseError> {
    let verb = verb_of(name);
    let parts: Vec<&str> = verb.split('_').collect();
    let head = match parts.as_slice() {
        [.., _, particle] if lists(PARTICLES, particle) => parts.len() - 2,
        _ => parts.len() - 1,
    };
    // `put_on_hold`: one word in the past makes the verb, whatever follows it.
    if parts.iter().any(|part| is_past(part)) {
        return Ok(());
    }
    let base = base_of(parts[head]);
    if base.is_none() && !parts[head].ends_with("ing") {
        return Ok(());
    }
    let suggestion = base.map(|base| {
        let past = past_of(base);
        let words: Vec<&str> =
            parts.iter().enumerate().map(|(i, part)| if i == head { past.as_str() } else { *part }).collect();
        format!("{}{}", &name[..name.len() - verb.len()], words.join("_"))
    });
    Err(TenseError { verb: verb.to_owned(), suggestion })
}

/// A struct name that gives no event type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// The name does not end in a verb that is known to be in the past tense.
    NotPast {
        /// The struct's name.
        name: String,
        /// The name as it might have been meant, if that can be told.
        suggestion: Option<String>,
    },
    /// The name is only a verb.
    NoObject {
        /// The struct's name.
        name: String,
    },
    /// The name has characters that an event type cannot have, or is too long for one.
    NotAName {
        /// The struct's name.
        name: String,
    },
}

impl NameError {
    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> String {
        "rename the struct, or say it: `#[outbox(event_type = \"<object>.<verb>\")]`".to_owned()
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotPast { name, .. } | Self::NoObject { name } | Self::NotAName { name }) = self;
        write!(f, "cannot derive an event type from the name `{name}`: ")?;
        match self {
            Self::NotPast { suggestion, .. } => {
                let example = suggestion.as_deref().unwrap_or("CustomerUpdated");
                write!(f, "it must be an object followed by a past-tense verb, as in `{example}`")?;
            }
            Self::NoObject { .. } => write!(f, "it says what happened, but not to what")?,
            Self::NotAName { .. } => {
                write!(f, "an event type has letters a-z and digits only, and at most {MAX_LEN} bytes")?;
            }
        }
        write!(f, "\nhelp: {}", self.help())
    }
}

impl Error for NameError {}

/// The event type that a struct's name stands for: the last word, or the last two with a particle, is the verb.
///
/// Never guesses: a verb that is not known to be in the past tense is an error. Names of three segments have to be
/// written out.
///
/// ```
/// use outbox_schema::derive_name;
///
/// assert_eq!(derive_name("CustomerUpdated").as_deref(), Ok("customer.updated"));
/// assert_eq!(derive_name("UserSignedUp").as_deref(), Ok("user.signed_up"));
/// assert!(derive_name("CustomerUpdate").is_err());
/// ```
///
/// # Errors
/// [`NameError`], with the way out in its text.
pub fn derive_name(struct_name: &str) -> Result<String, NameError> {
    let name = struct_name.strip_prefix("r#").unwrap_or(struct_name);
    let words = words(name);
    let verb_len = match words.as_slice() {
        [.., verb, particle] if lists(PARTICLES, particle.as_str()) && is_past(verb) => 2,
        [.., verb] if is_past(verb) => 1,
        _ => {
            return Err(NameError::NotPast {
                name: name.to_owned(),
                suggestion: with_past_verb(name, &words),
            });
        }
    };
    let (object, verb) = words.split_at(words.len() - verb_len);
    if object.is_empty() {
        return Err(NameError::NoObject { name: name.to_owned() });
    }
    let event_type = format!("{}.{}", object.join("_"), verb.join("_"));
    if !is_well_formed(&event_type) {
        return Err(NameError::NotAName { name: name.to_owned() });
    }
    Ok(event_type)
}

/// `name` with its last word, a known base form, in the past tense.
fn with_past_verb(name: &str, words: &[String]) -> Option<String> {
    let [.., last] = words else { return None };
    let past = past_of(base_of(last)?);
    let kept = name.get(..name.len().checked_sub(last.len())?)?;
    let (first, rest) = past.split_at_checked(1)?;
    (!kept.is_empty()).then(|| format!("{kept}{}{rest}", first.to_ascii_uppercase()))
}

/// Whether a table, words with a space between, has this word.
fn lists(table: &str, word: &str) -> bool {
    table.split(' ').any(|listed| listed == word)
}

fn is_past(word: &str) -> bool {
    if IRREGULAR.iter().any(|&(_, participle, simple)| word == participle || word == simple)
        || lists(PAST_ONLY, word)
    {
        return true;
    }
    if word.ends_with("eed") {
        return lists(PAST_IN_EED, word);
    }
    word.len() > 3 && word.ends_with("ed") && !lists(NOT_PAST, word)
}

/// The base form that `word` is, or is the `-ing` form of; only where it is not a past form as well.
fn base_of(word: &str) -> Option<&'static str> {
    if is_past(word) {
        return None;
    }
    let bases = || IRREGULAR.iter().map(|&(base, ..)| base).chain(REGULAR.split(' '));
    bases().find(|base| *base == word).or_else(|| bases().find(|base| ing_of(base) == word))
}

fn ing_of(base: &str) -> String {
    match base.strip_suffix('e') {
        Some(stem) if !stem.ends_with('e') => format!("{stem}ing"),
        _ => format!("{}ing", doubled(base)),
    }
}

fn past_of(base: &str) -> String {
    if let Some((_, past, _)) = IRREGULAR.iter().find(|(irregular, ..)| *irregular == base) {
        return (*past).to_owned();
    }
    if base.ends_with('e') {
        return format!("{base}d");
    }
    match base.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ied"),
        _ => format!("{}ed", doubled(base)),
    }
}

/// The last consonant twice, for the verbs of the tables that want it.
fn doubled(base: &str) -> String {
    let doubles = matches!(
        base,
        "begin"
            | "drop"
            | "forbid"
            | "forget"
            | "get"
            | "log"
            | "run"
            | "ship"
            | "stop"
            | "submit"
            | "transfer"
            | "win"
    );
    match base.chars().last() {
        Some(last) if doubles => format!("{base}{last}"),
        _ => base.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certainly_wrong_verbs_are_refused_with_their_past_form() {
        let table = [
            ("customer.update", "customer.updated"),
            ("entity.customer.create", "entity.customer.created"),
            ("customer.delete", "customer.deleted"),
            ("mail.send", "mail.sent"),
            ("invoice.pay", "invoice.paid"),
            ("order.cancel", "order.canceled"),
            ("order.ship", "order.shipped"),
            ("form.submit", "form.submitted"),
            ("claim.deny", "claim.denied"),
            ("app.deploy", "app.deployed"),
            ("money.withdraw", "money.withdrawn"),
            ("user.sign_up", "user.signed_up"),
            ("user.log_in", "user.logged_in"),
            ("customer.address_update", "customer.address_updated"),
            ("customer.updating", "customer.updated"),
            ("mail.sending", "mail.sent"),
            ("order.shipping", "order.shipped"),
            ("limit.exceed", "limit.exceeded"),
            ("report.build", "report.built"),
            ("letter.write", "letter.written"),
            ("letter.writing", "letter.written"),
            ("mail.verify", "mail.verified"),
        ];
        for (name, fixed) in table {
            let error = check_tense(name).unwrap_err();
            assert_eq!(error.suggestion.as_deref(), Some(fixed), "{name}");
            assert!(error.to_string().ends_with(&format!("help: write `{fixed}`")), "{error}");
        }
        let error = check_tense("customer.pondering").unwrap_err();
        assert_eq!((error.verb.as_str(), error.suggestion), ("pondering", None));
    }

    #[test]
    fn everything_that_may_be_right_passes() {
        for name in [
            "customer.updated",
            "customer.put_on_hold",
            "customer.overdue",
            "stock.low",
            "user.signed_up",
            "job.run",
            "password.reset",
            "vote.cast",
            "order.split",
            "message.read",
            "payment.update_failed",
            "user.left",
            "handling_unit.weighed",
            "order.geprueft",
            "customer",
        ] {
            assert_eq!(check_tense(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_are_derived_from_known_past_tenses() {
        let table = [
            ("CustomerUpdated", "customer.updated"),
            ("UserSignedUp", "user.signed_up"),
            ("CustomerHasServiceCreated", "customer_has_service.created"),
            ("r#CustomerUpdated", "customer.updated"),
            ("PasswordReset", "password.reset"),
            ("MailSent", "mail.sent"),
            ("InvoicePaid", "invoice.paid"),
            ("MoneyWithdrawn", "money.withdrawn"),
            ("ImportBegun", "import.begun"),
            ("ImportBegan", "import.began"),
            ("HTTPCallFailed", "http_call.failed"),
            ("Oauth2TokenIssued", "oauth2_token.issued"),
            ("TermsAgreed", "terms.agreed"),
            ("FeedFed", "feed.fed"),
            ("GoodsSold", "goods.sold"),
            ("HouseBuilt", "house.built"),
            ("FlagSet", "flag.set"),
            ("PriceSetBack", "price.set_back"),
            ("DeviceTurnedOff", "device.turned_off"),
            ("LetterWritten", "letter.written"),
        ];
        for (name, expected) in table {
            assert_eq!(derive_name(name).as_deref(), Ok(expected), "{name}");
        }
    }

    #[test]
    fn names_that_are_not_sure_ask_for_the_literal() {
        for name in [
            "CustomerUpdate",
            "NewsFeed",
            "RandomSeed",
            "CustomerNeed",
            "FlowerBed",
            "MaxSpeed",
            "SignUp",
            "CustomerSignUp",
            "Customer",
            "CustomerUpdating",
            "SpeedLimitExceed",
            "Ed",
            "",
        ] {
            let error = derive_name(name).unwrap_err();
            assert!(matches!(error, NameError::NotPast { .. }), "{name}: {error}");
            assert!(error.to_string().contains("say it: `#[outbox(event_type = "), "{error}");
        }
        let text = derive_name("OrderShip").unwrap_err().to_string();
        assert!(text.contains("as in `OrderShipped`"), "{text}");
        let text = derive_name("CustomerFile").unwrap_err().to_string();
        assert!(text.contains("as in `CustomerUpdated`"), "{text}");
        assert_eq!(derive_name("Deleted"), Err(NameError::NoObject { name: "Deleted".to_owned() }));
        assert_eq!(derive_name("SignedUp"), Err(NameError::NoObject { name: "SignedUp".to_owned() }));
        let umlaut = "KündigungReceived";
        assert_eq!(derive_name(umlaut), Err(NameError::NotAName { name: umlaut.to_owned() }));
        let long = format!("{}Updated", "A".repeat(200));
        assert!(matches!(derive_name(&long), Err(NameError::NotAName { .. })));
    }

    #[test]
    fn the_word_tables_do_not_contradict_each_other() {
        for (base, participle, simple) in IRREGULAR {
            assert!(is_past(participle) && is_past(simple), "{base}");
        }
        for base in REGULAR.split(' ') {
            assert_eq!(base_of(base), Some(base), "{base} is its own past");
            assert!(is_past(&past_of(base)), "{base}");
        }
        for word in NOT_PAST.split(' ') {
            assert!(!is_past(word), "{word}");
        }
        for particle in PARTICLES.split(' ') {
            assert!(!is_past(particle), "{particle}");
        }
    }
}
