// SPDX-License-Identifier: Apache-2.0
// The type ids of what BPF programs attach to, for libbpf.
#pragma once

#include <bpf/libbpf.h>

#include <array>

#include "kernel/kernel_types.h"

namespace forestall::kernel {

// While this exists, libbpf takes the ids of functions and iterators from `types`. Otherwise it
// reads and parses all types of the kernel at each load of an object with such a program, which
// costs as much as all programs of the object.
//
// Open and load the object while this exists, and attach its programs by attach() or
// attach_iterator(). The kernel's functions that a program calls (kfuncs) are found by libbpf.
// REQUIRES: no other thread opens or loads an object meanwhile (libbpf's table of sections).
class AttachTypes {
 public:
  // `types` must exist as long as this. If it is not valid, libbpf does it all.
  explicit AttachTypes(const KernelTypes& types);
  AttachTypes(const AttachTypes&) = delete;
  AttachTypes& operator=(const AttachTypes&) = delete;
  ~AttachTypes();

 private:
  std::array<int, 3> handlers_;  // as libbpf numbers them; negative: not registered
};

// Attaches a loaded program. Null: errno has the reason. The caller owns the link.
[[nodiscard]] bpf_link* attach(const bpf_program* program);

}  // namespace forestall::kernel
