// SPDX-License-Identifier: Apache-2.0
// Loads the BPF object with as many features as this kernel permits.
//
// BTF shows what exists, not what is permitted: some hosts refuse fentry, and lockdown refuses
// more. One refused program fails the whole object. So the loader tries an empty program on each
// kind of function, then all features that are left together; if the kernel refuses, it tries them
// one by one and loads the accepted ones.
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
  Skeleton skeleton;                   // null: the kernel refused even the base programs
  std::vector<FeatureReport> reports;  // one per BPF feature, in Feature order
};

// Loads and attaches.
[[nodiscard]] LoadedBpf load_bpf(const FeatureSet& disabled, const KernelTypes& types);

}  // namespace forestall::kernel
