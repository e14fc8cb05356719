// SPDX-License-Identifier: Apache-2.0
// Loads the BPF object with as many features as this kernel permits.
//
// BTF tells what exists, never what is permitted (some hosts refuse fentry, lockdown refuses more),
// and one refused program fails the whole object. So: try everything; if that is refused, try each
// feature by itself to find whose fault it is, then load what is left.
#pragma once

#include <memory>
#include <vector>

#include "kernel/bpf_plan.h"
#include "model/feature.h"

struct forestall_bpf;

namespace forestall::kernel {

struct SkeletonDeleter {
  void operator()(forestall_bpf* skeleton) const;
};
using Skeleton = std::unique_ptr<forestall_bpf, SkeletonDeleter>;

struct LoadedBpf {
  Skeleton skeleton;                   // null when not even the base programs could be loaded
  std::vector<FeatureReport> reports;  // one per BPF feature, in Feature order
};

// Loads and attaches.
[[nodiscard]] LoadedBpf load_bpf(const FeatureSet& disabled);

}  // namespace forestall::kernel
