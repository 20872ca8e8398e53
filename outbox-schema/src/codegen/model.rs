//! What the text is made from: the types of one pin, with names, free of JSON Schema.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::event_type::EventType;
use crate::fingerprint::Fingerprint;

/// Everything of one consumer.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) consumer: String,
    pub(crate) pins: Vec<PinModel>,
}

/// One pinned event.
#[derive(Debug)]
pub(crate) struct PinModel {
    pub(crate) event_type: EventType,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) fingerprint: Fingerprint,
    /// Module and method.
    pub(crate) name: String,
    pub(crate) types: Types,
}

/// The types of one pin. The first is the payload.
#[derive(Debug, Default)]
pub(crate) struct Types(pub(crate) Vec<Item>);

/// Which of [`Types`].
pub(crate) type ItemId = usize;

/// A type with a name.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) docs: Docs,
    pub(crate) body: Body,
    /// Where its schema is.
    pub(crate) pointer: String,
}

/// What a schema says for people.
#[derive(Debug, Clone, Default)]
pub(crate) struct Docs {
    pub(crate) description: Option<String>,
    pub(crate) deprecated: bool,
}

#[derive(Debug)]
pub(crate) enum Body {
    Struct(Struct),
    /// Another type under a name of its own.
    Newtype(Type),
    /// `null`.
    Unit,
    /// Strings, each a variant.
    Texts(Texts),
    /// Integers, each a variant.
    Numbers(Vec<(i64, String)>),
    Enum(Enum),
}

#[derive(Debug, Default)]
pub(crate) struct Struct {
    pub(crate) fields: Vec<Field>,
    /// Types whose members stand among the struct's own; a map takes all that are not named.
    pub(crate) flattened: Vec<Flattened>,
}

#[derive(Debug)]
pub(crate) struct Flattened {
    pub(crate) ident: String,
    pub(crate) ty: Type,
}

#[derive(Debug)]
pub(crate) struct Field {
    /// The member's name in JSON.
    pub(crate) member: String,
    pub(crate) ident: String,
    pub(crate) docs: Docs,
    /// Without the `Option` that [`Presence::Optional`] stands for.
    pub(crate) ty: Type,
    pub(crate) presence: Presence,
    /// Where its schema is.
    pub(crate) pointer: String,
}

#[derive(Debug)]
pub(crate) enum Presence {
    Required,
    /// Absence is `None`.
    Optional,
    /// Absence means this value.
    Default(Value),
}

#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) values: Vec<Text>,
    /// Other strings may come.
    pub(crate) open: bool,
}

#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) value: String,
    pub(crate) ident: String,
    pub(crate) docs: Docs,
}

#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) tagging: Tagging,
    pub(crate) variants: Vec<Variant>,
    /// Other variants may come.
    pub(crate) open: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tagging {
    External,
    Internal { tag: String },
    Adjacent { tag: String, content: String },
    Untagged,
}

