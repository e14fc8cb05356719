// SPDX-License-Identifier: Apache-2.0
#include "kernel/relocation_types.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernel/bpf_log.h"

namespace forestall::kernel {
namespace {

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

// Copies types of a kernel, each once, with all types that they consist of.
class Selection {
 public:
  explicit Selection(const BtfImage& from) : from_(from) {}

  [[nodiscard]] bool add_named(const std::unordered_set<std::string_view>& names);
  // The file.
  [[nodiscard]] std::string bytes() const;

 private:
  bool copy(std::uint32_t id);
  void rename(std::uint32_t& name);
  void rename_parts(btf_type& type);
  void select(std::uint32_t id);
  void select_parts(const btf_type& type);
  void translate(std::uint32_t& reference) const;
  void translate_parts(btf_type& type) const;

  const BtfImage& from_;
  std::vector<char> types_;
  std::vector<std::size_t> starts_;  // of each type in types_
  std::string names_ = std::string(1, '\0');
  std::unordered_map<std::uint32_t, std::uint32_t> renamed_{{0, 0}};  // offset there, offset here
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

void Selection::rename(std::uint32_t& name) {
  const auto [known, is_new] =
      renamed_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
  if (is_new) names_.append(from_.name(name)).push_back('\0');
  name = known->second;
}

void Selection::rename_parts(btf_type& type) {
  rename(type.name_off);
  for (std::uint32_t i = 0; i < btf_vlen(&type); ++i) {
    if (btf_is_composite(&type)) rename(btf_members(&type)[i].name_off);
    if (btf_is_enum(&type)) rename(btf_enum(&type)[i].name_off);
    if (btf_is_enum64(&type)) rename(btf_enum64(&type)[i].name_off);
    if (btf_is_func_proto(&type)) rename(btf_params(&type)[i].name_off);
  }
}

bool Selection::copy(std::uint32_t id) {
  if (copies_.contains(id)) return true;
  const btf_type* type = from_.type(id);
  if (type == nullptr) return false;
  const auto* bytes = reinterpret_cast<const char*>(type);
  starts_.push_back(types_.size());
  types_.insert(types_.end(), bytes, bytes + btf_bytes_of(*type));
  rename_parts(reinterpret_cast<btf_type&>(types_[starts_.back()]));
  copies_.emplace(id, static_cast<std::uint32_t>(starts_.size()));
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
  const std::uint32_t count = from_.type_count();
  for (std::uint32_t id = 1; id < count; ++id) {
    const btf_type& type = *from_.type(id);
    if (can_be_relocated(type) && names.contains(from_.name(type.name_off))) wanted_.push_back(id);
  }
  while (!wanted_.empty()) {
    const std::uint32_t id = wanted_.back();
    wanted_.pop_back();
    if (!copy(id)) return false;
  }
  for (const std::size_t start : starts_) {
    translate_parts(reinterpret_cast<btf_type&>(types_[start]));
  }
  return true;
}

std::string Selection::bytes() const {
  btf_header header{};
  header.magic = BTF_MAGIC;
  header.version = BTF_VERSION;
  header.hdr_len = sizeof(header);
  header.type_len = static_cast<std::uint32_t>(types_.size());
  header.str_off = header.type_len;
  header.str_len = static_cast<std::uint32_t>(names_.size());
  std::string file(reinterpret_cast<const char*>(&header), sizeof(header));
  return file.append(types_.data(), types_.size()).append(names_);
}

bool write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written <= 0) return false;
    data.remove_prefix(static_cast<std::size_t>(written));
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
  Selection selection(kernel.image());
  if (!selection.add_named(names_in(object))) return;
  file_ = UniqueFd(::memfd_create("forestall-btf", MFD_CLOEXEC));
  if (!file_ || !write_all(file_.get(), selection.bytes())) return;
  path_ = "/proc/self/fd/" + std::to_string(file_.get());
}

}  // namespace forestall::kernel
