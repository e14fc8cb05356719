// SPDX-License-Identifier: Apache-2.0
// Wake source: a walk over the pods' files has ended and their disk usage is available.
#pragma once

#include "sources/disk_walker.h"
#include "sources/source.h"

namespace forestall::sources {

class DiskUsageSource final : public Source {
 public:
  // `walker` must outlive the source.
  explicit DiskUsageSource(DiskWalker& walker) : walker_(walker) {}

  [[nodiscard]] Feature feature() const override { return Feature::poll; }
  [[nodiscard]] int fd() const override { return walker_.fd(); }
  // Has no lines; wakes when a requested walk has ended.
  Result<std::vector<std::string>> arm(std::span<const Line>, MonotonicTime) override {
    return std::vector<std::string>();
  }
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override {
    if (walker_.collect(now)) wakes.push_back({WakeSource::disk_usage, now, {}, {}});
  }

 private:
  DiskWalker& walker_;
};

}  // namespace forestall::sources
