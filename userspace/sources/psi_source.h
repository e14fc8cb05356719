// SPDX-License-Identifier: Apache-2.0
// Wake source: PSI triggers on the node's memory pressure and on that of each watched cgroup.
//
// Pressure does not show that a line is near: CPU throttling raises it too. It rises once reclaim
// has begun, which may be after the line. PSI is the fallback for every kernel that has it: on v2,
// and on hybrid hosts for cgroups that also exist in the cgroup2 mount.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "sources/descriptor_closer.h"
#include "sources/source.h"

namespace forestall::sources {

class PsiSource final : public Source {
 public:
  // Fails if PSI is off, if triggers are not permitted, or without a thread that closes them.
  // `tree` must outlive the source.
  static Result<std::unique_ptr<Source>> create(const kernel::CgroupTree& tree,
                                                const std::string& proc = "/proc");
  ~PsiSource() override;

  [[nodiscard]] Feature feature() const override { return Feature::psi_trigger; }
  [[nodiscard]] int fd() const override { return epoll_.get(); }
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;

  // The window that the kernel granted on the node's file.
  [[nodiscard]] Duration window() const;

 private:
  struct Watch;
  PsiSource(const kernel::CgroupTree& tree, UniqueFd epoll,
            std::unique_ptr<DescriptorCloser> closer);
  template <typename IsUnwanted>
  void drop(IsUnwanted is_unwanted);
  [[nodiscard]] Watch* find(CgroupId cgroup);
  Result<void> add(std::unique_ptr<Watch> watch);
  Result<void> arm_line(const Line& line);
  void evaluate(Watch& watch, MonotonicTime now, std::vector<Wake>& wakes);

  const kernel::CgroupTree& tree_;
  UniqueFd epoll_;
  const std::unique_ptr<DescriptorCloser> closer_;
  std::map<CgroupId, std::unique_ptr<Watch>> watches_;  // the first is the node's and always exists
  std::string buffer_;
};

}  // namespace forestall::sources
