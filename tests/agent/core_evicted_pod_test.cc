// SPDX-License-Identifier: Apache-2.0
// A container that starts again in a pod that was killed: it is killed again if the API server
// deletes the pod, and only then.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core_on_files.h"
#include "guard_with_a_kill.h"
#include "model/stage.h"
#include "support/child.h"
#include "support/manual_clock.h"
#include "support/record_collector.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kPod = "/kubepods/poda";
constexpr const char* kNeighbour = "/kubepods/podb";

// Above every pid: PID_MAX_LIMIT of include/linux/threads.h.
constexpr pid_t kNoProcess = 4'194'305;

int idle() {
  for (;;) pause();
}

class CoreEvictedPod : public CoreOnFiles {
 protected:
  CoreEvictedPod() : CoreOnFiles{"/kubepods"} {
    files_.set_group(kPod, 8 << 20);
    files_.set_group(kNeighbour, 8 << 20);
    put(kPod, first_.pid());
    config_ = known(false);
    actuators::LadderOptions options;
    options.usable.set(static_cast<std::size_t>(Feature::pidfd));
    open(config_, clock_, options);
    start(Parts{.clock = clock_,
                .tree = tree_,
                .observer = *observer_,
                .ladder = *ladder_,
                .log = *log_,
                .sinks = {&sink_},
                .guard = guard_},
          config_);
  }
  // Two pods; `terminating`: the API server deletes both.
  static Config known(bool terminating) {
    Config config;
    config.dry_run = false;
    config.local_storage_isolation = false;
    for (const char* uid : {"a", "b"}) {
      Pod pod;
      pod.uid = pod.name = uid;
      pod.pod_namespace = "s";
      pod.terminating = terminating;
      config.known_pods.push_back(std::make_shared<const Pod>(pod));
    }
    return config;
  }
  void put(const std::string& path, pid_t pid) const {
    files_.write("cgroup" + path + "/cgroup.procs", std::to_string(pid) + "\n");
  }
  void empty(const std::string& path) const { files_.set_group(path, 4096); }

  // The pod is killed, and its memory is back.
  void kill_pod() {
    Observation read;
    observer_->add_workloads(read, kPod);
    ASSERT_EQ(read.workloads->size(), 1U);
    KillRequest request;
    request.origin = KillOrigin::guard;
    request.decision.considered.emplace_back().sample = read.workloads->front();
    request.set_victim(0);
    request.signalled = actuators::Signalled{clock_.now(), 1, mib(8)};
    guard_.kill = std::move(request);
    core_->guard_ready();
    ASSERT_TRUE(first_.wait_exit());
    empty(kPod);
    pass(clock_, seconds(1));
    ASSERT_EQ(ladder_->progress().size(), 1U);
    ASSERT_EQ(ladder_->progress().front().state, KillState::released);
  }
  [[nodiscard]] std::size_t repetitions() const {
    return static_cast<std::size_t>(std::ranges::count_if(sink_.records, [](const Record& each) {
      return each.decision.reason == Reason::pod_runs_again && !each.outcome;
    }));
  }

  test::Child first_{idle};
  test::ManualClock clock_{SystemClock().now()};
  Config config_;
  GuardWithAKill guard_;
  test::RecordCollector sink_;
};

TEST_F(CoreEvictedPod, AContainerThatStartsAgainIsKilledAgain) {
  ASSERT_NO_FATAL_FAILURE(kill_pod());
  const KillProgress before = ladder_->progress().front();
  core_->reload(known(true));
  test::Child again(idle);
  put(kPod, again.pid());
  pass(clock_, EvictedPodWatch::kInterval);
  ASSERT_TRUE(again.wait_exit());
  empty(kPod);
  pass(clock_, seconds(1));
  EXPECT_EQ(repetitions(), 1U);
  const auto record = std::ranges::find_if(sink_.records, [](const Record& each) {
    return each.decision.reason == Reason::pod_runs_again && each.outcome;
  });
  ASSERT_NE(record, sink_.records.end());
  EXPECT_EQ(record->outcome->victim.pod_uid, "a");
  EXPECT_EQ(record->outcome->state, KillState::released);
  EXPECT_EQ(record->decision.action, Action::kill);
  // It is for no crossing, so it is no reaction to one.
  EXPECT_GE(record->stages.crossed, from_ns(1));
  const StageLengths lengths = stage_lengths(*record);
  EXPECT_EQ(lengths[static_cast<std::size_t>(Stage::wake)], std::nullopt);
  EXPECT_EQ(lengths[static_cast<std::size_t>(Stage::reaction)], std::nullopt);
  // The policy counts both as the kill that it decided.
  ASSERT_EQ(ladder_->progress().size(), 1U);
  EXPECT_EQ(ladder_->progress().front(), before);
}

