//! Decoding of watched objects through JSON values.
//!
//! The compiler generates one decoder for each kind and input format, and Kubernetes kinds are large. A
//! single format (JSON values) takes half of the compile time of separate decoders for lists, events and
//! guarded objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;

/// Type that a watch may decode.
pub trait FromObject: Sized {
    /// Decodes an object.
    ///
    /// # Errors
    /// Returns why the object is invalid. One invalid object makes the whole list or event fail.
    fn from_object(value: &Value) -> Result<Self, String>;
}

impl<K: DeserializeOwned> FromObject for K {
    fn from_object(value: &Value) -> Result<Self, String> {
        Self::deserialize(value).map_err(|error| error.to_string())
    }
}

/// Decoded object, or the reason why the object is invalid. Other objects are unaffected.
#[derive(Debug, Clone)]
pub struct Decoded<K>(
    /// Object, or the reason why it is invalid.
    pub Result<K, Unreadable>,
);

/// Invalid object.
#[derive(Debug, Clone)]
pub struct Unreadable {
    /// Metadata of the object.
    pub metadata: ObjectMeta,
    /// Error of the decoder.
    pub error: String,
}

impl<K: DeserializeOwned> FromObject for Decoded<K> {
    fn from_object(value: &Value) -> Result<Self, String> {
        let unreadable = |error: serde_json::Error| {
            // Without a readable name there is nothing to report.
            let metadata = ObjectMeta::deserialize(&value["metadata"]).map_err(|error| error.to_string())?;
            let error = error.to_string();
            Ok(Unreadable { metadata, error })
        };
        K::deserialize(value)
            .map_or_else(|error| unreadable(error).map(Err), |object| Ok(Ok(object)))
            .map(Self)
    }
}

/// `Decoded<K>` uses the API resource of `K`.
impl<K: Resource> Resource for Decoded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|bad| &bad.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|bad| &mut bad.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    #[test]
    fn invalid_object_has_its_name_and_the_reason() {
        let pod = json!({"metadata": {"name": "web-0", "namespace": "n"}, "spec": {"containers": "none"}});
        let Decoded(Err(bad)) = Decoded::<Pod>::from_object(&pod).unwrap() else {
            panic!("the object is valid");
        };
        assert_eq!(bad.metadata.name.as_deref(), Some("web-0"));
        assert!(bad.error.contains("none"), "{}", bad.error);
        assert!(Pod::from_object(&pod).is_err());
    }

    #[test]
    fn object_without_a_valid_name_is_an_error() {
        let pod = json!({"metadata": {"name": 7}});
        assert!(Decoded::<Pod>::from_object(&pod).is_err());
        let pod = json!({"metadata": {"name": "web-0"}});
        assert!(Decoded::<Pod>::from_object(&pod).unwrap().0.is_ok());
    }
}
