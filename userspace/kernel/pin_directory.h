// SPDX-License-Identifier: Apache-2.0
// Pins in a directory of a bpffs, which only its owner may write.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/guard_store.h"

namespace forestall::kernel {

class PinDirectory final : public GuardStore {
 public:
  // Refuses a symbolic link, a directory that is not on a bpffs, one of another user than root and
  // this process's, and one that its group or others may write.
  static Result<std::unique_ptr<PinDirectory>> open(const std::string& path);

  // Refuses an entry that is not a BPF map or link, or whose name is not one of a guard.
  [[nodiscard]] Result<std::vector<KeptObject>> kept() override;
  [[nodiscard]] Result<void> keep(const std::string& name, int fd) override;
  [[nodiscard]] Result<void> drop(const std::string& name) override;
  [[nodiscard]] Result<std::vector<std::string>> names() const override;
  [[nodiscard]] StoreRoom room() const override { return {kMax}; }
  [[nodiscard]] std::string place() const override { return "pins in " + path_; }
  [[nodiscard]] UniqueFd turn() const override;

 private:
  // Memory bounds a bpffs.
  static constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();

  PinDirectory(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  [[nodiscard]] std::string place_of(const std::string& name) const;

  std::string path_;
  UniqueFd fd_;
};

}  // namespace forestall::kernel
