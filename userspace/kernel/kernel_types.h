// SPDX-License-Identifier: Apache-2.0
// The types that a kernel describes in its BTF.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernel/btf_image.h"

struct btf;

namespace forestall::kernel {

// Queries of a kernel's BTF by name. Immutable; any thread.
//
// Loading takes milliseconds and megabytes (150,000 types), so all BPF objects of a process should
// be loaded with the same one, which is then destroyed.
class KernelTypes {
 public:
  // Of the running kernel; not valid() if it has no BTF.
  KernelTypes();
  // Of any kernel; takes ownership. Null: not valid().
  explicit KernelTypes(btf* types);
  KernelTypes(const KernelTypes&) = delete;
  KernelTypes& operator=(const KernelTypes&) = delete;

  [[nodiscard]] bool valid() const { return image_.valid(); }
  [[nodiscard]] bool has_tracepoint(std::string_view name) const;
  [[nodiscard]] bool has_function(std::string_view name) const { return function_id(name) != 0; }
  // The function's type id; 0: there is no such function.
  [[nodiscard]] std::uint32_t function_id(std::string_view name) const;
  // Number of arguments of a tracepoint; 0: there is no such tracepoint.
  [[nodiscard]] std::uint32_t tracepoint_arguments(std::string_view name) const;
  // Whether its first argument is a pointer.
  [[nodiscard]] bool tracepoint_passes_pointer(std::string_view name) const;

  [[nodiscard]] const BtfImage& image() const { return image_; }

 private:
  void take(btf* types);
  void index();
  [[nodiscard]] std::uint32_t find(std::string_view name, std::uint32_t kind) const;
  [[nodiscard]] const btf_type* tracepoint(std::string_view name) const;

  BtfImage image_;
  // Ids of the functions and tracepoints at the hash of their names, or after it; 0: free. Its size
  // is a power of two.
  std::vector<std::uint32_t> slots_;
};

}  // namespace forestall::kernel
