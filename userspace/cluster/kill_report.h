// SPDX-License-Identifier: Apache-2.0
// What an agent's record reports about a kill to the cluster.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cluster/evictions.h"
#include "forestall/v1/record.pb.h"

namespace forestall::cluster {

// The pod that the record's kill was of; nothing: the record is of no kill of a pod of the API
// server, of a dry run, or of one that signalled no process.
[[nodiscard]] std::optional<KilledPod> killed_pod(const v1::Record& record);

struct KernelKill {
  std::string cgroup;   // of the victim; empty: unknown
  std::string message;  // the kill, and why the agent had not acted
};
// Nothing: the record is not about a kill by the kernel, or cannot be read.
[[nodiscard]] std::optional<KernelKill> kernel_kill(const v1::Record& record);

}  // namespace forestall::cluster
