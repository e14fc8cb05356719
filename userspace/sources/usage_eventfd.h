// SPDX-License-Identifier: Apache-2.0
// Wake source: cgroup v1 thresholds on memory.usage_in_bytes, one per line and one per warning
// line. Each has its own registration, because moving one takes up to a grace period. The
// threshold's must be in place before the warning is reported, and must not wait for the next
// warning line.
//
// The kernel compares every 128 page events of a CPU (mm/memcontrol-v1.c THRESHOLDS_EVENTS_TARGET)
// and signals both directions of a crossing. A wake is therefore late by up to 128 pages per CPU
// and does not show on which side usage is. Registering takes a grace period and runs on a thread.
// A crossing in the meantime is found by reading usage after the registration.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "sources/source.h"
#include "sources/usage_arming.h"

namespace forestall::sources {

class UsageEventfd final : public Source {
 public:
  // Fails on cgroup v2, on v1 kernels without cgroup.event_control, and without permission to write
  // it; the error gives the reason. `tree` must outlive the source; `proc` is not used.
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
  UniqueFd done_;   // signalled when the arming thread has an answer
  std::map<std::pair<CgroupId, bool>, std::unique_ptr<Watch>> watches_;  // bool: early
  std::vector<std::string> notes_;  // failures of the arming thread, returned by the next arm()
  std::string buffer_;
  std::unique_ptr<UsageArming> arming_;  // last: it writes to done_
};

}  // namespace forestall::sources
