//! Payloads as JSON text. JSON has no NaN and no infinity: serde_json writes `null` in their place, which no reader of a
//! number takes. Here such a float is an error.

use std::cell::Cell;
use std::fmt::Display;

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use crate::error::PublishError;
use crate::limits::LimitError;

/// The JSON text of a value.
///
/// # Errors
/// [`LimitError::NotFinite`] for a float that is no number; else what the value's own `Serialize` reports.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, PublishError> {
    let mut text = Vec::with_capacity(128);
    let not_finite = Cell::new(false);
    let serializer = Finite { inner: &mut serde_json::Serializer::new(&mut text), not_finite: &not_finite };
    match value.serialize(serializer) {
        Ok(()) => {
            String::from_utf8(text).map_err(|error| PublishError::Serialize(serde_json::Error::custom(error)))
        }
        Err(_) if not_finite.get() => Err(LimitError::NotFinite.into()),
        Err(error) => Err(PublishError::Serialize(error)),
    }
}

/// Hands everything on to `inner`, values inside wrapped again, but a float that is not finite.
struct Finite<'c, S> {
    inner: S,
    not_finite: &'c Cell<bool>,
}

/// A value inside a compound one.
struct Inside<'c, 'v, T: ?Sized> {
    value: &'v T,
    not_finite: &'c Cell<bool>,
}

impl<T: Serialize + ?Sized> Serialize for Inside<'_, '_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Finite { inner: serializer, not_finite: self.not_finite })
    }
}

impl<'c, S: Serializer> Finite<'c, S> {
    fn check(&self, finite: bool) -> Result<(), S::Error> {
        if finite {
            return Ok(());
        }
        self.not_finite.set(true);
        Err(S::Error::custom("a float is not finite"))
    }

    fn inside<'v, T: ?Sized>(&self, value: &'v T) -> Inside<'c, 'v, T> {
        Inside { value, not_finite: self.not_finite }
    }
}

fn wrap<C, E>(not_finite: &Cell<bool>, compound: Result<C, E>) -> Result<Finite<'_, C>, E> {
    Ok(Finite { inner: compound?, not_finite })
}

/// Methods that take a value which holds no float.
macro_rules! hand_on {
    ($($method:ident: $value:ty,)*) => {$(
        fn $method(self, value: $value) -> Result<S::Ok, S::Error> {
            self.inner.$method(value)
        }
    )*};
}

