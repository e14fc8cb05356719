// SPDX-License-Identifier: Apache-2.0
// Wake source: memory.high (cgroup v2) set at the line, and EPOLLPRI on memory.events.
//
// Above memory.high the kernel increments the counter "high" and throttles allocations to a few MiB
// a second, which leaves time to decide. This changes how a cgroup runs, so only lines whose rule
// allows it are armed (Line::tune); others are skipped. The original value is restored on disarm
// and destruction, or by the next start after a SIGKILL (kernel/memory_high.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/setting_records.h"
#include "sources/source.h"

namespace forestall::sources {

class HighTripwire final : public Source {
 public:
  // Fails on cgroup v1. `tree` and `records` must outlive the source.
  static Result<std::unique_ptr<Source>> create(const kernel::CgroupTree& tree,
                                                const kernel::SettingRecords& records);
  ~HighTripwire() override;

  [[nodiscard]] Feature feature() const override { return Feature::memory_high; }
  [[nodiscard]] int fd() const override { return epoll_.get(); }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;

 private:
  struct Watch;
  HighTripwire(const kernel::CgroupTree& tree, const kernel::SettingRecords& records,
               UniqueFd epoll);
  [[nodiscard]] Watch* find(CgroupId cgroup);
  Result<Watch*> open_watch(const Line& line);
  Result<void> arm_line(const Line& line);

  const kernel::CgroupTree& tree_;
  const kernel::SettingRecords& records_;
  UniqueFd epoll_;
  std::map<CgroupId, std::unique_ptr<Watch>> watches_;
  std::string buffer_;
};

}  // namespace forestall::sources
