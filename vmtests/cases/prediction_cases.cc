// SPDX-License-Identifier: Apache-2.0
// Prediction against the kernel: real OOMs of memory cgroups and of the whole machine, in random
// trees of random processes. Each must kill the process that the product predicted. Each case can
// be repeated from the seed that it prints: --env FORESTALL_SEED=N. --env FORESTALL_OOMS=4 makes
// four times as many OOMs, hundreds in a guest.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "integration/oom_trial.h"
#include "support/child.h"
#include "support/temp_tree.h"
#include "support/zram_swap.h"

namespace forestall::vm {
namespace {

using test::ForestShape;
using test::KernelSetting;
using test::OomForecast;
using test::OomTally;
using test::OomTrials;
using test::ProcessForest;
using test::ZramSwap;

// The machine panics without a killable process, and one step may kill several.
constexpr int kReserve = 6;

// OOMs of a case. An emulated kernel takes a second for one.
int wanted(int ooms) {
  const char* factor = std::getenv("FORESTALL_OOMS");
  return factor != nullptr ? ooms * std::atoi(factor) : ooms;
}

std::uint64_t first_seed() {
  const char* asked = std::getenv("FORESTALL_SEED");
  const std::uint64_t seed =
      asked != nullptr ? std::strtoull(asked, nullptr, 0) : std::random_device{}();
  fmt::print("seed {}\n", seed);
  return seed;
}

// The test must survive every OOM. The kernel's messages of hundreds of OOMs would take longer on
// the serial line than everything else.
class Remaining {
 public:
  Remaining() : before_(test::read_text(kPath)) { std::ofstream(kPath) << -1000; }
  Remaining(const Remaining&) = delete;
  Remaining& operator=(const Remaining&) = delete;
  ~Remaining() { std::ofstream(kPath) << before_; }

 private:
  static constexpr const char* kPath = "/proc/self/oom_score_adj";
  std::string before_;
  KernelSetting quiet_{"/proc/sys/kernel/printk", "1 4 1 7"};
  KernelSetting short_{"/proc/sys/vm/oom_dump_tasks", "0"};
  // A move to another cgroup waits for a grace period, which would take most of the time.
  KernelSetting hasty_{"/sys/kernel/rcu_expedited", "1"};
};

void add(OomTally& sum, const OomTally& more) {
  sum.ooms += more.ooms;
  sum.matches += more.matches;
  sum.ties += more.ties;
  sum.groups += more.groups;
  sum.undecided += more.undecided;
  sum.nobodies += more.nobodies;
}

void print(const OomTally& tally) {
  fmt::print(
      "@metric ooms {}\n@metric matches {}\n@metric ties {}\n@metric groups {}\n"
      "@metric undecided {}\n@metric no_victim {}\n",
      tally.ooms, tally.matches, tally.ties, tally.groups, tally.undecided, tally.nobodies);
}

class Prediction : public testing::Test {
 protected:
  explicit Prediction(Pages slack = 0) : forecast_(OomForecast::Path::bpf, slack) {}

  // Makes one forest after another until there were so many OOMs. `step` causes one and returns the
  // difference from the prediction.
  template <typename Step>
  void run(int usual, ForestShape shape, const Step& step, int reserve = 0) {
    const int ooms = wanted(usual);
    fmt::print("the kernel scores by what is {}\n", forecast_.counting());
    OomTally sum;
    for (std::uint64_t seed = first_seed(); sum.ooms < ooms; ++seed) {
      SCOPED_TRACE(fmt::format("forest of seed {}", seed));
      shape.seed = seed;
      ProcessForest forest(shape);
      OomTrials trials(forest, forecast_, seed);
      while (!trials.used_up(reserve) && sum.ooms + trials.tally().ooms < ooms) {
        ASSERT_EQ(step(forest, trials), "");
      }
      add(sum, trials.tally());
      fmt::print("forest of seed {}: {} OOMs\n", seed, trials.tally().ooms);
      std::fflush(stdout);  // shows progress, and the last state of a machine that died
    }
    print(sum);
    EXPECT_EQ(sum.matches, sum.ooms);
    EXPECT_TRUE(sum.undecided == 0 || forecast_.slack() > 0);
    tally_ = sum;
  }

