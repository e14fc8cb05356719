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
    case Protection::may_be_critical: return "may-be-critical";
    case Protection::annotated: return "annotated";
  }
  return "";
}

std::optional<Bytes> WorkloadSample::working_set() const {
  if (!usage || !inactive_file) return std::nullopt;
  return forestall::working_set(*usage, *inactive_file);
}

bool operator==(const Workload& a, const Workload& b) {
  if ((a.pod == nullptr) != (b.pod == nullptr)) return false;
  if (a.pod && a.pod != b.pod && !(*a.pod == *b.pod)) return false;
  return a.cgroup == b.cgroup && a.path == b.path && a.kind == b.kind && a.name == b.name &&
         a.pod_uid == b.pod_uid && a.priority == b.priority &&
         a.memory_request == b.memory_request && a.protection == b.protection &&
         a.inferred == b.inferred && a.preference == b.preference;
}

}  // namespace forestall
