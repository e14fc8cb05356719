// SPDX-License-Identifier: Apache-2.0
// An Event of Kubernetes as the API server has it, if Forestall has made it.
#pragma once

#include <cstdint>
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

// Those of the list `target` that Forestall has made, by the time of the last occurrence.
[[nodiscard]] Result<std::vector<ReportedEvent>> read_events(ApiReader& api,
                                                             const std::string& target);
[[nodiscard]] text::JsonOutput to_json(const ReportedEvent& event);
// "shop/web-0" or "node here".
[[nodiscard]] std::string subject_text(const ReportedEvent& event);

}  // namespace forestall::cluster
