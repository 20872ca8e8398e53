//! What a comparison finds, as values: verdicts, rules, findings. No text is made here but the rules' names.

use serde::{Serialize, Serializer};
use serde_json::Value;

/// What a change of a schema means for both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Whether new readers accept everything that old writers can have written: what a replay needs.
    pub backward: Verdict,
    /// Whether old readers accept everything that new writers can write: what a consumer that stays as it is needs.
    pub forward: Verdict,
    /// What was found, worst first, then by pointer.
    pub findings: Vec<Finding>,
}

impl Comparison {
    /// The worse of both verdicts.
    #[must_use]
    pub fn worst(&self) -> Verdict {
        self.backward.max(self.forward)
    }

    /// Whether both directions are proved.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.worst() == Verdict::Compatible
    }

    /// The verdict of one direction.
    #[must_use]
    pub fn verdict(&self, direction: Direction) -> Verdict {
        match direction {
            Direction::Backward => self.backward,
            Direction::Forward => self.forward,
        }
    }
}

/// Whether one direction is safe. The worst is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Proved: no payload of the writer is refused by the reader.
    Compatible,
    /// Neither proved nor refuted. To be treated as breaking.
    Undecided,
    /// There is a payload that the writer can write and the reader refuses.
    Breaking,
}

impl Verdict {
    /// As in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Undecided => "undecided",
            Self::Breaking => "breaking",
        }
    }
}

/// Who writes and who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Old payloads, new readers.
    Backward,
    /// New payloads, old readers.
    Forward,
}

impl Direction {
    /// As in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Backward => "backward",
            Self::Forward => "forward",
        }
    }
}

/// How much a finding weighs. The worst is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A change that breaks nobody.
    Note,
    /// A change that breaks no reader, but may not be what was meant.
    Warning,
    /// Cannot be decided; to be treated as breaking.
    Undecided,
    /// Breaks a reader.
    Breaking,
}

impl Severity {
    /// As in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Undecided => "undecided",
            Self::Breaking => "breaking",
        }
    }
}

/// Which of the two documents a pointer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The old one.
    Old,
    /// The new one.
    New,
}

/// One thing that changed, and what it means.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Which rule says so.
    pub rule: Rule,
    /// How much it weighs.
    pub severity: Severity,
    /// Which direction it breaks, or leaves open; `None` for notes and warnings.
    pub direction: Option<Direction>,
    /// Which document `pointer` is in.
    pub side: Side,
    /// Where in that document, as a JSON pointer; empty for its root.
    pub pointer: String,
    /// What breaks, and for whom.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// A payload that the writer of this direction can write and the reader refuses: verified, not guessed.
    pub witness: Option<Value>,
}

macro_rules! rules {
    ($($(#[$doc:meta])+ $name:ident = $id:literal,)+) => {
        /// The rules by which changes are named. Where a change lies inside something (an item, a value of a map, a slot of
        /// a tuple, a variant), the inner rule is reported, with the pointer into it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])+ $name,)+
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The name of the rule, as in reports and in files that override it.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)+
                }
            }
        }
    };
}

rules! {
    /// A member that payloads need not have was added.
    FieldAddedOptional = "field-added-optional",
    /// A member that readers insist on was added.
    FieldAddedRequired = "field-added-required",
    /// A member was added to an object whose old readers refuse members that they do not know.
    FieldAddedClosed = "field-added-closed",
    /// A member that payloads need not have was removed.
    FieldRemovedOptional = "field-removed-optional",
    /// A member that old readers insist on was removed.
    FieldRemovedRequired = "field-removed-required",
    /// A member was removed from an object whose new readers refuse members that they do not know.
    FieldRemovedClosed = "field-removed-closed",
    /// An optional member became required.
    RequiredAdded = "required-added",
    /// A required member became optional.
    RequiredRemoved = "required-removed",
    /// What absence means has changed.
    DefaultChanged = "default-changed",
    /// Absence has a meaning now.
    DefaultAdded = "default-added",
    /// Absence has no meaning any more.
    DefaultRemoved = "default-removed",
    /// `null` is allowed now.
    NullAdded = "null-added",
    /// `null` is not allowed any more.
    NullRemoved = "null-removed",
    /// More types are allowed.
    TypeWidened = "type-widened",
    /// Fewer types are allowed.
    TypeNarrowed = "type-narrowed",
    /// Another type altogether.
    TypeChanged = "type-changed",
    /// The range of an integer changed, its format included.
    IntRange = "int-range",
    /// A bound of a number changed.
    NumBound = "num-bound",
    /// The step of a number changed.
    MultipleOf = "multiple-of",
    /// The length of a text changed.
    Length = "length",
    /// The number of items changed.
    ItemsCount = "items-count",
    /// The number of members changed.
    PropsCount = "props-count",
    /// A text got a format.
    FormatAdded = "format-added",
    /// A text lost its format.
    FormatRemoved = "format-removed",
    /// A text got another format.
    FormatChanged = "format-changed",
    /// A text got a pattern.
    PatternAdded = "pattern-added",
    /// A text lost its pattern.
    PatternRemoved = "pattern-removed",
    /// A text got another pattern.
    PatternChanged = "pattern-changed",
    /// An enum got a value.
    EnumValueAdded = "enum-value-added",
    /// An enum lost a value.
    EnumValueRemoved = "enum-value-removed",
    /// A closed enum was opened for values that are not known yet.
    EnumOpened = "enum-opened",
    /// An open enum was closed.
    EnumClosed = "enum-closed",
    /// An enum got a variant.
    VariantAdded = "variant-added",
    /// An enum lost a variant.
    VariantRemoved = "variant-removed",
    /// The member that tells variants apart has another name.
    TagRenamed = "tag-renamed",
    /// Variants are told apart in another way.
    TaggingChanged = "tagging-changed",
    /// The member that holds a variant's content has another name.
    ContentRenamed = "content-renamed",
    /// An alternative without a tag was added.
    UntaggedAltAdded = "untagged-alt-added",
    /// An alternative without a tag was removed.
    UntaggedAltRemoved = "untagged-alt-removed",
    /// Alternatives without a tag are tried in another order.
    UntaggedOrder = "untagged-order",
    /// More than one alternative may fit where exactly one must.
    OneofOverlap = "oneof-overlap",
    /// The number of a tuple's slots changed.
    TupleLength = "tuple-length",
    /// A list became a set.
    UniqueAdded = "unique-added",
    /// A set became a list.
    UniqueRemoved = "unique-removed",
    /// The keys of a map changed.
    MapKey = "map-key",
    /// A map became a struct.
    MapToStruct = "map-to-struct",
    /// A struct became a map.
    StructToMap = "struct-to-map",
    /// A member is declared where a catch-all of another type was, or the other way round.
    CatchAllType = "catch-all-type",
    /// An object refuses members that it does not know now.
    ObjectClosed = "object-closed",
    /// An object accepts members that it does not know now.
    ObjectOpened = "object-opened",
    /// A keyword that the prover does not reason about differs.
    KeywordUnsupported = "keyword-unsupported",
    /// The change is compatible, but looks like something that was not meant.
    MeaningRisk = "meaning-risk",
    /// The schemas are too large or too deep to be compared.
    TooComplex = "too-complex",
    /// Two ways to decide contradict each other.
    InternalDisagreement = "internal-disagreement",
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}
