// SPDX-License-Identifier: Apache-2.0
// Keeps descriptors of the guard's BPF objects while no agent runs. The programs of a guard end
// with the last reference to them, and a timer with the last descriptor or pin of its map.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::kernel {

struct KeptObject {
  std::string name;
  UniqueFd fd;
};

// Thread rule: one thread at a time.
class GuardStore {
 public:
  GuardStore() = default;
  GuardStore(const GuardStore&) = delete;
  GuardStore& operator=(const GuardStore&) = delete;
  virtual ~GuardStore() = default;

  // All objects that are kept. An error refuses the store as a whole: another program or user may
  // have written to it.
  [[nodiscard]] virtual Result<std::vector<KeptObject>> kept() = 0;
  // REQUIRES: kept() without an error, and no object of this name.
  [[nodiscard]] virtual Result<void> keep(const std::string& name, int fd) = 0;
  [[nodiscard]] virtual Result<void> drop(const std::string& name) = 0;
  // Drops everything under the name of a guard's object, also if kept() refuses the store or was
  // called before. Returns how many objects that were.
  [[nodiscard]] virtual Result<std::size_t> drop_all() = 0;
};

// The kind of a descriptor, from the name that procfs shows: "bpf-map", "bpf_link"; empty: it is
// not a BPF object.
[[nodiscard]] std::string bpf_object_kind(int fd);

}  // namespace forestall::kernel
