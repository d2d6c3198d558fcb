//! Objects as a watch brings them: JSON first, then what they are.
//!
//! A kind's reader is compiled again for each form that it reads from, and Kubernetes has large kinds. Read from one form
//! alone, they take half of the time to compile that they take where lists, events and a guard have a form each.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;

/// What a watch may hand over.
pub(crate) trait FromObject: Sized {
    /// Reads an object.
    ///
    /// # Errors
    /// Why it makes no sense: what holds it is then not read either.
    fn from_object(value: &Value) -> Result<Self, String>;
}

impl<K: DeserializeOwned> FromObject for K {
    fn from_object(value: &Value) -> Result<Self, String> {
        Self::deserialize(value).map_err(|error| error.to_string())
    }
}

/// An object that may make no sense without keeping others from being read.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<K>(pub(crate) Result<K, Unreadable>);

/// An object that makes no sense.
#[derive(Debug, Clone)]
pub(crate) struct Unreadable {
    pub(crate) metadata: ObjectMeta,
    /// Why not, as the reader says it.
    pub(crate) error: String,
}

impl<K: DeserializeOwned> FromObject for Guarded<K> {
    fn from_object(value: &Value) -> Result<Self, String> {
        let unreadable = |error: serde_json::Error| {
            // Where not even the name can be read there is nothing to be told.
            let metadata = ObjectMeta::deserialize(&value["metadata"]).map_err(|error| error.to_string())?;
            let error = error.to_string();
            Ok(Unreadable { metadata, error })
        };
        K::deserialize(value)
            .map_or_else(|error| unreadable(error).map(Err), |object| Ok(Ok(object)))
            .map(Self)
    }
}

/// It is listed and watched where its kind is.
impl<K: Resource> Resource for Guarded<K> {
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
    fn an_object_that_makes_no_sense_has_its_name_and_the_reason() {
        let pod = json!({"metadata": {"name": "web-0", "namespace": "n"}, "spec": {"containers": "none"}});
        let Guarded(Err(bad)) = Guarded::<Pod>::from_object(&pod).unwrap() else {
            panic!("it makes sense");
        };
        assert_eq!(bad.metadata.name.as_deref(), Some("web-0"));
        assert!(bad.error.contains("none"), "{}", bad.error);
        assert!(Pod::from_object(&pod).is_err());
    }

    #[test]
    fn an_object_without_a_name_that_can_be_read_is_an_error() {
        let pod = json!({"metadata": {"name": 7}});
        assert!(Guarded::<Pod>::from_object(&pod).is_err());
        let pod = json!({"metadata": {"name": "web-0"}});
        assert!(Guarded::<Pod>::from_object(&pod).unwrap().0.is_ok());
    }
}
