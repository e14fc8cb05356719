// SPDX-License-Identifier: Apache-2.0
// Wake source: PSI triggers on the node's memory pressure and on that of each watched cgroup.
//
// Pressure is not evidence that a line is near (CPU throttling raises it too), and rises when
// reclaim has begun, which may be after the line. It is the backstop that works on every kernel
// with PSI, on v2, and on hybrid hosts for cgroups that exist in the cgroup2 mount as well.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "sources/source.h"

namespace forestall::sources {

class PsiSource final : public Source {
 public:
  // Refused when PSI is off or triggers are not permitted. `tree` must outlive the source.
  static Result<std::unique_ptr<Source>> create(const kernel::CgroupTree& tree,
                                                const std::string& proc = "/proc");
  ~PsiSource() override;

  [[nodiscard]] Feature feature() const override { return Feature::psi_trigger; }
  [[nodiscard]] int fd() const override { return epoll_.get(); }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;

  // The window the kernel granted on the node's file.
  [[nodiscard]] Duration window() const;

 private:
  struct Watch;
  PsiSource(const kernel::CgroupTree& tree, UniqueFd epoll);
  [[nodiscard]] Watch* find(CgroupId cgroup);
  Result<void> add(std::unique_ptr<Watch> watch);
  Result<void> arm_line(const Line& line);
  void look(Watch& watch, MonotonicTime now, std::vector<Wake>& wakes);

  const kernel::CgroupTree& tree_;
  UniqueFd epoll_;
  std::vector<std::unique_ptr<Watch>> watches_;  // the node's is the first and always there
  std::string buffer_;
};

}  // namespace forestall::sources
