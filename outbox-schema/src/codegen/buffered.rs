//! What serde cannot read where it must look at a value twice: inside tagged alternatives and among flattened members.

use std::collections::BTreeSet;

use super::error::SchemaWithoutType as Problem;
use super::lower::Found;
use super::model::{Body, Content, Enum, Int, ItemId, Key, Struct, Tagging, Type, Types};

/// One problem for each item that cannot be read where it stands.
pub(crate) fn problems(types: &Types) -> Vec<Found> {
    let mut found = Vec::new();
    let mut inside = BTreeSet::new();
    for item in &types.0 {
        for ty in twice(&item.body) {
            types.reach(ty, &mut inside);
            if let Some(problem) = unreadable(ty) {
                found.push(at(&item.pointer, problem));
            }
        }
    }
    for id in inside {
        found.extend(of_item(types, id));
    }
    // An enum that is read twice is reached from where it is used, and from itself.
    found.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    found.dedup();
    found
}

fn at(pointer: &str, problem: Problem) -> Found {
    Found { schema: pointer.to_owned(), pointer: pointer.to_owned(), problem }
}

/// The types of a body that are read from memory.
fn twice(body: &Body) -> Vec<&Type> {
    match body {
        Body::Struct(body) => flattened(body),
        Body::Enum(Enum { tagging: Tagging::External, open: false, variants }) => {
            variants.iter().flat_map(|variant| flattened_content(&variant.content)).collect()
        }
        Body::Enum(body) => body.variants.iter().flat_map(|variant| indirect(&variant.content)).collect(),
        _ => Vec::new(),
    }
}

fn flattened(body: &Struct) -> Vec<&Type> {
    body.flattened.iter().map(|flattened| &flattened.ty).collect()
}

fn flattened_content(content: &Content) -> Vec<&Type> {
    match content {
        Content::Struct(body) => flattened(body),
        _ => Vec::new(),
    }
}

/// The types of members. A map with integer keys that is the whole member has a way to be read: only its values count.
fn indirect(content: &Content) -> Vec<&Type> {
    match content {
        Content::Struct(body) => body.types().map(below_keys).collect(),
        _ => content.types(),
    }
}

fn below_keys(ty: &Type) -> &Type {
    match ty {
        Type::Map(Key::Signed | Key::Unsigned, value) => value,
        ty => ty,
    }
}

pub(crate) fn has_integer_keys(ty: &Type) -> bool {
    matches!(ty, Type::Map(Key::Signed | Key::Unsigned, _))
}

fn of_item(types: &Types, id: ItemId) -> Option<Found> {
    let item = types.get(id);
    let members: Vec<&Type> = match &item.body {
        Body::Struct(body) => body.types().map(below_keys).collect(),
        Body::Enum(body) => body.variants.iter().flat_map(|variant| indirect(&variant.content)).collect(),
        body => body.types(),
    };
    members.into_iter().find_map(unreadable).map(|problem| at(&item.pointer, problem))
}

fn unreadable(ty: &Type) -> Option<Problem> {
    let mut problem = None;
    ty.walk(&mut |ty| match ty {
        Type::Int(Int::I128 | Int::U128) => problem = Some(Problem::Buffered("128-bit integers")),
        ty if has_integer_keys(ty) => problem = Some(Problem::Buffered("maps with integer keys")),
        _ => {}
    });
    problem
}
