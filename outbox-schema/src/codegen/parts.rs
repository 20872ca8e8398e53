//! Parts that are read from the same place: none may hold itself there, and no member may be in two of them, since serde
//! gives it to one.

use std::collections::BTreeSet;

use super::error::SchemaWithoutType as Problem;
use super::lower::Found;
use super::model::{Body, Content, ItemId, Struct, Tagging, Type, Types};

/// One problem for each item that cannot be read.
pub(crate) fn problems(types: &Types) -> Vec<Found> {
    let ids = 0..types.0.len();
    let circles = ids.clone().filter(|&id| parts_below(types, id).contains(&id));
    let found: Vec<Found> = circles.map(|id| at(types, id, Problem::Circle)).collect();
    if !found.is_empty() {
        return found;
    }
    ids.filter_map(|id| Some(at(types, id, Problem::Overlap(overlap(types, id)?)))).collect()
}

fn at(types: &Types, id: ItemId, problem: Problem) -> Found {
    let pointer = &types.get(id).pointer;
    Found { schema: pointer.clone(), pointer: pointer.clone(), problem }
}

/// The named type whose value stands where one of this type does.
fn part(ty: &Type) -> Option<ItemId> {
    match ty {
        Type::Named(id) => Some(*id),
        Type::Option(inner) => part(inner),
        _ => None,
    }
}

fn flattened(body: &Struct) -> impl Iterator<Item = ItemId> {
    body.flattened.iter().filter_map(|flattened| part(&flattened.ty))
}

/// The types that are read from the place of a body.
fn parts(body: &Body) -> Vec<ItemId> {
    match body {
        Body::Struct(body) => flattened(body).collect(),
        Body::Newtype(ty) => part(ty).into_iter().collect(),
        Body::Enum(body) if matches!(body.tagging, Tagging::Internal { .. } | Tagging::Untagged) => {
            let contents = body.variants.iter().map(|variant| match &variant.content {
                Content::Newtype(ty) => part(ty).into_iter().collect(),
                Content::Struct(body) => flattened(body).collect(),
                Content::Unit | Content::Tuple(_) => Vec::new(),
            });
            contents.flatten().collect()
        }
        Body::Unit | Body::Texts(_) | Body::Numbers(_) | Body::Enum(_) => Vec::new(),
    }
}

/// All of them, itself only in a circle.
fn parts_below(types: &Types, id: ItemId) -> BTreeSet<ItemId> {
    let mut found = BTreeSet::new();
    let mut queue = vec![id];
    while let Some(id) = queue.pop() {
        queue.extend(parts(&types.get(id).body).into_iter().filter(|&below| found.insert(below)));
    }
    found
}

/// The members that a value of the item takes from its object. Of types without circles.
fn members(types: &Types, id: ItemId) -> BTreeSet<&str> {
    let body = &types.get(id).body;
    let mut found: BTreeSet<&str> = parts(body).into_iter().flat_map(|below| members(types, below)).collect();
    match body {
        Body::Struct(body) => found.extend(own(body)),
        Body::Enum(body) => {
            match &body.tagging {
                Tagging::External => {
                    found.extend(body.variants.iter().map(|variant| variant.tag.as_str()));
                    return found;
                }
                Tagging::Internal { tag } => found.extend([tag.as_str()]),
                Tagging::Adjacent { tag, content } => {
                    found.extend([tag.as_str(), content.as_str()]);
                    return found;
                }
                Tagging::Untagged => {}
            }
            for variant in &body.variants {
                if let Content::Struct(body) = &variant.content {
                    found.extend(own(body));
                }
            }
        }
        Body::Unit | Body::Newtype(_) | Body::Texts(_) | Body::Numbers(_) => {}
    }
    found
}

fn own(body: &Struct) -> impl Iterator<Item = &str> {
    body.fields.iter().map(|field| field.member.as_str())
}

/// A member that is in two parts of one object.
fn overlap(types: &Types, id: ItemId) -> Option<String> {
    let structs: Vec<(&Struct, Option<&str>)> = match &types.get(id).body {
        Body::Struct(body) => vec![(body, None)],
        Body::Enum(body) => {
            let tag = match &body.tagging {
                Tagging::Internal { tag } => Some(tag.as_str()),
                _ => None,
            };
            let contents = body.variants.iter().filter_map(|variant| match &variant.content {
                Content::Struct(body) => Some((body, tag)),
                _ => None,
            });
            contents.collect()
        }
        _ => Vec::new(),
    };
    structs.into_iter().find_map(|(body, tag)| {
        let mut taken: BTreeSet<&str> = own(body).chain(tag).collect();
        flattened(body).find_map(|part| {
            let members = members(types, part);
            let twice = taken.intersection(&members).next().map(ToString::to_string);
            taken.extend(members);
            twice
        })
    })
}
