// SPDX-License-Identifier: Apache-2.0
// Predicts the kernel OOM killer's victim for the node, for the pods cgroup and for each watched
// cgroup that has a limit. A memory cgroup that is not watched can run out as well; there is no
// prediction for it.
//
// A round reads and predicts some domains on a thread of ordinary priority, so that neither a slow
// scan of /proc nor a process that exits slowly delays a kill. The length of a round bounds the
// cost of the next:
// - near a line, or when the kernel is about to select a victim or has selected one, the next round
//   begins at the earliest 20 lengths after the end of the last: 5 % of one CPU;
// - else at the earliest 10,000 lengths after it (0.01 %), and only with an evaluation that happens
//   for another reason: a round does not wake an idle agent.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/job_thread.h"
#include "base/result.h"
#include "kernel/cgroup_tree.h"
#include "model/decision.h"
#include "model/observation.h"
#include "model/oom.h"
#include "model/oom_kill.h"
#include "sources/oom_scene.h"
#include "sources/process_source.h"

namespace forestall::agent {

// Predictions as the loop uses them. Base: there are none.
// Thread rule: all calls come from the loop's thread.
class LoopPredictor {
 public:
  // How the first of several processes with the most points was found: `none` if there is one only.
  enum class TieOrder : std::uint8_t { none, kernel, pid };

  // One domain's answer in a round that is over, for the log.
  struct Answer {
    std::string path;
    OomVerdict verdict = OomVerdict::no_victim;
    std::optional<ProcessId> victim;
    TieOrder order = TieOrder::none;
    std::string order_problem;  // why reading the kernel's order failed
    Duration took{0};
  };

  LoopPredictor() = default;
  LoopPredictor(const LoopPredictor&) = delete;
  LoopPredictor& operator=(const LoopPredictor&) = delete;
  virtual ~LoopPredictor() = default;

  // Polls readable when a round is over: call collect(), which takes its results. -1: never.
  [[nodiscard]] virtual int fd() const { return -1; }
  virtual std::vector<Answer> collect() { return {}; }
  // After each evaluation that began no kill. Costs a comparison per threshold and reads nothing.
  virtual void evaluated(const Observation&, const Decision&) {}
  // When a requested round may begin; nothing while none waits.
  [[nodiscard]] virtual std::optional<MonotonicTime> next_due() const { return std::nullopt; }
  // That time has come.
  virtual void time_passed() {}
  // The prediction for the domain of this kill when it happened, and whether it was right. Nothing
  // when there was none, or when the last one had come true before: it named the first victim, not
  // the next.
  [[nodiscard]] virtual std::optional<OomForecast> of(const OomKillEvent&) { return std::nullopt; }
};

class OomPredictor final : public LoopPredictor {
 public:
  // Domains in one round. The rest follow in the next.
  static constexpr std::size_t kRoundMax = 16;
  // Domains with a stored prediction; the oldest is dropped first.
  static constexpr std::size_t kKeptMax = 256;
  // Processes stored that die with a victim.
  static constexpr std::size_t kAlsoMax = 4096;

  // `tree` and `clock` must outlive it; `proc` and `sys` are as for OomSceneReader.
  static Result<std::unique_ptr<OomPredictor>> create(
      const kernel::CgroupTree& tree, std::unique_ptr<sources::ProcessSource> processes,
      const Clock& clock, const std::string& proc = "/proc",
      const std::string& sys = "/sys/devices/system");
  // Waits for a round under way.
  ~OomPredictor() override;

  [[nodiscard]] int fd() const override { return thread_->fd(); }
  std::vector<Answer> collect() override;
  void evaluated(const Observation& observation, const Decision& decision) override;
  [[nodiscard]] std::optional<MonotonicTime> next_due() const override;
  void time_passed() override;
  [[nodiscard]] std::optional<OomForecast> of(const OomKillEvent& kill) override;

 private:
  struct Domain {
    CgroupId cgroup;  // inode 0: the node
    std::string path;
  };
  struct Prediction {
    MonotonicTime began, ended;  // reading
    OomVerdict verdict = OomVerdict::no_victim;
    std::optional<ProcessId> victim;
    std::vector<ProcessId> also;
    TieOrder order = TieOrder::none;
    std::string order_problem;
    bool used = false;  // the kernel has killed in the domain since
  };
  struct Kept {
    std::string path;
    MonotonicTime tried;  // when its last round began, with or without a result
    // The last and the one before: a kill may be reported after a scan that began later.
    std::array<std::optional<Prediction>, 2> predictions;
  };
  struct Found {
    Domain domain;
    Prediction prediction;
  };

  OomPredictor(const kernel::CgroupTree& tree, std::unique_ptr<sources::ProcessSource> processes,
               const Clock& clock, const std::string& proc, const std::string& sys);
  [[nodiscard]] std::vector<Domain> domains_of(const Observation& observation) const;
  void request_round(std::vector<Domain> domains, Duration rest);
  void start();
  void keep(const Found& found);
  [[nodiscard]] Kept* find(const OomKillEvent& kill);
  // When the domain was last in a round; zero: never.
  [[nodiscard]] MonotonicTime tried_at(CgroupId cgroup) const;
  void forget_oldest();
  void predict_all();                          // on the thread
  void predict_scene(Prediction& prediction);  // on the thread
  void order_ties(Prediction& prediction);     // on the thread

  const Clock& clock_;
  // The loop's.
  std::map<CgroupId, Kept> kept_;
  std::vector<Domain> wanted_;  // for the next round; empty: none was requested
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
  std::unique_ptr<base::JobThread> thread_;  // last: its job uses all of the above
};

}  // namespace forestall::agent