impl<'c, S: Serializer> Serializer for Finite<'c, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Finite<'c, S::SerializeSeq>;
    type SerializeTuple = Finite<'c, S::SerializeTuple>;
    type SerializeTupleStruct = Finite<'c, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Finite<'c, S::SerializeTupleVariant>;
    type SerializeMap = Finite<'c, S::SerializeMap>;
    type SerializeStruct = Finite<'c, S::SerializeStruct>;
    type SerializeStructVariant = Finite<'c, S::SerializeStructVariant>;

    fn serialize_f32(self, value: f32) -> Result<S::Ok, S::Error> {
        self.check(value.is_finite())?;
        self.inner.serialize_f32(value)
    }

    fn serialize_f64(self, value: f64) -> Result<S::Ok, S::Error> {
        self.check(value.is_finite())?;
        self.inner.serialize_f64(value)
    }

    hand_on! {
        serialize_bool: bool,
        serialize_i8: i8,
        serialize_i16: i16,
        serialize_i32: i32,
        serialize_i64: i64,
        serialize_i128: i128,
        serialize_u8: u8,
        serialize_u16: u16,
        serialize_u32: u32,
        serialize_u64: u64,
        serialize_u128: u128,
        serialize_char: char,
        serialize_str: &str,
        serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let value = self.inside(value);
        self.inner.serialize_some(&value)
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = self.inside(value);
        self.inner.serialize_newtype_struct(name, &value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = self.inside(value);
        self.inner.serialize_newtype_variant(name, index, variant, &value)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        wrap(self.not_finite, self.inner.serialize_seq(len))
    }

    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        wrap(self.not_finite, self.inner.serialize_tuple(len))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        wrap(self.not_finite, self.inner.serialize_tuple_struct(name, len))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        wrap(self.not_finite, self.inner.serialize_tuple_variant(name, index, variant, len))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        wrap(self.not_finite, self.inner.serialize_map(len))
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeStruct, S::Error> {
        wrap(self.not_finite, self.inner.serialize_struct(name, len))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        wrap(self.not_finite, self.inner.serialize_struct_variant(name, index, variant, len))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Compound values: elements, and fields under a name.
macro_rules! elements {
    ($($compound:ident $method:ident,)*) => {$(
        impl<C: $compound> $compound for Finite<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
                self.inner.$method(&Inside { value, not_finite: self.not_finite })
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    )*};
}

elements! {
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
}

macro_rules! fields {
    ($($compound:ident)*) => {$(
        impl<C: $compound> $compound for Finite<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), C::Error> {
                self.inner.serialize_field(name, &Inside { value, not_finite: self.not_finite })
            }

            fn skip_field(&mut self, name: &'static str) -> Result<(), C::Error> {
                self.inner.skip_field(name)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    )*};
}

fields!(SerializeStruct SerializeStructVariant);

impl<C: SerializeMap> SerializeMap for Finite<'_, C> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), C::Error> {
        self.inner.serialize_key(&Inside { value: key, not_finite: self.not_finite })
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
        self.inner.serialize_value(&Inside { value, not_finite: self.not_finite })
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.inner.end()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Serialize)]
    enum Kind {
        Unit,
        Newtype(f64),
        Tuple(u8, f32),
        Struct { size: f64 },
    }

    #[derive(Serialize)]
    struct Everything<'a> {
        text: &'a str,
        none: Option<u8>,
        some: Option<f64>,
        wide: u128,
        list: Vec<f32>,
        tuple: (i8, f64),
        map: BTreeMap<u8, f64>,
        kinds: Vec<Kind>,
        raw: Box<RawValue>,
        #[serde(flatten)]
        more: BTreeMap<String, f64>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        empty: Vec<u8>,
    }

    fn everything(number: f64) -> Everything<'static> {
        Everything {
            text: "é\n\"",
            none: None,
            some: Some(1.5),
            wide: u128::MAX,
            list: vec![0.1, -0.0],
            tuple: (-1, 1e300),
            map: BTreeMap::from([(7, 0.25)]),
            kinds: vec![Kind::Unit, Kind::Newtype(2.0), Kind::Tuple(1, 0.5), Kind::Struct { size: number }],
            raw: RawValue::from_string("[1.10, 1e2]".to_owned()).unwrap(),
            more: BTreeMap::from([("more".to_owned(), 3.0)]),
            empty: Vec::new(),
        }
    }

    #[test]
    fn the_text_is_that_of_serde_json() {
        let value = everything(1.0);
        assert_eq!(to_json(&value).unwrap(), serde_json::to_string(&value).unwrap());
    }

    #[test]
    fn a_float_that_is_no_number_is_refused_wherever_it_stands() {
        let refused = |result: Result<String, PublishError>| {
            assert!(matches!(result, Err(PublishError::Limit(LimitError::NotFinite))), "{result:?}");
        };
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            refused(to_json(&everything(number)));
            refused(to_json(&Everything { some: Some(number), ..everything(1.0) }));
            refused(to_json(&Everything { tuple: (0, number), ..everything(1.0) }));
            refused(to_json(&Everything { map: BTreeMap::from([(1, number)]), ..everything(1.0) }));
            refused(to_json(&Everything {
                more: BTreeMap::from([("a".to_owned(), number)]),
                ..everything(1.0)
            }));
            refused(to_json(&Everything { kinds: vec![Kind::Newtype(number)], ..everything(1.0) }));
        }
        refused(to_json(&Everything { list: vec![f32::NAN], ..everything(1.0) }));
        refused(to_json(&Everything { kinds: vec![Kind::Tuple(0, f32::INFINITY)], ..everything(1.0) }));
    }

    #[test]
    fn an_error_of_the_value_is_its_own() {
        let keys = BTreeMap::from([((1, 2), 3)]);
        assert!(matches!(to_json(&keys), Err(PublishError::Serialize(_))));
    }
}
