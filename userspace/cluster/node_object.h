// SPDX-License-Identifier: Apache-2.0
// What `forestall cluster` reads and writes of the node's object in the API: a condition and a
// taint of its own, and an annotation.
//
// The kubelet overwrites its own condition MemoryPressure within seconds, so this one has another
// type. The list of taints can only be replaced as a whole: the requests name the version of the
// object that they are made for, and the server refuses them if it has changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/node_state.h"
#include "kubernetes/http_client.h"

namespace forestall::text {
class JsonValue;
}

namespace forestall::cluster {

inline constexpr std::string_view kPressureCondition = "ForestallMemoryPressure";
inline constexpr std::string_view kPressureTaint = "forestall.dev/memory-pressure";
inline constexpr std::string_view kUnguardedAnnotation = "forestall.dev/unguarded";

struct NodeObject {
  std::string uid;
  std::string resource_version;
  bool has_annotations = false;
  bool is_unguarded = false;  // it has the annotation
  std::size_t taints = 0;
  std::vector<std::size_t> our_taints;  // indices of those of kPressureTaint
  std::string condition_status;         // "True", "False" or "Unknown"; empty: it has none
  std::string condition_heartbeat;      // when it was last written, as the API has times
};

[[nodiscard]] Result<NodeObject> parse_node(std::string_view body);
[[nodiscard]] Result<NodeObject> read_node(const text::JsonValue& root);

// Sets or removes the annotation and the taint; nothing: both are as they should be.
[[nodiscard]] std::optional<kubernetes::OutgoingRequest> node_request(const std::string& node,
                                                                      const NodeObject& object,
                                                                      const NodeCondition& report,
                                                                      bool taint,
                                                                      std::int64_t wall_seconds);
// Sets or removes the condition; nothing: it is to be removed, and the node has none.
[[nodiscard]] std::optional<kubernetes::OutgoingRequest> condition_request(
    const std::string& node, const NodeObject& object, const NodeCondition& report,
    std::int64_t wall_seconds);

}  // namespace forestall::cluster
