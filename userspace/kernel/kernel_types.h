// SPDX-License-Identifier: Apache-2.0
// The types that a kernel describes in its BTF.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

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
  ~KernelTypes();

  [[nodiscard]] bool valid() const { return btf_ != nullptr; }
  [[nodiscard]] bool has_tracepoint(std::string_view name) const;
  [[nodiscard]] bool has_function(std::string_view name) const { return function_id(name) != 0; }
  // The function's type id; 0: there is no such function.
  [[nodiscard]] std::uint32_t function_id(std::string_view name) const;
  // Number of arguments of a tracepoint; 0: there is no such tracepoint.
  [[nodiscard]] std::uint32_t tracepoint_arguments(std::string_view tracepoint) const;
  // Whether its first argument is a pointer.
  [[nodiscard]] bool tracepoint_passes_pointer(std::string_view tracepoint) const;

  // Null if not valid(). Owned by this object.
  [[nodiscard]] const btf* get() const { return btf_; }

 private:
  void index();

  btf* btf_;
  // By name; the names lie in btf_. libbpf's search by name compares all types.
  std::unordered_map<std::string_view, std::uint32_t> functions_;
  std::unordered_map<std::string_view, std::uint32_t> tracepoints_;  // their function prototypes
};

}  // namespace forestall::kernel
