//! Status of an object without the rest of it: written as JSON from a typed object, and read from an answer.

use serde::ser::{Impossible, SerializeMap, SerializeStruct};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Error, Value};

const STATUS: &str = "status";

/// The member `status` of an object; null if it has none. The other members are not serialized.
pub(super) fn status_member<K: Serialize>(object: &K) -> Result<Value, Error> {
    object.serialize(Picker)
}

/// What a writer needs of the object in an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Written {
    pub(super) metadata: Metadata,
    pub(super) status: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) resource_version: Option<String>,
}

/// Serializes an object, and keeps one member.
struct Picker;

/// The members so far.
#[derive(Default)]
struct Members {
    status: Value,
    /// The next value is that of the status.
    is_status: bool,
}

impl Members {
    fn put<T: Serialize + ?Sized>(&mut self, is_status: bool, value: &T) -> Result<(), Error> {
        if is_status {
            self.status = serde_json::to_value(value)?;
        }
        Ok(())
    }
}

impl SerializeStruct for Members {
    type Ok = Value;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.put(key == STATUS, value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.status)
    }
}

impl SerializeMap for Members {
    type Ok = Value;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.is_status = serde_json::to_value(key)? == STATUS;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.put(self.is_status, value)
    }

    fn end(self) -> Result<Value, Error> {
        Ok(self.status)
    }
}

fn not_an_object<T>() -> Result<T, Error> {
    Err(serde::ser::Error::custom("an object of Kubernetes is a JSON object"))
}

macro_rules! refuse {
    ($($method:ident($type:ty),)+) => {
        $(fn $method(self, _: $type) -> Result<Value, Error> {
            not_an_object()
        })+
    };
}

impl Serializer for Picker {
    type Ok = Value;
    type Error = Error;
    type SerializeSeq = Impossible<Value, Error>;
    type SerializeTuple = Impossible<Value, Error>;
    type SerializeTupleStruct = Impossible<Value, Error>;
    type SerializeTupleVariant = Impossible<Value, Error>;
    type SerializeMap = Members;
    type SerializeStruct = Members;
    type SerializeStructVariant = Impossible<Value, Error>;

    refuse! {
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_f32(f32),
        serialize_f64(f64),
        serialize_char(char),
        serialize_str(&str),
        serialize_bytes(&[u8]),
        serialize_unit_struct(&'static str),
    }

    fn serialize_none(self) -> Result<Value, Error> {
        not_an_object()
    }

    fn serialize_unit(self) -> Result<Value, Error> {
        not_an_object()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Error> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<Value, Error> {
        not_an_object()
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Value, Error> {
        not_an_object()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        not_an_object()
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        not_an_object()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, Error> {
        not_an_object()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        not_an_object()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members, Error> {
        Ok(Members::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members, Error> {
        Ok(Members::default())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        not_an_object()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_is_that_of_the_whole_object() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
        let dynamic: DynamicObject = serde_json::from_value(pod.clone()).unwrap();
        assert_eq!(status_member(&typed).unwrap(), serde_json::to_value(&typed).unwrap()["status"]);
        assert_eq!(status_member(&dynamic).unwrap(), pod["status"]);
        assert_eq!(status_member(&Pod::default()).unwrap(), Value::Null);
        assert!(status_member(&[1]).is_err() && status_member(&"text").is_err());
        let written: Written = serde_json::from_value(pod.clone()).unwrap();
        assert_eq!((written.metadata.resource_version, written.status), (None, pod["status"].clone()));
    }
}
