// SPDX-License-Identifier: Apache-2.0
#include "model/workload_class.h"

#include "base/parse.h"

namespace forestall {

WorkloadClass workload_class_at(std::string_view path) {
  auto found = WorkloadClass::other;
  while (!path.empty()) {
    std::string_view name = next_field(path, '/');
    if (name.ends_with(".slice")) name.remove_suffix(6);
    name = name.substr(name.rfind('-') + 1);
    if (found == WorkloadClass::guaranteed) {
      if (name == "burstable") return WorkloadClass::burstable;
      return name == "besteffort" ? WorkloadClass::best_effort : WorkloadClass::guaranteed;
    }
    if (name == "kubepods") found = WorkloadClass::guaranteed;
  }
  return found;
}

}  // namespace forestall
