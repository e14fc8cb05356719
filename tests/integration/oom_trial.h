// SPDX-License-Identifier: Apache-2.0
// Compares predictions with real OOMs: the product reads and predicts, the test causes an OOM in a
// forest of idle processes, and the kernel's log shows the victims. A difference is reported with
// the table of all processes, so that a failure can be explained without a repetition.
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

// A value of /proc/meminfo, in pages.
[[nodiscard]] std::int64_t meminfo_pages(const std::string& key);

// Runs the product's own code from a domain to a prediction.
class OomForecast {
 public:
  enum class Path { bpf, proc };
  // `slack`: by how many pages the figures may be off where they cannot be exact. Another victim
  // within the slack is accepted. Throws if this host does not support the path.
  explicit OomForecast(Path path = Path::bpf, Pages slack = 0);

  void read_node();
  void read_memcg(const std::string& path);
  // Reads the order of equals as `forestall rank --kernel` does.
  const OomPrediction& predict();
  // After bury(): the next victim, predicted from what was read before the first kill.
  const OomPrediction& predict_next();
  // False if the order of equals matters and is unknown; /proc does not show it.
  [[nodiscard]] bool order_known() const { return order_known_; }
  // The kernel's way of counting and the evidence for it; empty without BPF.
  [[nodiscard]] const std::string& counting() const { return counting_; }
  // Whether the kernel scores by the same figures that /proc shows. Known with BPF only.
  [[nodiscard]] bool scores_by_proc_figures() const { return scores_by_proc_figures_; }

  // What was read. A test may change it before it calls predict().
  [[nodiscard]] OomScene& scene() { return scene_; }
  [[nodiscard]] const OomPrediction& prediction() const { return prediction_; }
  // Makes the kernel's victim the predicted one if it is within the slack or one of the equals.
  // False: it is neither.
  bool adopt(pid_t pid);
  // Whether it is the predicted victim, or within the slack of it with `growth` more pages.
  [[nodiscard]] bool may_choose(pid_t pid, Pages growth);
  // Removes dead processes from the scene.
  void bury(const std::vector<pid_t>& pids);

  [[nodiscard]] Pages slack() const { return slack_; }
  [[nodiscard]] pid_t pid_of(std::size_t process) const;
  [[nodiscard]] pid_t victim() const;  // 0: none
  // The victim first, then the processes that the kernel kills with it.
  [[nodiscard]] std::vector<pid_t> expected_dead() const;
  // Path of the cgroup whose processes are all expected to be killed; empty: none.
  [[nodiscard]] std::string expected_group() const;
  // Domain, prediction and every process with its parts, points and order.
  [[nodiscard]] std::string table() const;

 private:
  void learn_orders();
  // Null: may_choose() is false.
  [[nodiscard]] ProcessSample* choosable(pid_t pid, Pages growth = 0);

  Pages slack_;
  kernel::CgroupTree tree_;
  std::string counting_;
  bool scores_by_proc_figures_ = false;
  std::unique_ptr<sources::ProcessSource> source_;
  std::unique_ptr<sources::OomSceneReader> reader_;
  OomScene scene_;
  OomPrediction prediction_;
  bool order_known_ = true;
  int foreseen_ = 0;  // kills since the last reading for which the order of equals is known
};

struct OomTally {
  int ooms = 0;       // kills that were compared with a prediction
  int matches = 0;    // as predicted, with all processes killed along
  int ties = 0;       // of these, decided by the order of the walk
  int groups = 0;     // of these, with a whole cgroup
  int undecided = 0;  // one of several equals whose order could not be predicted
  int nobodies = 0;   // no killable process, as predicted
};

// Causes OOMs in one forest until its processes are used up.
class OomTrials {
 public:
  // `forest` must outlive it.
  OomTrials(ProcessForest& forest, OomForecast& forecast, std::uint64_t seed);

  // Each causes an OOM and returns what differs from the prediction; empty: nothing.

  // Lowers the limit of `path` to just above its usage and fills it up.
  std::string fill_memcg(const std::string& path);
  // v2: sets memory.max of `path` below its usage, so that the kernel kills until the rest fits.
  std::string lower_memcg(const std::string& path);
  // Fills the whole machine until the kernel kills. Only inside a VM.
  std::string fill_node();

  // Sets how much more than its present swap a domain of fill_memcg() may use.
  void swap(Bytes more) { swap_ = more; }

  // A random cgroup of the forest as a domain, in most cases with a killable process.
  [[nodiscard]] std::string any_path();
  [[nodiscard]] const OomTally& tally() const { return tally_; }
  [[nodiscard]] Filler& filler() { return *filler_; }
  // Whether at most `reserve` killable processes are left.
  [[nodiscard]] bool used_up(int reserve = 0) const;

 private:
  std::string judge(const std::string& domain, std::optional<int> filled);
  std::string judge_kill(const std::string& domain);
  [[nodiscard]] bool wait_for_line();
  [[nodiscard]] pid_t process_of(pid_t thread) const;
  std::string judge_dead(const std::vector<pid_t>& expected);
  std::string fail(const std::string& what) const;
  void limit_swap(const std::string& path);
  void join_below(const std::string& path);
  void collect();
  void add(std::vector<OomLine> lines);
  [[nodiscard]] bool is_buried(const OomLine& line) const;

  ProcessForest& forest_;
  OomForecast& forecast_;
  Dice dice_;
  std::unique_ptr<Filler> filler_ = std::make_unique<Filler>();
  KernelLog log_;
  std::optional<Bytes> swap_;
  std::vector<OomLine> lines_;
  std::vector<pid_t> buried_;  // dead, by earlier kills of this forest
  std::size_t cursor_ = 0;
  OomTally tally_;
};

}  // namespace forestall::test
