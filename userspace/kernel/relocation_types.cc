// SPDX-License-Identifier: Apache-2.0
#include "kernel/relocation_types.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernel/bpf_log.h"

namespace forestall::kernel {
namespace {

struct FreeBtf {
  void operator()(btf* types) const { btf__free(types); }
};
using OwnedBtf = std::unique_ptr<btf, FreeBtf>;

bool can_be_relocated(const btf_type& type) {
  return btf_is_composite(&type) || btf_is_any_enum(&type) || btf_is_typedef(&type) ||
         btf_is_fwd(&type);
}

std::unordered_set<std::string_view> names_in(const btf* object) {
  std::unordered_set<std::string_view> names;
  const std::uint32_t count = btf__type_cnt(object);
  for (std::uint32_t id = 1; id < count; ++id) {
    const btf_type& type = *btf__type_by_id(object, id);
    if (!can_be_relocated(type)) continue;
    const std::string_view name = without_flavor(btf__name_by_offset(object, type.name_off));
    if (!name.empty()) names.insert(name);
  }
  return names;
}

// Copies types of `from`, each once, with all types that they consist of.
class Selection {
 public:
  explicit Selection(const btf* from) : from_(from), to_(btf__new_empty()) {}

  [[nodiscard]] bool add_named(const std::unordered_set<std::string_view>& names);
  [[nodiscard]] const btf* get() const { return to_.get(); }

 private:
  bool copy(std::uint32_t id);
  void select(std::uint32_t id);
  void select_parts(const btf_type& type);
  void translate(std::uint32_t& reference) const;
  void translate_parts(btf_type& type) const;

  const btf* from_;
  OwnedBtf to_;
  std::unordered_map<std::uint32_t, std::uint32_t> copies_{{0, 0}};  // id there, id here; 0 is void
  std::vector<std::uint32_t> wanted_;                                // not copied yet
};

void Selection::select(std::uint32_t id) {
  if (!copies_.contains(id)) wanted_.push_back(id);
}

// A type that only a pointer leads to is not a part.
void Selection::select_parts(const btf_type& type) {
  if (btf_is_composite(&type)) {
    for (std::uint32_t i = 0; i < btf_vlen(&type); ++i) select(btf_members(&type)[i].type);
  } else if (btf_is_array(&type)) {
    select(btf_array(&type)->type);
    select(btf_array(&type)->index_type);
  } else if (btf_is_mod(&type) || btf_is_typedef(&type) || btf_is_type_tag(&type)) {
    select(type.type);
  }
}

bool Selection::copy(std::uint32_t id) {
  if (copies_.contains(id)) return true;
  const btf_type* type = btf__type_by_id(from_, id);
  const int copied = type != nullptr ? btf__add_type(to_.get(), from_, type) : -1;
  if (copied <= 0) return false;
  copies_.emplace(id, static_cast<std::uint32_t>(copied));
  select_parts(*type);
  return true;
}

void Selection::translate(std::uint32_t& reference) const {
  const auto found = copies_.find(reference);
  reference = found != copies_.end() ? found->second : 0;
}

void Selection::translate_parts(btf_type& type) const {
  if (btf_is_composite(&type)) {
    for (std::uint32_t i = 0; i < btf_vlen(&type); ++i) translate(btf_members(&type)[i].type);
  } else if (btf_is_array(&type)) {
    translate(btf_array(&type)->type);
    translate(btf_array(&type)->index_type);
  } else if (btf_is_ptr(&type)) {
    type.type = 0;
  } else if (btf_is_func_proto(&type)) {  // behind a typedef of a function type; it has no layout
    type.type = 0;
    for (std::uint32_t i = 0; i < btf_vlen(&type); ++i) btf_params(&type)[i].type = 0;
  } else if (btf_is_mod(&type) || btf_is_typedef(&type) || btf_is_type_tag(&type)) {
    translate(type.type);
  }
}

bool Selection::add_named(const std::unordered_set<std::string_view>& names) {
  if (!to_) return false;
  const std::uint32_t count = btf__type_cnt(from_);
  for (std::uint32_t id = 1; id < count; ++id) {
    const btf_type& type = *btf__type_by_id(from_, id);
    if (can_be_relocated(type) && names.contains(btf__name_by_offset(from_, type.name_off))) {
      wanted_.push_back(id);
    }
  }
  while (!wanted_.empty()) {
    const std::uint32_t id = wanted_.back();
    wanted_.pop_back();
    if (!copy(id)) return false;
  }
  // As bpftool does: libbpf has no call that changes a type (`bpftool gen min_core_btf`).
  const std::uint32_t copied = btf__type_cnt(to_.get());
  for (std::uint32_t id = 1; id < copied; ++id) {
    translate_parts(const_cast<btf_type&>(*btf__type_by_id(to_.get(), id)));
  }
  return true;
}

bool write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, data, size);
    if (written <= 0) return false;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

std::string_view without_flavor(std::string_view name) {
  for (std::size_t i = name.size(); i-- > 0;) {
    if (i + 4 >= name.size() || name[i] == '_' || name[i + 4] == '_') continue;
    if (name.substr(i + 1, 3) == "___") return name.substr(0, i + 1);
  }
  return name;
}

RelocationTypes::RelocationTypes(const KernelTypes& kernel,
                                 const void* (*elf_bytes)(std::size_t* size)) {
  const BpfLog quiet;
  std::size_t size = 0;
  const void* elf = elf_bytes(&size);
  bpf_object* object = bpf_object__open_mem(elf, size, nullptr);
  if (object == nullptr) return;
  take(kernel, bpf_object__btf(object));
  bpf_object__close(object);
}

void RelocationTypes::take(const KernelTypes& kernel, const btf* object) {
  if (!kernel.valid() || object == nullptr) return;
  Selection selection(kernel.get());
  if (!selection.add_named(names_in(object))) return;
  std::uint32_t size = 0;
  const void* data = btf__raw_data(selection.get(), &size);
  file_ = UniqueFd(::memfd_create("forestall-btf", MFD_CLOEXEC));
  if (data == nullptr || !file_) return;
  if (!write_all(file_.get(), static_cast<const char*>(data), size)) return;
  path_ = "/proc/self/fd/" + std::to_string(file_.get());
}

}  // namespace forestall::kernel
