// SPDX-License-Identifier: Apache-2.0
#include "model/workload.h"

namespace forestall {

std::string_view to_string(WorkloadKind kind) {
  switch (kind) {
    case WorkloadKind::pod: return "pod";
    case WorkloadKind::cgroup: return "cgroup";
  }
  return "";
}

std::string_view to_string(Protection protection) {
  switch (protection) {
    case Protection::none: return "none";
    case Protection::declared: return "declared";
    case Protection::critical: return "critical";
    case Protection::static_pod: return "static-pod";
    case Protection::own_cgroup: return "own-cgroup";
    case Protection::init_cgroup: return "init-cgroup";
  }
  return "";
}

std::optional<Bytes> WorkloadSample::working_set() const {
  if (!usage || !inactive_file) return std::nullopt;
  return forestall::working_set(*usage, *inactive_file);
}

}  // namespace forestall
