//! Response to a request for the free capacity.

use super::Response;
use akash_provider_core::engine::Status;

pub(super) fn respond(status: &Status) -> Response {
    Response::Capacity {
        is_known: status.inventory_known,
        capacity: Box::new(status.inventory.available.clone()),
    }
}
