// SPDX-License-Identifier: Apache-2.0
// An Event of Kubernetes as the API server has it, if Forestall has made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/api_reader.h"
#include "text/json_output.h"

namespace forestall::cluster {

struct ReportedEvent {
  std::string kind;  // of the object
  std::string object_namespace;
  std::string name;
  std::string uid;
  std::string reason;
  std::string message;
  std::string node;   // that reported it
  std::string first;  // as the API has times
  std::string last;
  std::uint64_t count = 1;
  std::vector<std::pair<std::string, std::string>> annotations;
};

struct ReportedEvents {
  std::vector<ReportedEvent> list;  // by the time of the last occurrence
  // Every user with the right to create Events may make some that cannot be read.
  std::size_t unreadable = 0;
  std::string problem;  // of the first one that is unreadable
};

// Those of the list `target` that Forestall has made.
[[nodiscard]] Result<ReportedEvents> read_events(ApiReader& api, const std::string& target);
// What to report of those that are unreadable; nothing: all were read.
[[nodiscard]] std::optional<std::string> unreadable_note(const ReportedEvents& events);
[[nodiscard]] text::JsonOutput to_json(const ReportedEvent& event);
// "shop/web-0" or "node here".
[[nodiscard]] std::string subject_text(const ReportedEvent& event);

}  // namespace forestall::cluster
