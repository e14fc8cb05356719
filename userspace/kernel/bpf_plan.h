// SPDX-License-Identifier: Apache-2.0
// The programs of each BPF feature, and which of them the kernel's BTF allows to try. A pure
// decision; bpf_loader loads them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernel/kernel_types.h"
#include "model/feature.h"

namespace forestall::kernel {

// What a program is attached to.
enum class Hook : std::uint8_t {
  none,        // run by userspace or by the iterator
  tracepoint,  // raw tracepoint; in BTF as typedef btf_trace_NAME
  function,    // fentry or fexit; in BTF as function NAME
};

struct BpfProgram {
  const char* name;  // in the object
  Feature feature;
  Hook hook = Hook::none;
  const char* target = "";
  // This feature needs the program too, even if `feature` is not in use.
  std::optional<Feature> also = std::nullopt;
  // The feature works without it if the kernel has no such function.
  bool may_lack = false;
};

// Whether `program` works for `feature`.
[[nodiscard]] bool serves(const BpfProgram& program, Feature feature);

// All programs of the object.
[[nodiscard]] std::span<const BpfProgram> bpf_programs();

// The features that are made of BPF programs, `bpf` first.
[[nodiscard]] std::span<const Feature> bpf_features();

// Whether this kernel counts stalls (boot parameter psi=). Otherwise psi_memstall_enter() returns
// early and does not mark nested stalls (kernel/sched/psi.c).
[[nodiscard]] bool psi_is_on();
inline constexpr std::string_view kPsiIsOff = "PSI is off; boot with psi=1";

// Whether the kernel has what a program is attached to.
[[nodiscard]] bool offers(const KernelTypes& types, Hook hook, std::string_view target);

// The result for one feature so far.
struct BpfVerdict {
  FeatureState state = FeatureState::in_use;
  std::string evidence;
};

using BpfPlan = std::map<Feature, BpfVerdict>;

// The features to try: in_use here means that neither the operator nor BTF excludes the feature.
[[nodiscard]] BpfPlan plan_bpf(const KernelTypes& types, const FeatureSet& disabled);

// Whether the plan needs the program.
[[nodiscard]] bool should_load(const BpfPlan& plan, const KernelTypes& types,
                               const BpfProgram& program);

}  // namespace forestall::kernel
