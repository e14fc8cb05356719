// SPDX-License-Identifier: Apache-2.0
// Prediction against reality: the product's own reading and predicting, then a real OOM in a forest
// of processes that stand still, then what the kernel did. Whatever differs is told with the whole
// table of the processes, so that a failure can be understood without repeating it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "model/oom.h"
#include "sources/oom_scene.h"
#include "sources/process_source.h"
#include "support/filler.h"
#include "support/kernel_log.h"
#include "support/process_forest.h"

namespace forestall::test {

// An amount of /proc/meminfo, in pages.
[[nodiscard]] std::int64_t meminfo_pages(const std::string& key);

// The product's own way from a domain to a prediction.
class OomForecast {
 public:
  enum class Path { bpf, proc };
  // `slack` is how many pages the figures read may be off, where they cannot be exact: then a scene
  // is read anew before each step, and another victim that is as good within it is accepted.
  // Throws when that path cannot be used here.
  explicit OomForecast(Path path = Path::bpf, Pages slack = 0);

  void read_node();
  void read_memcg(const std::string& path);
  // The order of equals is asked for as `forestall rank --kernel` does.
  const OomPrediction& predict();
  // After bury(): whom the kernel takes next, from what was read before the first one died.
  const OomPrediction& predict_next();
  // Whether that order could be told, if it mattered. /proc does not tell it.
  [[nodiscard]] bool order_known() const { return order_known_; }
  // How the kernel counts and how that was found out; empty without BPF.
  [[nodiscard]] const std::string& counting() const { return counting_; }
  // Whether the kernel scores by the very figures that /proc shows; only BPF finds that out.
  [[nodiscard]] bool scores_by_proc_figures() const { return scores_by_proc_figures_; }

  // What was read; a test may put another value into it before it predicts.
  [[nodiscard]] OomScene& scene() { return scene_; }
  [[nodiscard]] const OomPrediction& prediction() const { return prediction_; }
  // Takes for the victim whom the kernel took, if the order of equals was not known and this is one
  // of them, or if it is within the slack. False: it is neither.
  bool adopt(pid_t pid);
  // Whether the kernel may choose it next: it is the one, or within the slack of it.
  [[nodiscard]] bool may_choose(pid_t pid);
  // Takes processes out of the scene: they are dead.
  void bury(const std::vector<pid_t>& pids);

  [[nodiscard]] Pages slack() const { return slack_; }
  [[nodiscard]] pid_t pid_of(std::size_t process) const;
  [[nodiscard]] pid_t victim() const;  // 0: nobody
  // Victim first, then who goes with it.
  [[nodiscard]] std::vector<pid_t> expected_dead() const;
  // Path of the cgroup that is expected to go as a whole; empty: none.
  [[nodiscard]] std::string expected_group() const;
  // Domain, prediction and every process with its parts, points and order.
  [[nodiscard]] std::string table() const;

 private:
  void learn_orders();
  // That process, if the kernel may choose it next; otherwise nullptr.
  [[nodiscard]] ProcessSample* choosable(pid_t pid);

  Pages slack_;
  kernel::CgroupTree tree_;
  std::string counting_;
  bool scores_by_proc_figures_ = false;
  std::unique_ptr<sources::ProcessSource> source_;
  std::unique_ptr<sources::OomSceneReader> reader_;
  OomScene scene_;
  OomPrediction prediction_;
  bool order_known_ = true;
  int foreseen_ = 0;  // kills from the last reading on whose equals have been put in order
};

struct OomTally {
  int ooms = 0;       // kills of the kernel's choice that were compared
  int matches = 0;    // as predicted, with all that went along
  int ties = 0;       // of these, where the walk's order decided
  int groups = 0;     // of these, with a whole cgroup
  int undecided = 0;  // one of several equals, and which one could not be predicted
  int nobodies = 0;   // nobody could be killed, as predicted
};

// One forest that is used up OOM by OOM.
class OomTrials {
 public:
  // `forest` must outlive it.
  OomTrials(ProcessForest& forest, OomForecast& forecast, std::uint64_t seed);

  // Each makes the kernel kill (or find nobody) and answers with what was not as predicted; empty:
  // everything was.

  // The limit of `path` goes down to just above its usage, and the filler fills it up.
  std::string fill_memcg(const std::string& path);
  // v2: memory.max of `path` is set below its usage, which kills until it fits.
  std::string lower_memcg(const std::string& path);
  // The whole machine is filled up until the kernel has killed. Only inside a VM.
  std::string fill_node();

  // From now on a domain may swap that much more than it has already (fill_memcg).
  void swap(Bytes more) { swap_ = more; }

  // A cgroup of the forest to be the domain: mostly one with somebody who can be killed.
  [[nodiscard]] std::string any_path();
  [[nodiscard]] const OomTally& tally() const { return tally_; }
  [[nodiscard]] Filler& filler() { return filler_; }
  // Whether no more than so many are left that can be killed.
  [[nodiscard]] bool used_up(int reserve = 0) const;

 private:
  std::string judge(const std::string& domain, std::optional<int> filled);
  std::string judge_kill(const std::string& domain);
  [[nodiscard]] pid_t process_of(pid_t thread) const;
  std::string judge_dead(const std::vector<pid_t>& expected);
  std::string fail(const std::string& what) const;
  void limit_swap(const std::string& path);
  void join_below(const std::string& path);
  void collect();

  ProcessForest& forest_;
  OomForecast& forecast_;
  Dice dice_;
  Filler filler_;
  KernelLog log_;
  std::optional<Bytes> swap_;
  std::vector<OomLine> lines_;
  std::size_t cursor_ = 0;
  OomTally tally_;
};

}  // namespace forestall::test
