// SPDX-License-Identifier: Apache-2.0
// An Event of Kubernetes (core/v1), which `kubectl describe` prints, and its requests.
//
// Names of processes, cgroups and containers are in the texts, so all texts are made printable and
// shortened.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kubernetes/http_client.h"

namespace forestall::cluster {

// What an Event is about.
struct EventSubject {
  std::string kind;              // "Pod" or "Node"
  std::string object_namespace;  // empty: Node
  std::string name;
  std::string uid;

  friend bool operator==(const EventSubject&, const EventSubject&) = default;
};

struct ClusterEvent {
  EventSubject subject;
  std::string reason;  // "Evicted"
  std::string message;
  std::vector<std::pair<std::string, std::string>> annotations = {};
  bool is_normal = false;  // of type Normal; else Warning
  std::string topic = {};  // Events of a subject and a reason with other topics are other objects
};

// How often it happened, and when. Times are wall-clock seconds.
struct EventCount {
  std::uint64_t count = 1;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// "2026-11-25T18:00:00Z", as the API has times.
[[nodiscard]] std::string api_time(std::int64_t wall_seconds);

// Creates the object `name`, reported by this `node`.
[[nodiscard]] kubernetes::OutgoingRequest create_event(const ClusterEvent& event,
                                                       const std::string& name,
                                                       const EventCount& count,
                                                       const std::string& node);
// Sets its count, last time and message.
[[nodiscard]] kubernetes::OutgoingRequest count_event(const ClusterEvent& event,
                                                      const std::string& name,
                                                      const EventCount& count);

}  // namespace forestall::cluster
