// SPDX-License-Identifier: Apache-2.0
// Wakes from the BPF programs: usage that reached its line, reclaim and stalls around a watched
// cgroup, the kernel's OOM killer, workloads that came and went.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernel/bpf_programs.h"
#include "kernel/cgroup_tree.h"
#include "model/oom_kill.h"
#include "sources/drain_paths.h"
#include "sources/source.h"

namespace forestall::sources {

class BpfSource final : public Source {
 public:
  // Both must outlive the source. `programs` has `bpf` in use.
  BpfSource(kernel::BpfPrograms& programs, const kernel::CgroupTree& tree)
      : programs_(programs), tree_(tree) {}

  [[nodiscard]] Feature feature() const override { return Feature::bpf; }
  [[nodiscard]] int fd() const override { return programs_.ring_fd(); }

  // The next line of each subject is armed, a warning line or a threshold's: arming is a store, so
  // that after a warning the threshold is armed as soon as the loop has looked. One that is already
  // met is told once; after that, for
  // as long as it stays met, only growth by another kGrowthStep of usage is told: the loop has
  // looked at the rest already, and telling it again would keep it spinning for as long as it can
  // do nothing.
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;
  // The kernel's OOM kills told by all drains since the last call; with the paths of what was still
  // there then, as far as DrainPaths goes. More than kKillsMax at once: the oldest are dropped.
  [[nodiscard]] std::vector<OomKillSighting> take_kills() override {
    return std::exchange(kills_, {});
  }

  static constexpr Bytes kGrowthStep = mib(16);
  static constexpr std::size_t kKillsMax = 4096;

 private:
  // What is known about one subject from one arm() to the next.
  struct Subject {
    std::optional<kernel::CgroupDir> directory;  // nothing: the node
    std::optional<Bytes> line;                   // as armed, in the kernel's counter
    bool met = false;                            // when it was armed last
    bool fired = false;                          // since then
  };

  // Opens what is new, closes what is no longer asked for; returns what could not be opened.
  std::vector<std::string> take_subjects(const std::map<CgroupId, Line>& lowest);
  // Where `line` lies in the kernel's counter; kept where it was if it is not to move.
  Result<Bytes> place(const Subject& subject, const Line& line) const;

  void take_kill(const abi_event& event, DrainPaths& paths);

  kernel::BpfPrograms& programs_;
  const kernel::CgroupTree& tree_;
  std::map<CgroupId, Subject> subjects_;
  std::vector<OomKillSighting> kills_;
};

}  // namespace forestall::sources
