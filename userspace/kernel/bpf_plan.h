// SPDX-License-Identifier: Apache-2.0
// What each BPF feature is made of, and what the kernel's BTF says may exist. Facts and a pure
// decision; loading is bpf_loader's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/feature.h"

struct btf;

namespace forestall::kernel {

// What a program hangs on.
enum class Hook : std::uint8_t {
  none,        // run by userspace or by the iterator
  tracepoint,  // raw tracepoint; in BTF as typedef btf_trace_NAME
  function,    // fentry or fexit; in BTF as function NAME
};

struct BpfProgram {
  const char* name;  // in the object
  Feature feature;   // belongs to
  Hook hook = Hook::none;
  const char* target = "";
  // Needed by this one, too, when `feature` itself is not in use.
  std::optional<Feature> also = std::nullopt;
  // The feature still works without it when the kernel has no such function.
  bool may_lack = false;
};

// Whether `program` works for `feature`.
[[nodiscard]] bool serves(const BpfProgram& program, Feature feature);

// All programs of the object.
[[nodiscard]] std::span<const BpfProgram> bpf_programs();

// The features that are made of BPF programs, `bpf` first.
[[nodiscard]] std::span<const Feature> bpf_features();

// Whether this kernel counts stalls (boot parameter psi=). Where it does not, psi_memstall_enter()
// leaves undone what tells a stall from one within another (kernel/sched/psi.c).
[[nodiscard]] bool psi_is_on();
inline constexpr std::string_view kPsiIsOff = "PSI is off; boot with psi=1";

// A kernel's BTF, asked by name. Immutable.
class KernelTypes {
 public:
  // Of the running kernel; not valid() when it offers none.
  KernelTypes();
  // Of any kernel; takes ownership.
  explicit KernelTypes(btf* types) : btf_(types) {}
  KernelTypes(const KernelTypes&) = delete;
  KernelTypes& operator=(const KernelTypes&) = delete;
  ~KernelTypes();

  [[nodiscard]] bool valid() const { return btf_ != nullptr; }
  [[nodiscard]] bool has(const BpfProgram& program) const;
  // Number of arguments of a tracepoint; 0 when there is no such tracepoint.
  [[nodiscard]] std::uint32_t tracepoint_arguments(std::string_view tracepoint) const;
  // Whether its first argument is a pointer.
  [[nodiscard]] bool tracepoint_passes_pointer(std::string_view tracepoint) const;

 private:
  btf* btf_;
};

// One feature's answer while it is being found out.
struct BpfVerdict {
  FeatureState state = FeatureState::in_use;
  std::string evidence;
};

using BpfPlan = std::map<Feature, BpfVerdict>;

// What is worth trying: in_use here means "not ruled out by the operator or by BTF".
[[nodiscard]] BpfPlan plan_bpf(const KernelTypes& types, const FeatureSet& disabled);

// Whether the program is to be loaded under the plan.
[[nodiscard]] bool wants(const BpfPlan& plan, const KernelTypes& types, const BpfProgram& program);

}  // namespace forestall::kernel
