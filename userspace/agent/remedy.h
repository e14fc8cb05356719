// SPDX-License-Identifier: Apache-2.0
// What an operator can do about a feature that is not in use.
#pragma once

#include <string>

#include "kernel/cgroup_tree.h"
#include "model/feature.h"

namespace forestall::agent {

// What a remedy depends on besides the report itself.
struct RemedyFacts {
  bool bpf_in_use = false;
  kernel::CgroupVersion cgroups = kernel::CgroupVersion::v2;
};

// One sentence without its full stop, also if there is none on this kernel. Empty: it is in use.
[[nodiscard]] std::string remedy(const FeatureReport& report, const RemedyFacts& facts);

}  // namespace forestall::agent
