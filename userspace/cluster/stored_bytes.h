// SPDX-License-Identifier: Apache-2.0
// About how much memory an object of a snapshot takes, without its texts. What several objects
// share is counted with each: it bounds what a tenant can make the rebalancer store.
#pragma once

#include <cstddef>

#include "rebalance/snapshot.h"

namespace forestall::cluster {

[[nodiscard]] std::size_t stored_bytes(const rebalance::Node& node);
[[nodiscard]] std::size_t stored_bytes(const rebalance::ClusterPod& pod);
[[nodiscard]] std::size_t stored_bytes(const rebalance::ClusterNamespace& each);
[[nodiscard]] std::size_t stored_bytes(const rebalance::DisruptionBudget& budget);
[[nodiscard]] std::size_t stored_bytes(const rebalance::VolumeClaim& claim);
[[nodiscard]] std::size_t stored_bytes(const rebalance::PersistentVolume& volume);
[[nodiscard]] std::size_t stored_bytes(const rebalance::PriorityClass& each);

}  // namespace forestall::cluster
