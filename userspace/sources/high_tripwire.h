// SPDX-License-Identifier: Apache-2.0
// Wake source: memory.high (cgroup v2) set at the line, and EPOLLPRI on memory.events.
//
// Past memory.high the kernel both tells (the counter "high" moves) and throttles whoever grows to
// a few MiB a second, which is time to decide in. That changes how a cgroup runs, so it is done
// only on lines whose rule allows it (Line::tune); other lines are passed over. What was set is
// given back on disarm and destruction, and by the next start after a SIGKILL
// (kernel/memory_high.h).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "sources/source.h"

namespace forestall::sources {

class HighTripwire final : public Source {
 public:
  // Refused on cgroup v1. Gives back first what a killed agent left; the first arm() tells of it.
  // `tree` must outlive the source; `proc` is not used.
  static Result<std::unique_ptr<Source>> create(const kernel::CgroupTree& tree,
                                                const std::string& proc = "/proc");
  ~HighTripwire() override;

  [[nodiscard]] Feature feature() const override { return Feature::memory_high; }
  [[nodiscard]] int fd() const override { return epoll_.get(); }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;

 private:
  struct Watch;
  HighTripwire(const kernel::CgroupTree& tree, UniqueFd epoll, std::vector<std::string> notes);
  [[nodiscard]] Watch* find(CgroupId cgroup);
  Result<Watch*> open_watch(const Line& line);
  Result<void> arm_line(const Line& line);

  const kernel::CgroupTree& tree_;
  UniqueFd epoll_;
  std::vector<std::unique_ptr<Watch>> watches_;
  std::vector<std::string> notes_;
  std::string buffer_;
};

}  // namespace forestall::sources
