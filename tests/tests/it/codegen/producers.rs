//! What a producer may publish: each construct that schemars 1.2 gives a schema of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, Utc, Weekday};
use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// Declares types with the derives that all of them have.
macro_rules! types {
    ($($item:item)*) => {
        $(
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
            $item
        )*
    };
}

types! {
    /// Every width of number.
    ///
    /// ```
    /// this is no code of the consumer
    /// ```
    pub(crate) struct NumbersSent {
        pub(crate) a: i8,
        pub(crate) b: i16,
        pub(crate) c: i32,
        pub(crate) d: i64,
        pub(crate) e: i128,
        pub(crate) f: u8,
        pub(crate) g: u16,
        pub(crate) h: u32,
        pub(crate) i: u64,
        pub(crate) j: u128,
        pub(crate) k: isize,
        pub(crate) l: usize,
        pub(crate) m: f32,
        pub(crate) n: f64,
        pub(crate) o: NonZeroU32,
        #[schemars(range(min = 1, max = 5))]
        pub(crate) p: u8,
    }

    /// Texts and what is written as text.
    pub(crate) struct TextsSent {
        pub(crate) string: String,
        pub(crate) letter: char,
        pub(crate) uuid: Uuid,
        pub(crate) at: DateTime<Utc>,
        pub(crate) local: DateTime<FixedOffset>,
        pub(crate) date: NaiveDate,
        pub(crate) date_time: NaiveDateTime,
        pub(crate) time: NaiveTime,
        pub(crate) day: Weekday,
        pub(crate) maybe_day: Option<Weekday>,
        pub(crate) price: Decimal,
        pub(crate) discount: Option<Decimal>,
        pub(crate) ip: IpAddr,
        pub(crate) v4: Ipv4Addr,
        pub(crate) v6: Ipv6Addr,
        #[schemars(length(min = 1, max = 3), regex(pattern = "^[a-z]+$"))]
        pub(crate) code: String,
        pub(crate) anything: Value,
        pub(crate) flag: bool,
        pub(crate) nothing: (),
    }

    /// Names that are no identifiers, or collide.
    #[serde(rename_all = "camelCase")]
    pub(crate) struct NamesSent {
        pub(crate) first_name: String,
        #[serde(rename = "type")]
        pub(crate) kind: u8,
        #[serde(rename = "self")]
        pub(crate) this: u8,
        #[serde(rename = "größe")]
        pub(crate) size: u8,
        #[serde(rename = "foo-bar")]
        pub(crate) dashed: u8,
        #[serde(rename = "foo_bar")]
        pub(crate) scored: u8,
        #[serde(rename = "")]
        pub(crate) empty: u8,
        #[serde(rename = "2nd \"quoted\"")]
        pub(crate) quoted: u8,
        #[deprecated]
        pub(crate) old: Option<u8>,
    }

    /// What may be absent, and what absence means.
    pub(crate) struct DefaultsSent {
        pub(crate) option: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) skipped: Option<String>,
        #[serde(default)]
        pub(crate) zero: u32,
        #[serde(default = "seven")]
        pub(crate) seven: u32,
        #[serde(default = "half")]
        pub(crate) half: f64,
        #[serde(default = "yes")]
        pub(crate) yes: bool,
        #[serde(default)]
        pub(crate) empty: String,
        #[serde(default = "quoted")]
        pub(crate) quoted: String,
        #[serde(default)]
        pub(crate) list: Vec<u8>,
        #[serde(default = "two")]
        pub(crate) two: Vec<u8>,
        #[serde(default)]
        pub(crate) map: BTreeMap<String, u8>,
        #[serde(default)]
        pub(crate) inner: Inner,
        #[serde(default = "some")]
        pub(crate) some: Option<u8>,
        #[serde(default)]
        pub(crate) word: Word,
        #[serde(default = "id")]
        pub(crate) id: Uuid,
        #[serde(default = "price")]
        pub(crate) price: Decimal,
        #[serde(default)]
        pub(crate) whole: Whole,
        #[serde(skip)]
        pub(crate) hidden: u8,
    }

    #[derive(Default)]
    pub(crate) struct Inner {
        pub(crate) count: u8,
        pub(crate) name: String,
        pub(crate) tags: Vec<String>,
    }

    #[derive(Default)]
    #[serde(rename_all = "kebab-case")]
    pub(crate) enum Word {
        #[default]
        NotYet,
        /// For ever.
        Done,
    }

    #[serde(default)]
    pub(crate) struct Whole {
        pub(crate) a: u32,
        pub(crate) b: String,
    }

    /// Lists, sets, tuples, arrays, maps.
    pub(crate) struct CollectionsSent {
        pub(crate) list: Vec<Option<Inner>>,
        pub(crate) maybe: Option<Vec<u8>>,
        pub(crate) set: BTreeSet<String>,
        pub(crate) words: BTreeSet<Letter>,
        pub(crate) floats: Vec<f64>,
        pub(crate) array: [u8; 3],
        pub(crate) tuple: (u8, String),
        pub(crate) single: (u8,),
        pub(crate) nested: (u8, (Inner, [bool; 2])),
        pub(crate) map: BTreeMap<String, Inner>,
        pub(crate) signed: BTreeMap<i64, u8>,
        pub(crate) unsigned: BTreeMap<u32, Inner>,
        pub(crate) maybe_keys: Option<BTreeMap<u32, u8>>,
        pub(crate) by_id: BTreeMap<Uuid, u8>,
        pub(crate) object: serde_json::Map<String, Value>,
    }

    #[derive(Eq, PartialOrd, Ord)]
    pub(crate) enum Letter {
        A,
        B,
    }

    /// Newtypes, unit structs, generics, the standard library's types.
    pub(crate) struct WrappersSent {
        pub(crate) email: Email,
        pub(crate) pair: Pair,
        pub(crate) meters: Meters,
        pub(crate) marker: Marker,
        pub(crate) nothing: Nothing,
        pub(crate) page: Page<u8>,
        pub(crate) pages: Page<Page<Inner>>,
        pub(crate) result: Result<u8, String>,
        pub(crate) wait: std::time::Duration,
        pub(crate) range: std::ops::Range<u8>,
        pub(crate) bound: std::ops::Bound<u8>,
        pub(crate) boxed: Box<Inner>,
        /// A name of Rust's prelude.
        pub(crate) option: prelude::Option,
    }

    /// An address.
    pub(crate) struct Email(pub(crate) String);

    pub(crate) struct Pair(pub(crate) u8, pub(crate) String);

    #[serde(transparent)]
    pub(crate) struct Meters {
        pub(crate) value: f64,
    }

    pub(crate) struct Marker;

    pub(crate) struct Nothing {}

    pub(crate) struct Page<T> {
        pub(crate) items: Vec<T>,
        pub(crate) next: Option<String>,
    }

    /// Types that hold themselves.
    pub(crate) struct TreeSent {
        pub(crate) value: u8,
        pub(crate) next: Option<Box<TreeSent>>,
        pub(crate) children: Vec<TreeSent>,
        pub(crate) forest: Forest,
        pub(crate) even: Option<Box<Even>>,
        pub(crate) expression: Expression,
    }

    pub(crate) struct Forest(pub(crate) Vec<Forest>);

    pub(crate) struct Even {
        pub(crate) odd: Option<Box<Odd>>,
    }

    pub(crate) struct Odd {
        pub(crate) even: (u8, Option<Box<Even>>),
    }

    pub(crate) enum Expression {
        Number(i64),
        Negated(Box<Expression>),
        Sum(Vec<Expression>),
        Product { left: Box<Expression>, right: Box<Expression> },
    }

    /// Enums in serde's four taggings.
    pub(crate) struct EnumsSent {
        pub(crate) plain: Word,
        pub(crate) external: Vec<External>,
        pub(crate) internal: Vec<Internal>,
        pub(crate) adjacent: Vec<Adjacent>,
        pub(crate) untagged: Vec<Untagged>,
        pub(crate) only: Only,
        pub(crate) alone: Alone,
        pub(crate) nested: Outer,
        pub(crate) mixed: Vec<Mixed>,
    }

    pub(crate) enum External {
        Nothing,
        /// Documented.
        Documented,
        Number(u8),
        Maybe(Option<u8>),
        Pair(u8, String),
        Inner(Inner),
        #[serde(rename = "by-hand")]
        ByHand {
            name: String,
            count: Option<u8>,
        },
        Empty {},
    }

    #[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
    pub(crate) enum Internal {
        Nothing,
        /// Documented.
        ByHand { full_name: String, #[serde(default)] how_many: u8 },
        Inner(Inner),
        Counted { shelves: BTreeMap<u32, u8> },
        Flattened { own: u8, #[serde(flatten)] inner: Inner },
        Open { #[serde(flatten)] rest: BTreeMap<String, u8> },
    }

    #[serde(tag = "t", content = "c")]
    pub(crate) enum Adjacent {
        Nothing,
        Number(u8),
        Pair(u8, String),
        Inner(Inner),
        ByHand { name: String },
    }

    #[serde(untagged)]
    pub(crate) enum Untagged {
        Nothing,
        Number(u8),
        Text(String),
        Pair(u8, u8),
        Inner(Inner),
        Flag { set: bool },
        List(Vec<String>),
    }

    pub(crate) enum Only {
        One,
    }

    #[serde(tag = "kind")]
    pub(crate) enum Alone {
        One { a: u8 },
    }

    #[serde(tag = "outer")]
    pub(crate) enum Outer {
        Inside(Inside),
    }

    #[serde(tag = "inner")]
    pub(crate) enum Inside {
        A { x: u8 },
        B,
    }

    pub(crate) enum Mixed {
        A { x: u8 },
        U,
        #[serde(untagged)]
        Other(String),
    }

    /// Members of other types among its own.
    pub(crate) struct FlattenedSent {
        pub(crate) id: u8,
        #[serde(flatten)]
        pub(crate) inner: Inner,
        #[serde(flatten)]
        pub(crate) internal: Inside,
        #[serde(flatten)]
        pub(crate) external: Choice,
    }

    pub(crate) enum Choice {
        Left { left: u8 },
        Right(Meta),
    }

    pub(crate) struct Meta {
        pub(crate) actor: String,
    }

    /// A tagged enum among the members.
    pub(crate) struct TaggedSent {
        pub(crate) id: u8,
        #[serde(flatten)]
        pub(crate) adjacent: Adjacent,
    }

    /// An enum without tag, that may be absent.
    pub(crate) struct MaybeSent {
        pub(crate) id: u8,
        #[serde(flatten)]
        pub(crate) inside: Option<Inside>,
        #[serde(flatten)]
        pub(crate) meta: Option<Meta>,
    }

    /// Members that nobody declared, of one type.
    pub(crate) struct ExtrasSent {
        pub(crate) id: u8,
        #[serde(flatten)]
        pub(crate) rest: BTreeMap<String, Choice>,
    }

    /// Members that nobody declared, of any type.
    pub(crate) struct OpenSent {
        pub(crate) id: u8,
        #[serde(flatten)]
        pub(crate) rest: BTreeMap<String, Value>,
    }

    /// Enums that may grow.
    pub(crate) struct GrowingSent {
        pub(crate) plan: Plan,
        pub(crate) external: Vec<OpenExternal>,
        pub(crate) internal: Vec<OpenInternal>,
        pub(crate) adjacent: Vec<OpenAdjacent>,
        pub(crate) untagged: Vec<OpenUntagged>,
    }

    #[schemars(transform = outbox_sdk::open_enum)]
    pub(crate) enum Plan {
        /// Pays nothing.
        Free,
        Paid,
    }

    #[schemars(transform = outbox_sdk::open_enum)]
    pub(crate) enum OpenExternal {
        Nothing,
        ByHand { name: String },
        Robot(u32),
    }

    #[serde(tag = "kind")]
    #[schemars(transform = outbox_sdk::open_enum)]
    pub(crate) enum OpenInternal {
        Nothing,
        ByHand { name: String },
    }

    #[serde(tag = "kind", content = "of")]
    #[schemars(transform = outbox_sdk::open_enum)]
    pub(crate) enum OpenAdjacent {
        Nothing,
        Inner(Inner),
    }

    #[serde(untagged)]
    #[schemars(transform = outbox_sdk::open_enum)]
    pub(crate) enum OpenUntagged {
        Text(String),
        Number(u8),
    }
}

/// A type whose name the generated text uses for another one.
pub(crate) mod prelude {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub(crate) struct Option {
        pub(crate) text: String,
    }
}

/// `serde_repr` and hand-written schemas give integers as literals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LiteralsSent {
    #[schemars(extend("enum" = [-1, 0, 7]))]
    pub(crate) level: i64,
    #[schemars(extend("const" = "order"))]
    pub(crate) entity: String,
    #[schemars(extend("const" = true))]
    pub(crate) flag: bool,
}

impl Default for Whole {
    fn default() -> Self {
        Self { a: 3, b: "x".to_owned() }
    }
}

fn seven() -> u32 {
    7
}

fn half() -> f64 {
    0.5
}

fn yes() -> bool {
    true
}

fn quoted() -> String {
    "a \"quoted\"\nline".to_owned()
}

fn two() -> Vec<u8> {
    vec![1, 2]
}

fn some() -> Option<u8> {
    Some(4)
}

fn id() -> Uuid {
    Uuid::from_u128(0x0193_f0c4_5b7e_7b6e_9d2b_0a4d_3c1b_2a19)
}

fn price() -> Decimal {
    Decimal::new(1250, 2)
}
