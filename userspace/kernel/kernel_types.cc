// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_types.h"

#include <bpf/btf.h>

#include "kernel/bpf_log.h"

namespace forestall::kernel {
namespace {

constexpr std::string_view kTracepointPrefix = "btf_trace_";

// The function prototype behind typedef btf_trace_NAME, whose target is a pointer to it. Its first
// parameter is the tracepoint's private pointer. 0: it is something else.
std::uint32_t prototype_of(const btf* types, const btf_type& tracepoint) {
  const btf_type* pointer = btf__type_by_id(types, tracepoint.type);
  if (pointer == nullptr || !btf_is_ptr(pointer)) return 0;
  const btf_type* prototype = btf__type_by_id(types, pointer->type);
  return prototype != nullptr && btf_is_func_proto(prototype) ? pointer->type : 0;
}

}  // namespace

KernelTypes::KernelTypes() {
  const BpfLog quiet;
  btf_ = btf__load_vmlinux_btf();
  index();
}

KernelTypes::KernelTypes(btf* types) : btf_(types) {
  index();
}

KernelTypes::~KernelTypes() {
  btf__free(btf_);
}

void KernelTypes::index() {
  if (btf_ == nullptr) return;
  const std::uint32_t count = btf__type_cnt(btf_);
  functions_.reserve(count / 2);  // 4 in 10 types of a distribution's kernel are functions
  for (std::uint32_t id = 1; id < count; ++id) {
    const btf_type& type = *btf__type_by_id(btf_, id);
    if (btf_is_func(&type)) {
      functions_.try_emplace(btf__name_by_offset(btf_, type.name_off), id);
    } else if (btf_is_typedef(&type)) {
      const std::string_view name = btf__name_by_offset(btf_, type.name_off);
      if (!name.starts_with(kTracepointPrefix)) continue;
      const std::uint32_t prototype = prototype_of(btf_, type);
      if (prototype != 0)
        tracepoints_.try_emplace(name.substr(kTracepointPrefix.size()), prototype);
    }
  }
}

bool KernelTypes::has_tracepoint(std::string_view name) const {
  return tracepoints_.contains(name);
}

std::uint32_t KernelTypes::function_id(std::string_view name) const {
  const auto found = functions_.find(name);
  return found != functions_.end() ? found->second : 0;
}

std::uint32_t KernelTypes::tracepoint_arguments(std::string_view tracepoint) const {
  const auto found = tracepoints_.find(tracepoint);
  if (found == tracepoints_.end()) return 0;
  const std::uint32_t parameters = btf_vlen(btf__type_by_id(btf_, found->second));
  return parameters > 0 ? parameters - 1 : 0;
}

bool KernelTypes::tracepoint_passes_pointer(std::string_view tracepoint) const {
  if (tracepoint_arguments(tracepoint) == 0) return false;
  const btf_param* first = btf_params(btf__type_by_id(btf_, tracepoints_.at(tracepoint))) + 1;
  const btf_type* type = btf__type_by_id(btf_, first->type);
  return type != nullptr && btf_is_ptr(type);
}

}  // namespace forestall::kernel
