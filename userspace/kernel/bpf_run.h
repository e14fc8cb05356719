// SPDX-License-Identifier: Apache-2.0
// Calls that all BPF objects share: BPF_PROG_TEST_RUN, iterators, per-CPU sums.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace forestall::kernel {

// Owns a libbpf object or a skeleton; Destroy is the function that frees it.
template <auto Destroy>
struct BpfDeleter {
  template <typename T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
using BpfLink = std::unique_ptr<bpf_link, BpfDeleter<&bpf_link__destroy>>;
using BpfRing = std::unique_ptr<ring_buffer, BpfDeleter<&ring_buffer__free>>;

// Runs a `syscall` program once by BPF_PROG_TEST_RUN and returns its return value. The kernel
// copies `argument` in and out.
[[nodiscard]] Result<int> run_program(const bpf_program* program,
                                      std::span<std::byte> argument = {});
template <typename Argument>
[[nodiscard]] Result<int> run_program(const bpf_program* program, Argument& argument) {
  return run_program(program, std::as_writable_bytes(std::span(&argument, 1)));
}

// Attaches an iterator program; `where` null: to everything that it iterates over.
[[nodiscard]] Result<BpfLink> attach_iterator(const bpf_program* program,
                                              bpf_iter_link_info* where);
// Runs an iterator that writes no text: one read() takes it to the end.
[[nodiscard]] Result<void> run_iterator(const bpf_program* program, bpf_iter_link_info& where);
// Runs it on the cgroup of this directory alone.
[[nodiscard]] Result<void> run_cgroup_iterator(const bpf_program* program, int cgroup_fd);

// How many values the kernel returns for a key of a per-CPU map. libbpf reads a file the first
// time, so the call fails for lack of a descriptor (EMFILE).
[[nodiscard]] Result<std::size_t> possible_cpus();

// Adds `cpus` to `sum` word by word.
// REQUIRES: sum.size() words each.
void add_words(std::span<const std::uint64_t> cpus, std::span<std::uint64_t> sum);

// The value of `key` in a per-CPU map, summed over CPUs. ENOENT: the key is not in the map.
// REQUIRES: Value consists of __u64 members that are sums.
template <typename Value>
[[nodiscard]] Result<Value> sum_over_cpus(const bpf_map* map, const void* key) {
  constexpr std::size_t kWords = sizeof(Value) / sizeof(std::uint64_t);
  static_assert(sizeof(Value) == kWords * sizeof(std::uint64_t));
  std::vector<std::uint64_t> cpus(TRY(possible_cpus()) * kWords);
  if (bpf_map_lookup_elem(bpf_map__fd(map), key, cpus.data()) != 0) {
    return errno_error("bpf_map_lookup_elem", bpf_map__name(map));
  }
  // Not by a pointer into a Value: __u64 and std::uint64_t are different types, and a compiler that
  // compiles both functions together may assume that they do not alias.
  std::array<std::uint64_t, kWords> sum{};
  add_words(cpus, sum);
  return std::bit_cast<Value>(sum);
}

}  // namespace forestall::kernel
