// SPDX-License-Identifier: Apache-2.0
// The counters of the BPF objects by name, generated from the X-macro lists in bpf/abi.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "bpf/abi/counters.h"
#include "bpf/abi/guard.h"
#include "bpf/abi/trace.h"
#include "model/bpf_counter.h"

namespace forestall::kernel {

class BpfPrograms;
class GuardPrograms;

// Each appends every counter of the struct, in the order of bpf/abi. `object` outlives `out`.
void append_counters(std::string_view object, const abi_counters& from,
                     std::vector<BpfCounter>& out);
void append_counters(std::string_view object, const abi_guard_counts& from,
                     std::vector<BpfCounter>& out);
// The failures only. An object whose programs emit no events has no other shared counters, and the
// tracer reports its other totals by kind.
void append_failures(std::string_view object, const abi_counters& from,
                     std::vector<BpfCounter>& out);
void append_failures(std::string_view object, const abi_trace_totals& from,
                     std::vector<BpfCounter>& out);

// The counters of the BPF objects that an agent has loaded; null: not in use.
[[nodiscard]] Result<std::vector<BpfCounter>> bpf_counters(const BpfPrograms* programs,
                                                           const GuardPrograms* guard);

}  // namespace forestall::kernel
