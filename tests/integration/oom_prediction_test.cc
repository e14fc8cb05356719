// SPDX-License-Identifier: Apache-2.0
// The kernel's victim when a cgroup reaches its limit, against a prediction made just before, on
// this machine. vmtests/cases/prediction_cases.cc does much more of it in the VMs.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <thread>

#include "integration/oom_trial.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

// The lowest oom_score_adj that this process may set (CAP_SYS_RESOURCE).
std::int32_t lowest_adj() {
  const std::string path = "/proc/self/oom_score_adj";
  const std::string before = read_text(path);
  std::ofstream lower(path);
  const bool allowed = static_cast<bool>(lower << -1000 << std::flush);
  std::ofstream(path) << before;
  return allowed ? -1000 : 0;
}

void expect_all_predicted(OomForecast::Path path, int equals) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  ForestShape shape;
  shape.seed = seed;
  shape.lowest_adj = lowest_adj();
  shape.equals = equals;
  shape.processes = equals > 0 ? 6 : 24;
  if (equals > 0) shape.whole_one_in = 100;  // otherwise all die at once
  ProcessForest forest(shape);
  // From 6.2 to 7.1 the kernel scores by approximate counters, and /proc shows exact ones: four
  // counters, each off by a batch of 32 pages per CPU.
  const auto cpus = static_cast<Pages>(std::thread::hardware_concurrency());
  OomForecast forecast(path, path == OomForecast::Path::proc ? 4 * cpus * 32 : 0);
  OomTrials trials(forest, forecast, seed);
  for (int i = 0; i < 16 && !trials.used_up(); ++i) {
    ASSERT_EQ(trials.fill_memcg(equals > 0 || i % 2 == 0 ? forest.root() : trials.any_path()), "");
  }
  const OomTally& tally = trials.tally();
  fmt::print("@metric ooms {}\n@metric ties {}\n", tally.ooms, tally.ties);
  EXPECT_GT(tally.ooms, 0);
  EXPECT_EQ(tally.matches, tally.ooms);
  if (path == OomForecast::Path::bpf) {
    EXPECT_EQ(tally.undecided, 0);
  }
  EXPECT_GE(tally.ties, std::min(equals, tally.ooms) / 2);
}

TEST(OomPrediction, NamesTheVictimsOfMemcgs) {
  expect_all_predicted(OomForecast::Path::bpf, 0);
}
TEST(OomPrediction, NamesTheVictimsOfMemcgsWithoutBpf) {
  expect_all_predicted(OomForecast::Path::proc, 0);
}
TEST(OomPrediction, NamesTheLastOfEquals) {
  expect_all_predicted(OomForecast::Path::bpf, 10);
}

}  // namespace
}  // namespace forestall::test
