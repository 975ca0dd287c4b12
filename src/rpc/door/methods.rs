//! The methods that the door serves, by path.

use std::collections::HashMap;
use std::sync::Arc;

use prost_reflect::{DescriptorPool, MessageDescriptor};

/// A method of a service.
#[derive(Debug)]
pub(crate) struct Method {
    pub(super) input: MessageDescriptor,
    pub(super) output: MessageDescriptor,
    pub(super) streams: bool,
}

/// The methods by path. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Methods(Arc<HashMap<String, Arc<Method>>>);

impl Methods {
    /// The methods of the services with these full names.
    pub(crate) fn of(pool: &DescriptorPool, services: &[&str]) -> Methods {
        let offered = pool.services().filter(|service| services.contains(&service.full_name()));
        let methods = offered.flat_map(|service| {
            let name = service.full_name().to_owned();
            let methods: Vec<_> = service.methods().collect();
            methods.into_iter().map(move |method| {
                let known = Method {
                    input: method.input(),
                    output: method.output(),
                    streams: method.is_client_streaming() || method.is_server_streaming(),
                };
                (format!("/{name}/{}", method.name()), Arc::new(known))
            })
        });
        Methods(Arc::new(methods.collect()))
    }

    pub(super) fn get(&self, path: &str) -> Option<&Arc<Method>> {
        self.0.get(path)
    }
}
