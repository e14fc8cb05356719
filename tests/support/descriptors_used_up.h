// SPDX-License-Identifier: Apache-2.0
// Uses up the process' descriptors while it exists.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>

#include <cstddef>
#include <vector>

#include "base/unique_fd.h"

namespace forestall::test {

class DescriptorsUsedUp {
 public:
  // `left` descriptors stay available.
  explicit DescriptorsUsedUp(std::size_t left = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = few.rlim_cur < kMost ? few.rlim_cur : kMost;
    ::setrlimit(RLIMIT_NOFILE, &few);
    do {
      all_.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (all_.back());
    all_.resize(all_.size() > left ? all_.size() - left : 0);
  }
  DescriptorsUsedUp(const DescriptorsUsedUp&) = delete;
  DescriptorsUsedUp& operator=(const DescriptorsUsedUp&) = delete;
  ~DescriptorsUsedUp() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  static constexpr rlim_t kMost = 1024;
  rlimit before_{};
  std::vector<UniqueFd> all_;
};

}  // namespace forestall::test
