// SPDX-License-Identifier: Apache-2.0
// Prediction against reality: hundreds of real OOMs of memory cgroups and of the whole machine, in
// random trees of random processes, and every one of them must take whom the product named before.
// Each case is repeatable from the seed it prints: --env FORESTALL_SEED=N.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "integration/oom_trial.h"
#include "support/temp_tree.h"

namespace forestall::vm {
namespace {

using test::ForestShape;
using test::KernelSetting;
using test::OomForecast;
using test::OomTally;
using test::OomTrials;
using test::ProcessForest;

// With nobody left to kill, the machine panics: one step may take a few.
constexpr int kReserve = 6;

std::uint64_t first_seed() {
  const char* asked = std::getenv("FORESTALL_SEED");
  const std::uint64_t seed =
      asked != nullptr ? std::strtoull(asked, nullptr, 0) : std::random_device{}();
  fmt::print("seed {}\n", seed);
  return seed;
}

// The test itself must outlive every OOM; and what the kernel tells about hundreds of them would
// take longer on the serial line than all the rest.
class Survivor {
 public:
  Survivor() : before_(test::read_text(kPath)) { std::ofstream(kPath) << -1000; }
  Survivor(const Survivor&) = delete;
  Survivor& operator=(const Survivor&) = delete;
  ~Survivor() { std::ofstream(kPath) << before_; }

 private:
  static constexpr const char* kPath = "/proc/self/oom_score_adj";
  std::string before_;
  KernelSetting quiet_{"/proc/sys/kernel/printk", "1 4 1 7"};
  KernelSetting short_{"/proc/sys/vm/oom_dump_tasks", "0"};
  // Who is moved to a cgroup waits for a grace period: otherwise most of the time goes there.
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
      "@metric nobody_killable {}\n",
      tally.ooms, tally.matches, tally.ties, tally.groups, tally.nobodies);
}

class Prediction : public testing::Test {
 protected:
  // A forest after the other until there were so many OOMs. `step` makes one and says what was
  // wrong.
  template <typename Step>
  void run(int ooms, ForestShape shape, const Step& step, int reserve = 0) {
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
      std::fflush(stdout);  // for whoever waits, and for what is left of a machine that died
    }
    print(sum);
    EXPECT_EQ(sum.matches, sum.ooms);
    EXPECT_EQ(sum.undecided, 0);
    tally_ = sum;
  }

  Survivor survivor_;
  OomForecast forecast_;
  OomTally tally_;
};

TEST_F(Prediction, MemoryCgroups) {
  run(200, {},
      [](ProcessForest&, OomTrials& trials) { return trials.fill_memcg(trials.any_path()); });
  EXPECT_TRUE(tally_.groups > 0 || test::mounts().v1);
}

TEST_F(Prediction, LoweredLimits) {
  if (test::mounts().v1) GTEST_SKIP() << "not applicable: v1 refuses a limit below the usage";
  run(40, {},
      [](ProcessForest&, OomTrials& trials) { return trials.lower_memcg(trials.any_path()); });
}

TEST_F(Prediction, EqualsInMemoryCgroups) {
  ForestShape shape;
  shape.processes = 4;
  shape.equals = 24;
  run(60, shape,
      [](ProcessForest& forest, OomTrials& trials) { return trials.fill_memcg(forest.root()); });
  EXPECT_GE(tally_.ties, 30);
}

TEST_F(Prediction, TheNode) {
  ForestShape shape;
  shape.most_pages = 2048;
  run(
      40, shape, [](ProcessForest&, OomTrials& trials) { return trials.fill_node(); }, kReserve);
}

TEST_F(Prediction, EqualsOnTheNode) {
  ForestShape shape;
  shape.processes = 4;
  shape.equals = 16;
  shape.most_pages = 1024;
  run(
      12, shape, [](ProcessForest&, OomTrials& trials) { return trials.fill_node(); }, kReserve);
  EXPECT_GE(tally_.ties, 6);
}

}  // namespace
}  // namespace forestall::vm
