// SPDX-License-Identifier: Apache-2.0
// Wake source: cgroup v1 thresholds on memory.usage_in_bytes, one per line and one per warning
// line. Each has a registration of its own: as one takes up to a grace period to move, the
// threshold's must stand before the warning is told, and must not wait for the next warning line.
//
// The kernel compares every 128 page events of a CPU (mm/memcontrol-v1.c THRESHOLDS_EVENTS_TARGET)
// and tells both directions of a crossing, so a wake is late by up to 128 pages per CPU and says
// nothing about which side we are on. Registering takes a grace period and happens on a thread; a
// crossing in the meantime is found by reading usage once the registration stands.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "sources/source.h"
#include "sources/usage_arming.h"

namespace forestall::sources {

class UsageEventfd final : public Source {
 public:
  // Refused on cgroup v2, on v1 kernels without cgroup.event_control, and without permission to
  // write it; the error says which. `tree` must outlive the source; `proc` is not used.
  static Result<std::unique_ptr<Source>> create(const kernel::CgroupTree& tree,
                                                const std::string& proc = "/proc");
  ~UsageEventfd() override;

  [[nodiscard]] Feature feature() const override { return Feature::usage_eventfd; }
  [[nodiscard]] int fd() const override { return epoll_.get(); }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;

 private:
  struct Watch;
  UsageEventfd(const kernel::CgroupTree& tree, UniqueFd epoll, UniqueFd done);
  [[nodiscard]] Watch* find(CgroupId cgroup, bool early);
  Result<Watch*> open_watch(const Line& line, bool early);
  Result<void> arm_line(const Line& line, bool early);
  void install(UsageArming::Answer& answer, MonotonicTime now, std::vector<Wake>& wakes);
  void collect_answers(MonotonicTime now, std::vector<Wake>& wakes);
  void report(Watch& watch, MonotonicTime now, std::vector<Wake>& wakes);

  const kernel::CgroupTree& tree_;
  UniqueFd epoll_;  // the eventfds of all watches, and done_
  UniqueFd done_;   // the arming thread has an answer
  std::vector<std::unique_ptr<Watch>> watches_;
  std::vector<std::string> notes_;  // failures of the arming thread, told by the next arm()
  std::string buffer_;
  std::unique_ptr<UsageArming> arming_;  // last: it writes to done_
};

}  // namespace forestall::sources
