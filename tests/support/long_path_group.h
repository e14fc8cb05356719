// SPDX-License-Identifier: Apache-2.0
// A chain of directories, such as cgroups, whose path is longer than PATH_MAX.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace forestall::test {

class LongPathGroup {
 public:
  static constexpr int kLevels = 20;

  explicit LongPathGroup(const std::string& top) : name_(250, 'x') {
    fds_.emplace_back(::open(top.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < kLevels; ++i) {
      const int at = fds_.back().get();
      if (::mkdirat(at, name_.c_str(), 0755) != 0) throw std::runtime_error("mkdirat");
      fds_.emplace_back(::openat(at, name_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
  }
  LongPathGroup(const LongPathGroup&) = delete;
  LongPathGroup& operator=(const LongPathGroup&) = delete;
  // REQUIRES: no process in it.
  ~LongPathGroup() {
    for (; fds_.size() > 1; fds_.pop_back()) {
      ::unlinkat(fds_[fds_.size() - 2].get(), name_.c_str(), AT_REMOVEDIR);
    }
  }

  // Writes a file of the last directory.
  void write(const char* file, std::string_view text) const {
    const UniqueFd fd(::openat(fds_.back().get(), file, O_WRONLY | O_CLOEXEC));
    if (::write(fd.get(), text.data(), text.size()) < 0) throw std::runtime_error(file);
  }

 private:
  std::string name_;
  std::vector<UniqueFd> fds_;
};

}  // namespace forestall::test