  Remaining survivor_;
  OomForecast forecast_;
  OomTally tally_;
};

TEST_F(Prediction, MemoryCgroups) {
  constexpr int kRuns = 4;  // in one, no OOM may be of a group that dies as a whole
  for (int i = 0; i < kRuns && tally_.groups == 0; ++i) {
    run(50, {},
        [](ProcessForest&, OomTrials& trials) { return trials.fill_memcg(trials.any_path()); });
    if (HasFailure() || test::mounts().v1) return;
  }
  EXPECT_GT(tally_.groups, 0);
}

TEST_F(Prediction, LoweredLimits) {
  if (test::mounts().v1) GTEST_SKIP() << "not applicable: v1 refuses a limit below the usage";
  run(12, {},
      [](ProcessForest&, OomTrials& trials) { return trials.lower_memcg(trials.any_path()); });
}

TEST_F(Prediction, EqualsInMemoryCgroups) {
  ForestShape shape;
  shape.processes = 4;
  shape.equals = 24;
  run(20, shape,
      [](ProcessForest& forest, OomTrials& trials) { return trials.fill_memcg(forest.root()); });
  EXPECT_GE(tally_.ties, tally_.ooms / 2);
}

TEST_F(Prediction, TheNode) {
  ForestShape shape;
  shape.processes = 60;
  shape.most_pages = 1024;
  shape.whole_one_in = 12;
  run(
      10, shape, [](ProcessForest&, OomTrials& trials) { return trials.fill_node(); }, kReserve);
}

TEST_F(Prediction, EqualsOnTheNode) {
  ForestShape shape;
  shape.processes = 4;
  shape.equals = 16;
  shape.whole_one_in = 12;
  shape.most_pages = 1024;
  run(
      6, shape, [](ProcessForest&, OomTrials& trials) { return trials.fill_node(); }, kReserve);
  EXPECT_GE(tally_.ties, tally_.ooms / 2);
}

// Swapping out anonymous pages does not change the sums of their processes; but where the kernel's
// counters are approximate, their errors change.
class PredictionWithSwap : public Prediction {
 protected:
  PredictionWithSwap() : Prediction(256) {}
  ZramSwap swap_{mib(64)};
};

TEST_F(PredictionWithSwap, MemoryCgroups) {
  ForestShape shape;
  shape.most_pages = 1024;
  shape.corners = false;
  run(16, shape, [](ProcessForest&, OomTrials& trials) {
    trials.swap(mib(4));
    return trials.fill_memcg(trials.any_path());
  });
  EXPECT_LE(tally_.undecided * 4, tally_.ooms);
}

TEST_F(Prediction, OomControlOfV1) {
  if (!test::mounts().v1) GTEST_SKIP() << "not applicable: v2 has no memory.oom_control";
  ForestShape shape;
  shape.seed = first_seed();
  shape.processes = 6;
  ProcessForest forest(shape);
  OomTrials trials(forest, forecast_, shape.seed);
  forest.groups().write(forest.root(), "memory.oom_control", "1");
  EXPECT_EQ(trials.fill_memcg(forest.root()), "");
  EXPECT_EQ(forecast_.prediction().verdict, OomVerdict::disabled);
  EXPECT_EQ(trials.tally().ooms, 0);
  forest.groups().write(forest.root(), "memory.oom_control", "0");
  EXPECT_EQ(trials.fill_memcg(forest.root()), "");
  // One step may cause another kill before the memory of the first victim is back.
  EXPECT_GE(trials.tally().matches, 1);
  EXPECT_EQ(trials.tally().matches, trials.tally().ooms);
}

TEST_F(Prediction, PanicOnOomIsNotForMemoryCgroups) {
  ForestShape shape;
  shape.seed = first_seed();
  ProcessForest forest(shape);
  OomTrials trials(forest, forecast_, shape.seed);
  {
    const KernelSetting panic("/proc/sys/vm/panic_on_oom", "1");
    forecast_.read_node();
    EXPECT_EQ(forecast_.predict().verdict, OomVerdict::panics);
    EXPECT_EQ(trials.fill_memcg(forest.root()), "");
  }
  EXPECT_GE(trials.tally().matches, 1);
  const KernelSetting always("/proc/sys/vm/panic_on_oom", "2");
  forest.groups().limit(forest.root(), gib(1));
  forecast_.read_memcg(forest.root());
  EXPECT_EQ(forecast_.predict().verdict, OomVerdict::panics);
}

TEST_F(Prediction, KillsTheAllocatingProcessIfConfigured) {
  ForestShape shape;
  shape.seed = first_seed();
  ProcessForest forest(shape);
  OomTrials trials(forest, forecast_, shape.seed);
  const KernelSetting allocating("/proc/sys/vm/oom_kill_allocating_task", "1");
  EXPECT_EQ(trials.fill_memcg(forest.root()), "");  // does not apply to a memcg
  ASSERT_GE(trials.tally().matches, 1);

  test::KernelLog log;
  // In a cgroup of its own, so that no other process is killed with it.
  if (!test::mounts().v1) forest.groups().write(forest.root(), "memory.oom.group", "0");
  test::Hog hog(forest.groups(), forest.groups().child("hog"), mib(1));
  std::ofstream("/proc/" + std::to_string(hog.pid()) + "/oom_score_adj") << -900;
  forecast_.read_node();
  forecast_.scene().allocating = hog.pid();
  EXPECT_EQ(forecast_.predict().verdict, OomVerdict::kills_allocating);
  ASSERT_EQ(forecast_.victim(), hog.pid());
  // The filler takes all but what the hog then allocates, so that the hog runs out of memory.
  ASSERT_EQ(trials.filler().hold(test::meminfo_pages("MemAvailable") - 16'384), 0);
  hog.grow(gib(4));
  ASSERT_TRUE(hog.child().wait_exit());
  trials.filler().drop();
  std::string said;
  std::vector<pid_t> killed;
  for (const test::OomLine& line : log.take()) {
    said += line.text + "\n";
    if (line.kind == test::OomLine::Kind::killed) killed.push_back(line.pid);
  }
  EXPECT_EQ(killed, std::vector<pid_t>{hog.pid()}) << said;
  EXPECT_NE(said.find("oom_kill_allocating_task"), std::string::npos) << said;
  EXPECT_TRUE(forest.ended().empty());
}

}  // namespace
}  // namespace forestall::vm
