// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_types.h"

#include <bpf/btf.h>

#include <bit>
#include <functional>
#include <span>
#include <string>

#include "kernel/bpf_log.h"

namespace forestall::kernel {
namespace {

constexpr std::string_view kTracepointPrefix = "btf_trace_";

// The function prototype behind typedef btf_trace_NAME, whose target is a pointer to it. Its first
// parameter is the tracepoint's private pointer. Null: it is something else.
const btf_type* prototype_of(const BtfImage& image, const btf_type& tracepoint) {
  const btf_type* pointer = image.type(tracepoint.type);
  if (pointer == nullptr || !btf_is_ptr(pointer)) return nullptr;
  const btf_type* prototype = image.type(pointer->type);
  return prototype != nullptr && btf_is_func_proto(prototype) ? prototype : nullptr;
}

bool is_indexed(const BtfImage& image, const btf_type& type) {
  if (btf_is_func(&type)) return true;
  return btf_is_typedef(&type) &&
         std::string_view(image.name(type.name_off)).starts_with(kTracepointPrefix) &&
         prototype_of(image, type) != nullptr;
}

}  // namespace

KernelTypes::KernelTypes() : image_(BtfImage::of_kernel()) {
  const BpfLog quiet;
  // libbpf also searches for BTF in files of other places, and supports more formats.
  if (image_.valid()) {
    index();
  } else {
    take(btf__load_vmlinux_btf());
  }
}

KernelTypes::KernelTypes(btf* types) {
  take(types);
}

void KernelTypes::take(btf* types) {
  if (types == nullptr) return;
  std::uint32_t size = 0;
  const void* bytes = btf__raw_data(types, &size);
  if (bytes != nullptr) {
    image_ = BtfImage::copy_of(std::span(static_cast<const std::byte*>(bytes), size));
  }
  btf__free(types);
  index();
}

void KernelTypes::index() {
  const std::uint32_t count = image_.type_count();
  std::vector<std::uint32_t> indexed;
  indexed.reserve(count / 2);  // 4 in 10 types of a distribution's kernel are functions
  for (std::uint32_t id = 1; id < count; ++id) {
    if (is_indexed(image_, *image_.type(id))) indexed.push_back(id);
  }
  slots_.resize(std::bit_ceil(2 * indexed.size() + 1));
  for (const std::uint32_t id : indexed) {
    std::size_t slot = std::hash<std::string_view>()(image_.name(image_.type(id)->name_off));
    while (slots_[slot & (slots_.size() - 1)] != 0) ++slot;
    slots_[slot & (slots_.size() - 1)] = id;
  }
}

// The first type of this name and kind; 0: there is none.
std::uint32_t KernelTypes::find(std::string_view name, std::uint32_t kind) const {
  if (slots_.empty()) return 0;
  std::size_t slot = std::hash<std::string_view>()(name);
  for (;; ++slot) {
    const std::uint32_t id = slots_[slot & (slots_.size() - 1)];
    if (id == 0) return 0;
    const btf_type& type = *image_.type(id);
    if (btf_kind(&type) == kind && name == image_.name(type.name_off)) return id;
  }
}

// Its function prototype; null: there is no such tracepoint.
const btf_type* KernelTypes::tracepoint(std::string_view name) const {
  const std::uint32_t id = find(std::string(kTracepointPrefix).append(name), BTF_KIND_TYPEDEF);
  return id != 0 ? prototype_of(image_, *image_.type(id)) : nullptr;
}

bool KernelTypes::has_tracepoint(std::string_view name) const {
  return tracepoint(name) != nullptr;
}

std::uint32_t KernelTypes::function_id(std::string_view name) const {
  return find(name, BTF_KIND_FUNC);
}

std::uint32_t KernelTypes::tracepoint_arguments(std::string_view name) const {
  const btf_type* prototype = tracepoint(name);
  const std::uint32_t parameters = prototype != nullptr ? btf_vlen(prototype) : 0;
  return parameters > 0 ? parameters - 1 : 0;
}

bool KernelTypes::tracepoint_passes_pointer(std::string_view name) const {
  if (tracepoint_arguments(name) == 0) return false;
  const btf_param* first = btf_params(tracepoint(name)) + 1;
  const btf_type* type = image_.type(first->type);
  return type != nullptr && btf_is_ptr(type);
}

}  // namespace forestall::kernel
