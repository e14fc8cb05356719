// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_counters.h"

#include <array>
#include <cstddef>
#include <span>

#include "kernel/bpf_programs.h"
#include "kernel/guard.h"

namespace forestall::kernel {
namespace {

constexpr std::array<std::string_view, ABI_EVENT_KIND_COUNT> kEventKinds{
#define EVENT_KIND_NAME(name, wakes) #name,
    ABI_EVENT_KINDS(EVENT_KIND_NAME)
#undef EVENT_KIND_NAME
};

constexpr std::array<std::string_view, ABI_FAILURE_COUNT> kFailures{
#define FAILURE_NAME(name) #name,
    ABI_FAILURES(FAILURE_NAME)
#undef FAILURE_NAME
};

constexpr std::string_view kFailureCounter = "failures";

void append_kinds(BpfCounter counter, std::span<const std::string_view> kinds,
                  std::span<const __u64> values, std::vector<BpfCounter>& out) {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    counter.kind = kinds[i];
    counter.value = values[i];
    out.push_back(counter);
  }
}

}  // namespace

void append_counters(std::string_view object, const abi_counters& from,
                     std::vector<BpfCounter>& out) {
#define APPEND_EVENT_COUNTER(name, loss) \
  append_kinds({object, #name, {}, (loss) != 0}, kEventKinds, from.name, out);
  ABI_EVENT_COUNTERS(APPEND_EVENT_COUNTER)
#undef APPEND_EVENT_COUNTER
  append_failures(object, from, out);
#define APPEND_TIMER_COUNTER(name, loss) out.push_back({object, #name, {}, (loss) != 0, from.name});
  ABI_TIMER_COUNTERS(APPEND_TIMER_COUNTER)
#undef APPEND_TIMER_COUNTER
}

void append_counters(std::string_view object, const abi_guard_counts& from,
                     std::vector<BpfCounter>& out) {
#define APPEND_GUARD_COUNTER(name, loss) out.push_back({object, #name, {}, (loss) != 0, from.name});
  ABI_GUARD_COUNTERS(APPEND_GUARD_COUNTER)
#undef APPEND_GUARD_COUNTER
}

void append_failures(std::string_view object, const abi_counters& from,
                     std::vector<BpfCounter>& out) {
  append_kinds({object, kFailureCounter, {}, true}, kFailures, from.failures, out);
}

void append_failures(std::string_view object, const abi_trace_totals& from,
                     std::vector<BpfCounter>& out) {
#define APPEND_TRACE_FAILURE(name, loss) \
  out.push_back(                         \
      {object, kFailureCounter, #name, (loss) != 0, from.failures[ABI_TRACE_FAILURE_##name]});
  ABI_TRACE_FAILURES(APPEND_TRACE_FAILURE)
#undef APPEND_TRACE_FAILURE
}

Result<std::vector<BpfCounter>> bpf_counters(const BpfPrograms* programs,
                                             const GuardPrograms* guard) {
  std::vector<BpfCounter> all;
  if (programs != nullptr) all = TRY(programs->counters_by_name());
  if (guard == nullptr) return all;
  const std::vector<BpfCounter> of_guard = TRY(guard->counters_by_name());
  all.insert(all.end(), of_guard.begin(), of_guard.end());
  return all;
}

}  // namespace forestall::kernel