TEST_F(CoreEvictedPod, WhileThePodIsNotDeletedItRuns) {
  ASSERT_NO_FATAL_FAILURE(kill_pod());
  test::Child again(idle);
  put(kPod, again.pid());
  pass(clock_, seconds(1));
  EXPECT_FALSE(again.ended());
  core_->reload(known(true));
  pass(clock_, EvictedPodWatch::kInterval);
  EXPECT_TRUE(again.wait_exit()) << "the eviction was accepted a little later";
}

// The eviction was refused. Then something else deletes the pod, such as a rolling update.
TEST_F(CoreEvictedPod, ALaterDeletionLetsItsContainersEndGracefully) {
  ASSERT_NO_FATAL_FAILURE(kill_pod());
  test::Child again(idle);
  put(kPod, again.pid());
  pass(clock_, EvictedPodWatch::kWatchedFor);
  core_->reload(known(true));
  pass(clock_, seconds(5));
  EXPECT_FALSE(again.ended());
  EXPECT_EQ(repetitions(), 0U);
}

TEST_F(CoreEvictedPod, AnotherPodThatIsDeletedRunsToItsEnd) {
  test::Child other(idle);
  put(kNeighbour, other.pid());
  ASSERT_NO_FATAL_FAILURE(kill_pod());
  core_->reload(known(true));
  pass(clock_, seconds(5));
  EXPECT_FALSE(other.ended());
  EXPECT_EQ(repetitions(), 0U);
}

TEST_F(CoreEvictedPod, APodThatIsProtectedSinceIsLeftAlone) {
  ASSERT_NO_FATAL_FAILURE(kill_pod());
  Config protects = known(true);
  protects.pod_rules.push_back({"a", {}, {}, {}, true});
  core_->reload(protects);
  test::Child again(idle);
  put(kPod, again.pid());
  pass(clock_, seconds(5));
  EXPECT_FALSE(again.ended());
}

TEST_F(CoreEvictedPod, RepetitionsAreBounded) {
  ASSERT_NO_FATAL_FAILURE(kill_pod());
  core_->reload(known(true));
  for (std::uint32_t i = 0; i < EvictedPodWatch::kRepetitionsMax; ++i) {
    test::Child again(idle);
    put(kPod, again.pid());
    pass(clock_, EvictedPodWatch::kInterval);
    ASSERT_TRUE(again.wait_exit()) << i;
    empty(kPod);
    pass(clock_, milliseconds(100));
  }
  test::Child last(idle);
  put(kPod, last.pid());
  ASSERT_LT(clock_.now(), ladder_->progress().front().started + EvictedPodWatch::kWatchedFor);
  pass(clock_, seconds(2));
  EXPECT_FALSE(last.ended());
  EXPECT_EQ(repetitions(), EvictedPodWatch::kRepetitionsMax);
}

// It was in the list of the cgroup, and is gone before it is opened.
TEST_F(CoreEvictedPod, WhatHasEndedAlreadyIsNoRepetition) {
  ASSERT_NO_FATAL_FAILURE(kill_pod());
  const KillProgress before = ladder_->progress().front();
  core_->reload(known(true));
  put(kPod, kNoProcess);
  pass(clock_, milliseconds(700));
  EXPECT_EQ(repetitions(), 0U);
  ASSERT_EQ(ladder_->progress().size(), 1U);
  EXPECT_EQ(ladder_->progress().front(), before);
  test::Child again(idle);
  put(kPod, again.pid());
  pass(clock_, EvictedPodWatch::kInterval);
  EXPECT_TRUE(again.wait_exit()) << "the attempts in vain do not count";
  EXPECT_EQ(repetitions(), 1U);
}

TEST_F(CoreEvictedPod, WhatStartsSecondsLaterIsLeftAlone) {
  ASSERT_NO_FATAL_FAILURE(kill_pod());
  core_->reload(known(true));
  pass(clock_, EvictedPodWatch::kWatchedFor);
  test::Child later(idle);
  put(kPod, later.pid());
  pass(clock_, seconds(5));
  EXPECT_FALSE(later.ended());
  EXPECT_EQ(repetitions(), 0U);
}

}  // namespace
}  // namespace forestall::agent