#[derive(Debug)]
pub(crate) struct Variant {
    /// Its tag; empty when untagged.
    pub(crate) tag: String,
    pub(crate) ident: String,
    pub(crate) docs: Docs,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Unit,
    Newtype(Type),
    Tuple(Vec<Type>),
    Struct(Struct),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Unit,
    Bool,
    Int(Int),
    Float,
    String,
    Char,
    Uuid,
    Time(Moment),
    Decimal,
    Ip(Ip),
    /// Anything: the schema is `true`.
    Any,
    Option(Box<Self>),
    List(Box<Self>),
    Set(Box<Self>),
    Array(Box<Self>, usize),
    Tuple(Vec<Self>),
    Map(Key, Box<Self>),
    Named(ItemId),
    /// As the options say.
    Given(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Int {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// With its offset.
    Instant,
    Date,
    /// Without offset.
    DateTime,
    /// Without offset.
    Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ip {
    Any,
    V4,
    V6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Text,
    Signed,
    Unsigned,
}

impl Type {
    /// The types right below this one.
    fn parts(&self) -> &[Self] {
        match self {
            Self::Option(ty) | Self::List(ty) | Self::Set(ty) | Self::Array(ty, _) | Self::Map(_, ty) => {
                std::slice::from_ref(ty)
            }
            Self::Tuple(types) => types,
            _ => &[],
        }
    }

    /// Calls `visit` with this type and all below it, not looking into named ones.
    pub(crate) fn walk(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        for part in self.parts() {
            part.walk(visit);
        }
    }

    /// The named types whose values lie inside a value of this type, not behind a pointer.
    fn inside(&self, visit: &mut impl FnMut(ItemId)) {
        match self {
            Self::Named(id) => visit(*id),
            Self::List(_) | Self::Set(_) | Self::Map(..) => {}
            _ => self.parts().iter().for_each(|part| part.inside(visit)),
        }
    }
}

impl Struct {
    /// The types of its members.
    pub(crate) fn types(&self) -> impl Iterator<Item = &Type> {
        let fields = self.fields.iter().map(|field| &field.ty);
        let flattened = self.flattened.iter().map(|flattened| &flattened.ty);
        fields.chain(flattened)
    }
}

impl Content {
    pub(crate) fn types(&self) -> Vec<&Type> {
        match self {
            Self::Unit => Vec::new(),
            Self::Newtype(ty) => vec![ty],
            Self::Tuple(types) => types.iter().collect(),
            Self::Struct(content) => content.types().collect(),
        }
    }
}

impl Body {
    /// The types that it is made of.
    pub(crate) fn types(&self) -> Vec<&Type> {
        match self {
            Self::Struct(body) => body.types().collect(),
            Self::Newtype(ty) => vec![ty],
            Self::Unit | Self::Texts(_) | Self::Numbers(_) => Vec::new(),
            Self::Enum(body) => body.variants.iter().flat_map(|variant| variant.content.types()).collect(),
        }
    }
}

impl Types {
    pub(crate) fn get(&self, id: ItemId) -> &Item {
        &self.0[id]
    }

    /// The items that lie inside a value of the item `id`, itself only if it would contain itself.
    fn contained(&self, id: ItemId) -> BTreeSet<ItemId> {
        let mut found = BTreeSet::new();
        let mut queue = vec![id];
        while let Some(id) = queue.pop() {
            for ty in self.get(id).body.types() {
                ty.inside(&mut |inner| {
                    if found.insert(inner) {
                        queue.push(inner);
                    }
                });
            }
        }
        found
    }

    /// Which named types an item must hold in a `Box`: those of its own cycle.
    pub(crate) fn boxed(&self, id: ItemId) -> BTreeSet<ItemId> {
        let contained = self.contained(id);
        contained.into_iter().filter(|&inner| self.contained(inner).contains(&id)).collect()
    }

    /// Whether values have a total order in Rust: no floats, nothing of any type.
    pub(crate) fn is_ordered(&self, ty: &Type) -> bool {
        let mut seen = BTreeSet::new();
        self.all_ordered(ty, &mut seen)
    }

    fn all_ordered(&self, ty: &Type, seen: &mut BTreeSet<ItemId>) -> bool {
        match ty {
            Type::Float | Type::Any | Type::Given(_) => false,
            Type::Named(id) if seen.insert(*id) => {
                let open = matches!(&self.get(*id).body, Body::Enum(body) if body.open);
                !open && self.get(*id).body.types().into_iter().all(|ty| self.all_ordered(ty, seen))
            }
            _ => ty.parts().iter().all(|part| self.all_ordered(part, seen)),
        }
    }

    /// The items that stand in sets, and so need an order.
    pub(crate) fn in_sets(&self) -> BTreeSet<ItemId> {
        let mut found = BTreeSet::new();
        for ty in self.0.iter().flat_map(|item| item.body.types()) {
            ty.walk(&mut |ty| {
                if let Type::Set(element) = ty
                    && self.is_ordered(element)
                {
                    self.reach(element, &mut found);
                }
            });
        }
        found
    }

    /// The items that a type is made of.
    pub(crate) fn reach(&self, ty: &Type, found: &mut BTreeSet<ItemId>) {
        ty.walk(&mut |ty| {
            if let Type::Named(id) = ty
                && found.insert(*id)
            {
                self.get(*id).body.types().into_iter().for_each(|ty| self.reach(ty, found));
            }
        });
    }
}
