// SPDX-License-Identifier: Apache-2.0
// The part of a kernel's BTF that the CO-RE relocations of one BPF object can refer to.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "kernel/kernel_types.h"

namespace forestall::kernel {

// A BTF file in memory with the types of `kernel` whose names the object's own BTF has, and the
// types of their members; pointers lead to void. For bpf_object_open_opts::btf_custom_path: libbpf
// otherwise compares every name with all 150,000 types of the kernel, at each load. The result of a
// relocation is the same, because libbpf finds candidates by name and does not follow pointers
// (bpf_core_find_cands, bpf_core_fields_are_compat; libbpf 1.1). Not for an object that requests
// type ids of the kernel (bpf_core_type_id_kernel): it would get ids of this file.
class RelocationTypes {
 public:
  // `elf_bytes`: NAME__elf_bytes() of the object's skeleton, which is the object as compiled.
  RelocationTypes(const KernelTypes& kernel, const void* (*elf_bytes)(std::size_t* size));
  // With the BTF of an object.
  RelocationTypes(const KernelTypes& kernel, const btf* object) { take(kernel, object); }

  // Must exist until the object is loaded, and exists as long as this one. Null: the file could not
  // be made, and libbpf has to search the kernel's BTF.
  [[nodiscard]] const char* path() const { return path_.empty() ? nullptr : path_.c_str(); }

 private:
  void take(const KernelTypes& kernel, const btf* object);

  UniqueFd file_;
  std::string path_;
};

// The name without the suffix ___FLAVOR of CO-RE (bpf_core_essential_name_len() of libbpf).
[[nodiscard]] std::string_view without_flavor(std::string_view name);

}  // namespace forestall::kernel
