// SPDX-License-Identifier: Apache-2.0
// Whom the kernel would kill, kept at hand: for the node, for the pods cgroup and for each watched
// cgroup that has a limit. A memory cgroup that nobody watches can run out as well; for those there
// is no foresight.
//
// A round reads and predicts some domains on a thread of ordinary priority, so that neither a scan
// of /proc that takes its time nor a process that exits slowly ever stands between a crossing and a
// kill. What a round may cost is bounded by what the last one did:
// - near a line, or when the kernel is about to choose or has chosen, the next one begins no sooner
//   than 20 times the length of the last after its end: 5 % of one CPU;
// - else no sooner than 10,000 times that length (0.01 %), and only with a look that happens
// anyway:
//   an agent at rest is not woken for it.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "kernel/job_thread.h"
#include "model/decision.h"
#include "model/observation.h"
#include "model/oom.h"
#include "model/oom_kill.h"
#include "sources/oom_scene.h"
#include "sources/process_source.h"

namespace forestall::agent {

// Thread rule: all calls come from the loop's thread.
class Foresight {
 public:
  // Domains in one round. The rest have their turn in the next.
  static constexpr std::size_t kRoundMax = 16;
  // Domains of which a prediction is kept; the oldest goes first.
  static constexpr std::size_t kKeptMax = 256;
  // Processes remembered to die with a victim.
  static constexpr std::size_t kAlsoMax = 4096;

  // `tree` must outlive it; `proc` and `sys` are as for OomSceneReader.
  static Result<std::unique_ptr<Foresight>> create(
      const kernel::CgroupTree& tree, std::unique_ptr<sources::ProcessSource> processes,
      const Clock& clock, const std::string& proc = "/proc",
      const std::string& sys = "/sys/devices/system");
  Foresight(const Foresight&) = delete;
  // Waits for a round under way.
  ~Foresight();

  // One domain's answer in a round that is over, for the log.
  struct Answer {
    std::string path;
    OomVerdict verdict = OomVerdict::nobody;
    std::optional<ProcessId> victim;
    Duration took{0};
  };

  // Readable when a round is over: call collect(), which takes over what it found.
  [[nodiscard]] int fd() const { return thread_->fd(); }
  std::vector<Answer> collect();

  // After each look that began no kill. Costs a comparison per threshold, and nothing is read here.
  void looked(const Observation& observation, const Decision& decision);
  // When a round that was asked for may begin; nothing while none waits.
  [[nodiscard]] std::optional<MonotonicTime> next_look() const;
  // That time has come.
  void time_passed();

  // What was predicted for the domain of this kill when it happened, and whether it was right.
  // Nothing when there was no prediction, or when the last one had come true before: it said who is
  // first, not who is next.
  [[nodiscard]] std::optional<OomForesight> of(const OomKillSighting& kill);

 private:
  struct Domain {
    CgroupId cgroup;  // inode 0: the node
    std::string path;
  };
  struct Prediction {
    MonotonicTime began, ended;  // reading
    OomVerdict verdict = OomVerdict::nobody;
    std::optional<ProcessId> victim;
    std::vector<ProcessId> also;
    bool used = false;  // the kernel has killed in the domain since
  };
  struct Kept {
    std::string path;
    MonotonicTime tried;  // when its last round began, whatever came of it
    // The last, and the one before: a kill may be told after a scan that began later.
    std::array<std::optional<Prediction>, 2> predictions;
  };
  struct Found {
    Domain domain;
    Prediction prediction;
  };

  Foresight(const kernel::CgroupTree& tree, std::unique_ptr<sources::ProcessSource> processes,
            const Clock& clock, const std::string& proc, const std::string& sys);
  [[nodiscard]] std::vector<Domain> domains_of(const Observation& observation) const;
  void ask(std::vector<Domain> domains, Duration rest);
  void start();
  void keep(const Found& found);
  [[nodiscard]] Kept* find(const OomKillSighting& kill);
  // When the domain had its last turn; the beginning of time: never.
  [[nodiscard]] MonotonicTime tried_at(CgroupId cgroup) const;
  void forget_oldest();
  void predict_all();                          // on the thread
  void predict_scene(Prediction& prediction);  // on the thread

  const Clock& clock_;
  // The loop's.
  std::map<CgroupId, Kept> kept_;
  std::vector<Domain> wanted_;  // for the next round; empty: none was asked for
  std::optional<MonotonicTime> due_;
  std::optional<MonotonicTime> ended_;  // of the last round
  Duration length_{0};                  // of it
  bool running_ = false;
  // The loop writes it before a round, the round reads it.
  std::vector<Domain> round_;
  // The round's, and the loop's to read between two of them.
  std::unique_ptr<sources::ProcessSource> processes_;
  sources::OomSceneReader reader_;
  OomScene scene_;
  std::vector<Found> found_;
  MonotonicTime round_began_, round_ended_;
  std::unique_ptr<kernel::JobThread> thread_;  // last: its job uses all of the above
};

}  // namespace forestall::agent
