// SPDX-License-Identifier: Apache-2.0
// Wake source on the BPF programs: usage over an armed line, reclaim and stalls near a watched
// cgroup, the kernel's OOM kills, workloads that were created or removed.
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

  // Arms the next line of each subject: a warning line or a threshold. Arming is one store, so the
  // threshold is armed right after the evaluation that follows a warning. A line that is already
  // met wakes the loop once. While it stays met, only further growth by kGrowthStep wakes the loop
  // again; otherwise the loop would spin while it has nothing to do.
  Result<std::vector<std::string>> arm(std::span<const Line> lines, MonotonicTime now) override;
  // All but lines that count free swap, and those on MemAvailable where the programs cannot compute
  // it, for which the node's working set is watched. Nor while the programs and /proc/meminfo
  // differ by more than memory moves between the two readings.
  [[nodiscard]] bool covers(const Line& line) const override;
  // The node's counters include inactive file pages, those of cgroups do not.
  [[nodiscard]] bool follows(const Line& line) const override;
  void drain(MonotonicTime now, std::vector<Wake>& wakes) override;
  // The kernel's OOM kills of all drains since the last call, with the paths that DrainPaths could
  // resolve. Above kKillsMax the oldest are dropped.
  [[nodiscard]] std::vector<OomKillEvent> take_kills() override {
    return std::exchange(kills_, {});
  }

  [[nodiscard]] std::vector<SourceReadings> take_crossings() override {
    return std::exchange(crossings_, {});
  }
  // By the timer: of each subject the last one below its line and the last one at or above it.
  [[nodiscard]] std::vector<SourceReadings> last_readings() const override;

  static constexpr Bytes kGrowthStep = mib(16);
  static constexpr std::size_t kKillsMax = 4096;

 private:
  // State of one subject from one arm() to the next.
  struct SubjectState {
    std::optional<kernel::CgroupDir> directory;  // nullopt: of the node
    std::optional<Bytes> line;                   // as armed, in the kernel's counter
    bool met = false;                            // at the last arm()
    bool fired = false;                          // since the last arm()
  };

  // One of the node's two subjects, as of the last arm().
  struct NodeCounter {
    // What is added to the programs' amount to get what the observer reads.
    Bytes shift{0};
    // How far it was from that, either way, when its line was placed.
    std::optional<Bytes> differs;
  };

  // The subject whose counter the line is placed in.
  [[nodiscard]] CgroupId subject_of(const Line& line) const;
  [[nodiscard]] bool has_counter(const Line& line) const;
  // Opens new subjects and closes those without a line; returns those that could not be opened.
  std::vector<std::string> take_subjects(const std::map<CgroupId, Line>& lowest);
  // The lines as the node's counters were observed.
  void take_observed(std::span<const Line> lines);
  // Where `line` lies in the kernel's counter of `id`; its previous place if it need not move.
  Result<Bytes> place(CgroupId id, const SubjectState& subject, const Line& line);
  Result<Bytes> place_working_set(Bytes distance);
  Result<Bytes> place_taken(const Line& line, bool still_met);

  void take_crossing(const abi_event& event);
  void add_crossing(SourceReadings seen, std::vector<SourceReadings>& to) const;
  void take_kill(const abi_event& event, DrainPaths& paths);

  kernel::BpfPrograms& programs_;
  const kernel::CgroupTree& tree_;
  std::map<CgroupId, SubjectState> subjects_;
  std::vector<OomKillEvent> kills_;
  // The node's working set at the last arm(), as the observer had read it; nullopt: no line has it.
  std::optional<Bytes> node_observed_;
  NodeCounter working_set_;
  NodeCounter taken_;  // of kernel::kNodeTaken
  bool doubts_taken_ = false;
  std::vector<SourceReadings> crossings_;  // at most two for each subject and arm()
};

}  // namespace forestall::sources
