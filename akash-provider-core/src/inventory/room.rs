//! Number of replicas that fit on a node of the inventory.

use super::gpu::GpuRequest;
use super::need::Need;
use super::node_inventory::NodeInventory;

impl Need {
    /// Returns the number of replicas that fit on a node; `want` is the chosen GPU.
    pub(super) fn room(&self, inventory: &NodeInventory, node: usize, want: Option<&GpuRequest>) -> i64 {
        let free = &inventory.free[node];
        let layout = &*inventory.layout;
        let on = &layout.nodes[node];
        // Cheap checks first, because this function runs for every unit on every node.
        if !self.fits(free) || on.closed.is_some() || on.classes & self.classes != self.classes {
            return 0;
        }
        let mut room = self.room_in_pools(inventory);
        let have = [
            (free.cpu, self.cpu),
            (free.memory, self.memory),
            (free.ephemeral, self.ephemeral),
        ];
        for (have, each) in have {
            room = room.min(times(have, each));
        }
        if self.gpu > 0 {
            let mask = want.map_or(0, |w| layout.mask(node, std::slice::from_ref(w)));
            room = room.min(inventory.gpus_free(node, mask) / self.gpu);
        }
        room
    }

    /// Returns the number of replicas that fit in the pools of persistent storage.
    pub(super) fn room_in_pools(&self, inventory: &NodeInventory) -> i64 {
        // Without volumes the pools do not limit the number.
        let rooms = self
            .volumes
            .iter()
            .map(|(class, each)| times(inventory.storage[*class], *each));
        rooms.min().unwrap_or(i64::MAX)
    }
}

fn times(have: i64, each: i64) -> i64 {
    // A resource that is not requested does not limit the number.
    if each == 0 { i64::MAX } else { have.max(0) / each }
}
